from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim import tokens

TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("abc  \n{}xyz")))


@given(TEXTS)
def test_pieces_joined_are_the_text_and_ids_lead_back_to_it(text: str) -> None:
    pieces = tokens.split(text)
    assert "".join(pieces) == text
    assert tokens.count(text) == len(pieces)
    assert tokens.decode(tokens.encode(text)) == text


@given(st.integers(0, tokens.VOCABULARY - 1))
def test_every_id_is_a_piece(token: int) -> None:
    assert tokens.piece_of(token)


@pytest.mark.parametrize("piece", ["\n", "Ab", "  ", " " * 16, "z", " zzzz", "\U0010ffff", "<|im_start|>"])
def test_each_kind_of_piece_has_an_id(piece: str) -> None:
    assert tokens.piece_of(tokens.identify(piece)) == piece


def test_ids_are_distinct_for_distinct_pieces() -> None:
    pieces = {
        "a",
        "aa",
        " a",
        "ab",
        " ab",
        "zzzz",
        " zzzz",
        "A",
        " A",
        "é",
        "世",
        "  ",
        "   ",
        "\n",
        "<|im_end|>",
    }
    assert len({tokens.identify(piece) for piece in pieces}) == len(pieces)


@pytest.mark.parametrize("token", [-1, tokens.VOCABULARY])
def test_an_id_out_of_vocabulary_is_named(token: int) -> None:
    with pytest.raises(ValueError, match=f"Token id {token} is out of vocabulary"):
        tokens.decode([token])


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert tokens.decode(tokens.encode("a\ud800")) == "a\ufffd"


def test_a_conversation_is_marked_turn_by_turn() -> None:
    text = tokens.render([("user", "hi")])
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokens.encode(text).count(tokens.END_OF_TURN) == 1
