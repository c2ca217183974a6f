from __future__ import annotations

from typing import Any

import pytest

from gateway.core import signals
from gateway.core.features import RequestView, Tool, Turn, extract
from gateway.core.rules import RULES
from gateway.core.signals import LANGUAGE, NAMES, first_rule


def read(text: str, *before: Turn, **fields: Any) -> dict[str, float]:
    turns = (*before, Turn("user", text, len(text)))
    features = extract(RequestView(endpoint="chat", model="m", turns=turns, **fields))
    values = signals.read(features, first_rule(features))
    return {name: value for name, value in zip(NAMES, values.tolist(), strict=True) if value}


def test_each_signal_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert NAMES[: len(LANGUAGE)] == LANGUAGE


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Write a Python function that adds.",
            {"code request", "code in", "rule code_asked", "any code names"},
        ),
        ("Pourquoi le ciel est-il bleu ?", {"answer not in English", "message not in English", "question"}),
        ("Translate to German: good day", {"answer in another language than the message", "translation"}),
        ("12 34", {"message in an unknown language", "any numbers", "number of numbers"}),
        ("x " * 400, {"message over 700 characters"}),
        ("Combien font 3 et 4 ?", {"another language and numbers"}),
        (f"Summarize this text: {'It rained. ' * 60}", {"over 600 characters of supplied text", "text task"}),
    ],
)
def test_what_a_message_says_is_seen(text: str, names: set[str]) -> None:
    assert names <= read(text).keys()


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (
            {"tools": (Tool("light"),)},
            {"tools", "one tool", "tools and tool action", "tools and first message"},
        ),
        ({"tools": (Tool("light"),), "tool_choice": "required"}, {"tool call required", "rule forced_tool"}),
        ({"tools": (Tool("light"),), "tool_choice": "none"}, {"tools forbidden", "one tool"}),
        ({"tools": (Tool("a"), Tool("b"), Tool("c"), Tool("d"))}, {"more than 3 tools"}),
        ({"response_format": "json_object"}, {"JSON asked for"}),
    ],
)
def test_what_a_request_declares_is_seen(fields: dict[str, Any], names: set[str]) -> None:
    found = read("Turn on the light", **fields)
    assert names <= found.keys()
    assert ("tools" in found) == (bool(fields.get("tools")) and fields.get("tool_choice") != "none")


def test_what_was_said_before_is_seen() -> None:
    code = "```\nx = 1\n```"
    found = read(
        "Now shorter",
        Turn("system", "s" * 400, 400),
        Turn("user", "hi", 2),
        Turn("assistant", code, len(code)),
    )
    assert {"system prompt over 300 characters", "earlier turns", "short message after code"} <= found.keys()


def test_a_count_grows_ever_more_slowly_and_then_not_at_all() -> None:
    few, many, most = (read("7 " * count)["number of numbers"] for count in (1, 10, 300))
    assert 0 < few < many < most < 2.1


def test_of_the_rules_only_the_first_that_fits_counts() -> None:
    assert [name for name in read("Prove that 2 + 2 = 4") if name.startswith("rule ")] == ["rule math_named"]


def test_where_no_rule_fits_none_counts() -> None:
    features = extract(RequestView(endpoint="chat", model="m"))
    assert first_rule(features) == len(RULES)
    assert not [name for name in read("") if name.startswith("rule ")]


def test_where_a_loop_stands_is_seen() -> None:
    view = RequestView(
        endpoint="chat",
        model="m",
        tools=(Tool("book_table"),),
        turns=(
            Turn("user", "Book a table and tell Tom.", 26),
            Turn("assistant", "", 0, calls_tool=True),
            Turn("tool", "error: none free", 16),
        ),
    )
    found = extract(view)
    row = zip(NAMES, signals.read(found, first_rule(found)).tolist(), strict=True)
    assert {name.partition(": ")[2] for name, worth in row if worth and name.startswith("in a loop")} == {
        "result says failed",
        "several steps asked for",
        "change asked for",
        "change asked for, not done",
        "several steps, one result",
        "change asked for, one result, not done",
        "more tools named than results",
    }
