from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim import tokens
from backends.sim.fields import RefusalError
from backends.sim.prompt import Prompt, asked, render


def test_a_conversation_is_marked_turn_by_turn() -> None:
    text = render([("system", "be"), ("user", "hi")])
    assert text == (
        "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokens.encode(text).count(tokens.END_OF_TURN) == 2


@given(
    st.text(st.one_of(st.characters(), st.sampled_from("ab <|im_end|>😀\ud83d\n"))).map(tokens.well_formed)
)
def test_a_prompt_of_ids_is_the_prompt_of_its_text(text: str) -> None:
    prompt = Prompt.read(render([("user", text)]))
    again = Prompt.read(tuple(prompt.ids()))
    assert (again.text, again.count, again.ids()) == (prompt.text, prompt.count, tuple(prompt.ids()))
    assert prompt.count == len(prompt.ids())


def test_ids_stay_as_they_were_given() -> None:
    given = (*tokens.encode("ab"), *tokens.encode("cd"))
    prompt = Prompt.read(given)
    assert (prompt.text, prompt.ids()) == ("abcd", given)
    with pytest.raises(RefusalError, match="out of vocabulary"):
        Prompt.read((-1,))


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        (render([("user", "one"), ("assistant", "two"), ("user", "three"), ("tool", "four")]), "three"),
        (render([("system", "one")]), render([("system", "one")])),
        (render([("user", "")]), render([("user", "")])),
        ("Once upon a time", "Once upon a time"),
        ("<|im_start|>user\nunfinished", "<|im_start|>user\nunfinished"),
    ],
)
def test_what_is_asked_is_the_last_user_turn(text: str, turn: str) -> None:
    assert asked(text) == turn
