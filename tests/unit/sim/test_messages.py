from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from backends.sim.fields import Fields, RefusalError
from backends.sim.messages import read

Ask = Callable[..., Any]
TURN = {"role": "user", "content": "hi"}
BODY: dict[str, Any] = {"model": "tiny", "messages": [TURN], "max_tokens": 8}


def test_blocks_and_the_system_prompt_become_turns() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    call = read(Fields(BODY | {"system": blocks, "messages": [{"role": "user", "content": blocks}, TURN]}))
    assert call.messages == (("system", "a\n\nb"), ("user", "a\n\nb"), ("user", "hi"))
    assert (call.max_tokens, call.model) == (8, "tiny")


@pytest.mark.parametrize("content", ["3 degrees", [{"type": "text", "text": "3 degrees"}]])
def test_what_a_tool_gave_back_is_said(content: object) -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": content}
    empty = {"type": "tool_result", "tool_use_id": "2"}
    turn = {"role": "user", "content": [result, empty, {"type": "text", "text": "And now?"}]}
    call = read(Fields({"model": "m", "max_tokens": 5, "messages": [turn]}))
    assert call.messages == (("user", "3 degrees\n\nAnd now?"),)


def test_what_is_missing_is_listed_together() -> None:
    with pytest.raises(RefusalError, match="3 validation errors"):
        read(Fields({}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"messages": "x"}, "list_type"),
        ({"messages": [5]}, "dict_type"),
        ({"max_tokens": "x"}, "int_parsing"),
    ],
)
def test_wrong_types_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusalError, match=message):
        read(Fields(BODY | changes))


def test_a_stop_sequence_is_told(ask: Ask) -> None:
    body = BODY | {"max_tokens": 300, "stop_sequences": ["e"]}
    found = ask("POST", "/v1/messages", body).json
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "e")
    streamed = ask("POST", "/v1/messages", body | {"stream": True}).body.decode()
    last = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")][-2]
    assert last["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "e"}


def test_an_answer_that_ends_by_itself_ends_its_turn(ask: Ask) -> None:
    found = ask("POST", "/v1/messages", BODY | {"max_tokens": 4000}).json
    assert found["stop_reason"] == "end_turn"
    assert "stop_sequence" not in found


def test_the_stream_says_what_the_body_says(ask: Ask) -> None:
    body = BODY | {"temperature": 0, "max_tokens": 60}
    streamed = ask("POST", "/v1/messages", body | {"stream": True}).body.decode()
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert [{"type": "text", "text": text}] == ask("POST", "/v1/messages", body).json["content"]


@pytest.mark.parametrize(
    ("changes", "kind"), [({"model": "nope"}, "NotFoundError"), ({"top_p": 3}, "BadRequestError")]
)
def test_refusals_have_a_shape_of_their_own(ask: Ask, changes: dict[str, Any], kind: str) -> None:
    answer = ask("POST", "/v1/messages", BODY | changes)
    assert answer.status in (400, 404)
    assert (answer.json["type"], answer.json["error"]["type"]) == ("error", kind)
    assert set(answer.json["error"]) == {"type", "message"}


def test_what_the_framework_refuses_looks_as_everywhere(ask: Ask) -> None:
    assert ask("POST", "/v1/messages", {}).json["error"]["type"] == "Bad Request"
    assert ask("POST", "/v1/messages", b"\xff").json == {"detail": "There was an error parsing the body"}
