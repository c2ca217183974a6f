from __future__ import annotations

import asyncio
import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.aside import AT_A_STRETCH
from gateway.runtime import clock
from gateway.wire import halves
from gateway.wire.inbound import Malformed, received


def replaced(body: bytes) -> bytes:
    return b"".join(halves.replaced(body))


def whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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


@pytest.mark.parametrize("body", [b'{"a": "b"}', rb'{"a": "\u00e9"}', b"", b'\xff"\\ud800"'])
def test_where_there_can_be_none_none_is_sought(body: bytes) -> None:
    assert not halves.occur(body)


UNITS = [
    rb"\ud83d",
    rb"\ude00",
    rb"\ud83d\ude00",
    rb"\\",
    rb"\"",
    "é".encode(),
    rb"\ud83d\ud83d\ude00x",
    b"\\\\\\n",
]


@pytest.mark.parametrize("unit", UNITS, ids=bytes.decode)
@pytest.mark.parametrize("before", range(12))
def test_a_long_body_is_gone_through_in_small_pieces_that_cut_nothing_in_two(
    unit: bytes, before: int
) -> None:
    text = b"x" * before + unit * (50_000 // len(unit))
    pieces = list(halves.replaced(b'"' + text + b'"'))
    assert max(map(len, pieces)) <= 2**14
    read: str = json.loads(b'"' + text + b'"')
    assert json.loads(b"".join(pieces)) == whole(read)


def request(text: str) -> bytes:
    return b'{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % text.encode()


async def test_a_request_with_half_a_pair_is_read_and_goes_on_without_it() -> None:
    read, whole = await received("chat", request(r"hello \ud83d"), {})
    assert not isinstance(read, Malformed)
    assert [turn.text for turn in read.turns] == ["hello \ufffd"]
    assert json.loads(whole)["messages"] == [{"role": "user", "content": "hello \ufffd"}]


@pytest.mark.parametrize("field", ["prompt", "input", "system", "stop", "new"])
@pytest.mark.parametrize(
    "text", [r"\ud83d", r"\ude00 and on it goes for a while", r"\ud83d\u0041", r"\ud83dx"]
)
async def test_in_whatever_field_it_stands(field: str, text: str) -> None:
    body = rb'{"model": "m", "%s": ["%s"]}' % (field.encode(), text.encode())
    _, whole = await received("completions", body, {})
    assert "\ufffd" in json.loads(whole)[field][0]
    json.dumps(json.loads(whole), ensure_ascii=False).encode()


async def test_a_body_without_half_a_pair_goes_on_as_it_came() -> None:
    body = request(r"\ud83d\ude00 caf\u00e9")
    assert (await received("chat", body, {}))[1] is body


@pytest.mark.parametrize(
    "body", [request(r"\ud800") + b"x", request(r"\ud80"), request(r"\ud83d\ude00")[:-1]]
)
async def test_a_body_that_is_wrong_besides_stays_malformed(body: bytes) -> None:
    assert isinstance((await received("chat", body, {}))[0], Malformed)


async def test_others_have_their_turn_while_very_many_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "monotonic", count(0, 2 * AT_A_STRETCH).__next__)
    body = request(r"\ud800" * 50_000)
    reading, turns = asyncio.create_task(received("chat", body, {})), 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= len(body) // 2**14
    assert (await reading)[1] == request(r"\ufffd" * 50_000)


PIECES = st.sampled_from(
    [r"\ud83d", r"\uDE00", r"\ude00", r"\uD83D", r"\\", r"\n", r"\u0041", "x", "u", "d83d", r"\""]
)


@given(st.lists(PIECES, max_size=12))
def test_halves_are_told_from_pairs_and_from_escaped_backslashes(pieces: list[str]) -> None:
    body = f'{{"a": "{"".join(pieces)}"}}'.encode()
    assert json.loads(replaced(body))["a"] == whole(json.loads(body)["a"])
