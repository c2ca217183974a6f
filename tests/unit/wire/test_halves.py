from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.halves import replaced
from gateway.wire.inbound import Malformed, received, view


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


def test_a_request_with_half_a_pair_is_read_and_goes_on_without_it() -> None:
    read, whole = received("chat", request(r"hello \ud83d"), {})
    assert not isinstance(read, Malformed)
    assert [turn.text for turn in read.turns] == ["hello \ufffd"]
    assert json.loads(whole)["messages"] == [{"role": "user", "content": "hello \ufffd"}]


@pytest.mark.parametrize("field", ["prompt", "input", "system", "stop", "new"])
@pytest.mark.parametrize(
    "text", [r"\ud83d", r"\ude00 and on it goes for a while", r"\ud83d\u0041", r"\ud83dx"]
)
def test_in_whatever_field_it_stands(field: str, text: str) -> None:
    body = rb'{"model": "m", "%s": ["%s"]}' % (field.encode(), text.encode())
    _, whole = received("completions", body, {})
    assert "\ufffd" in json.loads(whole)[field][0]
    json.dumps(json.loads(whole), ensure_ascii=False).encode()


def test_a_body_without_half_a_pair_goes_on_as_it_came() -> None:
    body = request(r"\ud83d\ude00 caf\u00e9")
    assert received("chat", body, {})[1] is body


def test_a_body_that_is_wrong_besides_stays_malformed() -> None:
    assert isinstance(view("chat", request(r"\ud800") + b"x", {}), Malformed)
    assert isinstance(view("chat", request(r"\ud80"), {}), Malformed)


PIECES = st.sampled_from(
    [r"\ud83d", r"\uDE00", r"\ude00", r"\uD83D", r"\\", r"\n", r"\u0041", "x", "u", "d83d", r"\""]
)


@given(st.lists(PIECES, max_size=12))
def test_halves_are_told_from_pairs_and_from_escaped_backslashes(pieces: list[str]) -> None:
    body = f'{{"a": "{"".join(pieces)}"}}'.encode()
    read = json.loads(body)["a"]
    assert json.loads(replaced(body))["a"] == read.encode("utf-16", "surrogatepass").decode(
        "utf-16", "replace"
    )
