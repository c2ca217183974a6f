from __future__ import annotations

import re
from typing import Any

import pytest

from backends.sim.contents import has_media, messages_of
from backends.sim.fields import Fields, RefusalError

NULL = {"content": None}
FIRST = "'loc': 'body.messages.0.(.*?)'"


def refused(*messages: Any) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        read(*messages)
    return caught.value


def read(*messages: Any) -> tuple[tuple[str, str], ...]:
    fields = Fields({"messages": list(messages)})
    turns = messages_of(fields)
    fields.raise_if_invalid()
    return turns


@pytest.mark.parametrize(
    ("message", "number"),
    [
        ({"role": "user", "content": 5}, 22),
        ({"role": "assistant", "content": 5}, 22),
        ({"role": "user"} | NULL, 19),
        ({"role": "system"} | NULL, 19),
        ({"role": "tool", "tool_call_id": "x"} | NULL, 18),
        ({"role": "wizard"} | NULL, 20),
        ({"role": 5, "content": "x"}, 11),
        ({"content": "x"}, 11),
        (5, 8),
    ],
)
def test_as_many_problems_are_counted_as_by_a_real_server(message: Any, number: int) -> None:
    assert refused(message).message.startswith(f"{number} validation errors:\n")


def test_the_first_problems_are_those_of_a_real_server() -> None:
    assert re.findall(FIRST, refused({"role": "user", "content": 5}).message) == [
        "ChatCompletionDeveloperMessageParam.content",
        "ChatCompletionDeveloperMessageParam.content",
        "ChatCompletionDeveloperMessageParam.role",
        "ChatCompletionSystemMessageParam.content",
        "ChatCompletionSystemMessageParam.content",
        "ChatCompletionSystemMessageParam.role",
        "ChatCompletionUserMessageParam.content",
        "ChatCompletionUserMessageParam.content",
        "ChatCompletionAssistantMessageParam.role",
        "ChatCompletionAssistantMessageParam.content",
    ]
    assert "\"Input should be 'developer'\", 'input': 'user', 'ctx': {'expected': \"'developer'\"}" in (
        refused({"role": "user"} | NULL).message
    )


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant"} | NULL,
        {"role": "function", "name": "f"} | NULL,
        {"role": "wizard", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": []},
        {"role": "tool", "content": "x"},
    ],
)
def test_what_a_real_server_takes(message: dict[str, Any]) -> None:
    assert read(message)[0][0] == message["role"]


@pytest.mark.parametrize("part", [{"type": "zzz"}, 5, {"type": "text"}, {"type": "refusal", "text": "x"}])
def test_a_part_that_is_none_is_refused(part: Any) -> None:
    refusal = refused({"role": "user", "content": ["fine", part]})
    assert refusal.message.startswith("1 validation error for ValidatorIterator\n1.")
    assert refusal.param is None


def test_media_are_found() -> None:
    part = {"type": "image_url", "image_url": {"url": "x"}}
    for content, found in (([part], True), (["x"], False), ("x", False)):
        fields = Fields({"messages": [{"role": "user", "content": content}]})
        messages_of(fields)
        assert has_media(fields) == found


@pytest.mark.parametrize(("given", "name"), [(None, "NoneType"), (5, "int")])
def test_what_is_no_list_of_messages(given: Any, name: str) -> None:
    with pytest.raises(RefusalError, match=f"'{name}' object is not iterable"):
        messages_of(Fields({"messages": given}))


def test_no_messages_are_missed() -> None:
    fields = Fields({})
    assert messages_of(fields) == ()
    assert [problem["loc"] for problem in fields.problems] == ["body.messages"]
