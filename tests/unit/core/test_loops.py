from __future__ import annotations

import pytest

from gateway.core.features import Turn
from gateway.core.loops import NOTHING, Loop, read

CALL = Turn("assistant", "", 0, calls_tool=True)


USER = Turn("user", "", 0)


def result(text: str) -> Turn:
    return Turn("tool", text, len(text))


@pytest.mark.parametrize(
    ("since", "calls"),
    [((), 0), ((CALL,), 1), ((CALL, result("x"), Turn("assistant", "Done.", 5)), 2)],
)
def test_a_request_that_ends_otherwise_only_counts_calls(since: tuple[Turn, ...], calls: int) -> None:
    assert read((USER, *since), since, "send it") == Loop(turns=calls)


def test_a_conversation_without_calls_has_nothing() -> None:
    assert read((USER,), (), "hello") is NOTHING


@pytest.mark.parametrize(
    ("ask", "text", "expected"),
    [
        ("what is the weather?", "12 degrees", Loop(2, 1)),
        ("book a table", '{"error": "no table"}', Loop(2, 1, failed=True, change=True)),
        ("book a table and let tom know", "confirmed", Loop(2, 1, done=True, change=True, steps=True)),
        ("which files are there?", "a" * 400, Loop(2, 1, long=True)),
        ("which files are there?", "a" * 290 + " file not found", Loop(2, 1, long=True)),
    ],
)
def test_reads_where_the_loop_stands(ask: str, text: str, expected: Loop) -> None:
    since = (CALL, result(text))
    assert read((USER, *since), since, ask) == expected


def test_only_the_last_result_is_read_and_all_since_the_message_are_counted() -> None:
    since = (CALL, result("error"), CALL, result("42"))
    assert read((USER, CALL, result("1"), USER, *since), since, "how many?") == Loop(6, 2)
