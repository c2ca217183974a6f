from __future__ import annotations

import json

import pytest

from gateway.wire.body import edit
from gateway.wire.halves import replaced
from gateway.wire.inbound import Malformed, view


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rb'{"a": "\ud800"}', {"a": "\ufffd"}),
        (rb'{"a": "x\uDE00y\uD83D"}', {"a": "x\ufffdy\ufffd"}),
        (rb'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        (rb'{"a": "\ud83d\ud83d\ude00"}', {"a": "\ufffd\U0001f600"}),
        (rb'{"a": "\\ud800 \\\ud800"}', {"a": "\\ud800 \\\ufffd"}),
        (rb'{"a": "\u0041"}', {"a": "A"}),
    ],
)
def test_half_a_pair_becomes_the_replacement_character(body: bytes, expected: dict[str, str]) -> None:
    made = replaced(body)
    assert json.loads(made) == expected
    assert len(made) == len(body)


@pytest.mark.parametrize("body", [b'{"a": "b"}', rb'{"a": "\u00e9"}', b""])
def test_a_body_without_one_is_the_same(body: bytes) -> None:
    assert replaced(body) is body


def request(text: str) -> bytes:
    return b'{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % text.encode()


def test_a_request_with_half_a_pair_is_read_and_edited() -> None:
    body = request(r"hello \ud83d")
    read = view("chat", body, {})
    assert not isinstance(read, Malformed)
    assert [turn.text for turn in read.turns] == ["hello \ufffd"]
    assert json.loads(edit(body, model="other")) == {
        "model": "other",
        "messages": [{"role": "user", "content": "hello \ufffd"}],
    }


def test_a_body_that_is_wrong_besides_stays_malformed() -> None:
    assert isinstance(view("chat", request(r"\ud800") + b"x", {}), Malformed)
    assert isinstance(view("chat", request(r"\ud80"), {}), Malformed)
