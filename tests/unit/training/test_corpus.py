from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from gateway.training.corpus import Row, UnusableRowError, parse, read, seen


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"Does {name}."}}


def line(label: str, text: str, *, tools: int = 0, system: str | None = None, **more: Any) -> str:
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    request: dict[str, Any] = {"messages": messages}
    if tools:
        request["tools"] = [tool(f"{label}_{number}") for number in range(tools)]
    return json.dumps({"id": "x", "label": label, "language": "en", "request": request, **more})


LINES = [
    *(line("chat", f"Tell me about {number}.") for number in range(100)),
    *(line("tool_use", f"Switch on lamp {number}.", tools=1 + number % 4) for number in range(60)),
    *(
        line("math", f"Add {number} to 7.", system="You write poems.", hard="misleading_system_prompt")
        for number in range(40)
    ),
]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read(LINES, seed=3)


def test_the_rows_come_first_as_they_are(rows: list[Row]) -> None:
    assert [row.label for row in rows[: len(LINES)]] == [json.loads(one)["label"] for one in LINES]
    assert {row.variation for row in rows[: len(LINES)]} == {""}
    assert {row.variation for row in rows[len(LINES) :]} == {"tools", "more_tools", "system", "switch"}


def test_the_same_seed_makes_the_same_variations(rows: list[Row]) -> None:
    assert read(LINES, seed=3) == rows
    assert read(LINES, seed=4) != rows


def test_variations_keep_the_label_and_what_is_asked(rows: list[Row]) -> None:
    asked = {row.view.turns[-1].text: row.label for row in rows[: len(LINES)]}
    assert all(asked[row.view.turns[-1].text] == row.label for row in rows)


def test_tools_are_offered_to_requests_that_need_none(rows: list[Row]) -> None:
    offered = [row for row in rows if row.variation == "tools"]
    assert {row.label for row in offered} == {"chat", "math"}
    assert all(row.view.tools for row in offered)
    assert len({len(row.view.tools) for row in offered}) > 2


def test_calls_get_more_tools_to_choose_from(rows: list[Row]) -> None:
    more = [row for row in rows if row.variation == "more_tools"]
    assert {row.label for row in more} == {"tool_use"}
    assert max(len(row.view.tools) for row in more) > 4


def test_system_prompts_and_other_topics_are_put_before(rows: list[Row]) -> None:
    roles = Counter((row.variation, *(turn.role for turn in row.view.turns)) for row in rows)
    assert roles[("system", "system", "user")] > 0
    assert roles[("switch", "user", "assistant", "user")] > 0
    assert roles[("switch", "system", "user", "assistant", "user")] > 0


def test_without_tools_and_system_prompts_there_is_less_to_vary() -> None:
    rows = read([line("chat", f"Tell me about {number}.") for number in range(60)], seed=1)
    assert {row.variation for row in rows} == {"", "switch"}


def test_rows_written_for_the_project_come_last_and_are_not_varied() -> None:
    own = [json.dumps({"workload": "code", "language": "en", "request": {"messages": []}})] * 50
    rows = read(LINES, own, seed=3)
    assert rows[:-50] == read(LINES, seed=3)
    assert {(row.label, row.variation) for row in rows[-50:]} == {("code", "own")}


def test_rows_written_about_one_thing_say_so() -> None:
    own = {"variation": "loop", "workload": "code", "language": "en", "request": {"messages": []}}
    assert read(LINES, [json.dumps(own)], seed=3)[-1].variation == "loop"


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"request": []}', "[" * 100_000], ids=["cut", "list", "empty", "shape", "deep"]
)
def test_a_line_that_is_no_request_is_named(text: str) -> None:
    with pytest.raises(UnusableRowError, match="line 7: "):
        parse(text, "line 7")


def test_other_fields_of_a_line_stay_beside_its_request() -> None:
    row = {"request": {"messages": []}, "label": "code", "prompt": "x"}
    assert parse(json.dumps(row), "line 1") == row


def test_a_body_that_the_gateway_refuses_is_named() -> None:
    with pytest.raises(UnusableRowError, match="line 7: the body"):
        seen({"model": 3}, "line 7")
