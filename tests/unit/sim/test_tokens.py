from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim import tokens

TEXTS = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("abc  \n{}xyz")))


@given(TEXTS)
def test_ids_lead_back_to_the_text(text: str) -> None:
    ids = tokens.encode(text)
    assert tokens.count(text) == len(ids)
    assert tokens.decode(ids) == text
    assert "".join(tokens.pieces(ids)) == text


@given(st.integers(0, tokens.VOCABULARY - 1))
def test_every_id_stands_for_something(token: int) -> None:
    assert tokens.spelling(token)


@pytest.mark.parametrize("piece", ["\n", "Ab", "  ", " " * 16, "z", " zzzz", "é", "世", "ệ", "<|im_start|>"])
def test_each_kind_of_piece_has_an_id(piece: str) -> None:
    (token,) = tokens.encode(piece)
    assert tokens.spelling(token).decode() == piece


@pytest.mark.parametrize("character", ["😀", "\U0010ffff", "一", "ộ", "가"])
def test_rare_characters_are_a_token_for_each_byte(character: str) -> None:
    ids = tokens.encode(character)
    assert b"".join(map(tokens.spelling, ids)) == character.encode()
    assert [len(tokens.spelling(token)) for token in ids] == [1] * len(character.encode())
    assert tokens.pieces(ids) == [""] * (len(ids) - 1) + [character]


def test_a_character_that_stays_incomplete_is_told_with_what_follows_it() -> None:
    first, *_ = tokens.encode("😀")
    (point,) = tokens.encode("ab")
    assert tokens.pieces([first, point, first]) == ["", "\ufffdab", ""]
    assert tokens.decode([first, point, first]) == "\ufffdab\ufffd"


def test_what_follows_half_a_character_tells_everything_from_the_start() -> None:
    before = tokens.encode("<|im_start|>hé 😀")
    after = tokens.encode("😀!")
    assert tokens.pieces(tokens.encode("a"), before) == ["a"]
    for cut in range(1, 4):
        told = tokens.pieces(after[cut:], before + after[:cut])
        assert told == [""] * (3 - cut) + ["hé 😀😀", "!"]


def test_ids_are_distinct_for_distinct_pieces() -> None:
    pieces = [
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
    ]
    assert len({tuple(tokens.encode(piece)) for piece in pieces}) == len(pieces)


@pytest.mark.parametrize("token", [-1, tokens.VOCABULARY])
def test_an_id_out_of_vocabulary_is_named(token: int) -> None:
    with pytest.raises(ValueError, match=f"Token id {token} is out of vocabulary"):
        tokens.decode([token])


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert tokens.well_formed("a\ud800") == tokens.decode(tokens.encode("a\ud800")) == "a\ufffd"
