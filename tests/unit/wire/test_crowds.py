from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.wire import crowds

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGE = {"role": "user", "content": 'say "yes", or {"no": 1}, and { then }'}


def many(item: object, count: int) -> bytes:
    return json.dumps([item] * count).encode()


@pytest.mark.parametrize(
    "array",
    [
        many({"role": "user", "content": "hi"}, 10_000),
        many({}, 10_000),
        many("", 50_000),
        many("a", 50_000),
        many(None, 400_000),
        json.dumps([{"role": "user", "content": [{"type": "text", "text": ""}] * 10_000}], indent=1).encode(),
        json.dumps([{"content": [""] * 50_000}], separators=(",", ":")).encode(),
    ],
    ids=["messages", "empty", "texts", "short-texts", "nulls", "parts", "text-parts"],
)
def test_many_items_are_a_crowd(array: bytes) -> None:
    assert crowds.crowded(array)


@pytest.mark.parametrize(
    "array",
    [
        many(MESSAGE, 1_000),
        json.dumps([MESSAGE | {"content": MESSAGE["content"] * 30_000}]).encode(),
        json.dumps(["one text, and " * 200_000]).encode(),
        json.dumps(
            [{"role": "user", "content": "Plot this:\n" + "1,2,3,4,5,6,7,8,9,10\n" * 30_000}]
        ).encode(),
        json.dumps([{"role": "user", "content": 'println!("{}", "\\\\");' * 20_000}]).encode(),
        b"[]",
        b"",
    ],
    ids=["a-long-chat", "a-long-message", "a-long-text", "numbers", "code", "nothing", "absent"],
)
def test_long_texts_are_none(array: bytes) -> None:
    assert not crowds.crowded(array)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("unit", ['"', "\\", '\\"', '"},{', "\\\\n,"])
def test_what_stands_in_a_text_longer_than_is_looked_at_in_one_go_counts_for_nothing(
    unit: str, before: int
) -> None:
    text = json.dumps("x" * before + unit * 150_000).encode()
    assert not crowds.crowded(b"[%b,{}]" % text)
    assert crowds.crowded(b"[%b,%b]" % (text, b",".join([b"{}"] * 6_000)))


@pytest.mark.parametrize(
    ("array", "count"),
    [
        (b"[1, 2, 3]", 3),
        (b"[[1,2],[3]]", 3),
        (b" [1]", None),
        (b"[ -1 ]", 1),
        (b'["1"]', None),
        (b"[]", None),
        (b'"1"', None),
        (b"", None),
    ],
)
def test_numbers_are_counted(array: bytes, count: int | None) -> None:
    assert crowds.numbers(array) == count


def whole(arrays: Iterable[bytes]) -> list[dict[str, Any]]:
    """The first of them that is JSON."""
    for array in arrays:
        with contextlib.suppress(ValueError):
            found: list[dict[str, Any]] = json.loads(array)
            return found
    return []


PARTS = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "x", "role": "user"},
        {"type": "message", "role": "user", "content": PARTS},
        {"content": PARTS, "role": "user"},
        {"id": "m", "status": "completed", "content": PARTS * 8, "role": "user"},
    ],
    ids=["content-first", "type-first", "parts-first", "many-parts-first"],
)
def test_messages_begin_with_any_of_their_fields(message: dict[str, Any]) -> None:
    chat = [message | {"at": at} for at in range(10_000)]
    array = json.dumps(chat).encode()
    first, last = whole(crowds.first_messages(array)), whole(crowds.last_messages(array))
    assert first == chat[: len(first)]
    assert last == chat[-len(last) :]
    assert len(first) > 10 < len(last)


def test_tools_are_known_by_their_names() -> None:
    parameters = {
        "properties": {f"p{at}": {"type": "string"} for at in range(60)},
        "name": {"type": "string"},
    }
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": parameters}}
        for at in range(100)
    ]
    array = json.dumps(tools).encode()
    names = crowds.tool_names(array)
    assert names == [f"tool_{at}" for at in range(len(names))]
    assert len(names) > 20


def test_the_beginning_and_the_end_stand_for_the_whole() -> None:
    chat = [MESSAGE | {"at": at} for at in range(10_000)]
    for indent in (None, 2):
        array = json.dumps(chat, indent=indent).encode()
        first, last = whole(crowds.first_messages(array)), whole(crowds.last_messages(array))
        assert first == chat[: len(first)]
        assert last == chat[-len(last) :]
        assert len(first) > 100 < len(last)


@pytest.mark.parametrize("between", [", ", ",", " ,", "\n,\n  ", ",\n  "])
@pytest.mark.parametrize("text", ["text {}", 'a "{}", b', ", {}", '{}",', "{}\\", ""])
def test_the_beginning_of_texts_stands_for_the_whole_however_they_are_written(
    between: str, text: str
) -> None:
    texts = [text.format(at) for at in range(50_000)]
    array = "[" + between.replace(",", "") + between.join(map(json.dumps, texts)) + "]"
    first = whole(crowds.first_texts(array.encode()))
    assert first == texts[: len(first)]
    assert len(first) > 100


@pytest.mark.parametrize(
    "array", [b'[null, "a"]', b'[["a", "b"]]', b'"a, b"', b"", b'["' + b"x" * 100_000 + b'", "a"]']
)
def test_where_no_texts_begin_there_are_none(array: bytes) -> None:
    assert whole(crowds.first_texts(array)) == []


@pytest.mark.parametrize("array", [many({}, 10), b"[", many({"content": "x" * 100_000}, 2)])
def test_where_no_message_begins_there_is_none(array: bytes) -> None:
    assert whole(crowds.first_messages(array)) == whole(crowds.last_messages(array)) == []
