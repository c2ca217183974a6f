import json

import pytest

from gateway.wire.chunks import decode
from gateway.wire.tape import Tape


def taken(*bodies):
    tape = Tape()
    for body in bodies:
        tape.take(decode(json.dumps(body).encode()))
    return tape


HEAD = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def said(text, ids, **delta):
    return HEAD | {"choices": [{"index": 0, "delta": {"content": text, **delta}, "token_ids": ids}]}


def test_ids_and_text_of_a_chat_are_taken_down():
    tape = taken(
        HEAD | {"choices": [{"delta": {"role": "assistant", "content": ""}}], "prompt_token_ids": [1, 2]},
        said("a", [3]),
        said("", [4]),
        said("b", [5, 6]),
    )
    assert (tape.id, tape.object, tape.created, tape.model) == ("c1", "chat.completion.chunk", 7, "m")
    assert (tape.prompt_ids, tape.ids, "".join(tape.text), tape.whole) == ([1, 2], [3, 4, 5, 6], "ab", True)


def test_a_text_completion_tells_its_prompt_in_the_choice():
    tape = taken(HEAD | {"choices": [{"text": "a", "prompt_token_ids": [1], "token_ids": [2]}]})
    assert (tape.prompt_ids, tape.ids, tape.text) == ([1], [2], ["a"])


@pytest.mark.parametrize(
    "event",
    [said("a", None), said("", [3], tool_calls=[{"index": 0}]), said(None, [3], reasoning="hm")],
    ids=["no ids", "tool call", "reasoning"],
)
def test_what_cannot_be_gone_on_with_is_noticed(event):
    assert not taken(said("a", [1]), event).whole


def test_a_new_attempt_begins_anew():
    tape = taken(said("a", None))
    tape.rewind()
    assert (tape.id, tape.prompt_ids, tape.ids, tape.text, tape.whole) == ("", [], [], [], True)


def test_ids_are_masked_and_nothing_else_is():
    event = b'data: {"prompt_token_ids":[1,2],"choices":[{"delta":{"content":"\\"token_ids\\":[7]"},"token_ids":[3]}]}\n\n'
    assert Tape.mask(event) == (
        b'data: {"prompt_token_ids":null,"choices":[{"delta":{"content":"\\"token_ids\\":[7]"},"token_ids":null}]}\n\n'
    )
    plain = b'data: {"token_ids":null}\n\n'
    assert Tape.mask(plain) is plain
