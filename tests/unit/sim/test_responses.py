from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from backends.sim.fields import Fields, RefusalError
from backends.sim.responses import Dialogue
from backends.sim.stored import Stored

Ask = Callable[..., Any]
PATH = "/v1/responses"


def read(fields: Fields) -> Any:
    return Dialogue(Stored(kept=False)).read(fields)


def test_input_and_instructions_become_turns() -> None:
    assert read(Fields({"input": "hi"})).messages == (("user", "hi"),)
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    given = [{"role": "user", "content": parts}, {"role": "assistant", "content": "c"}]
    call = read(Fields({"input": given, "instructions": "Be brief.", "max_output_tokens": 5}))
    assert call.messages == (("system", "Be brief."), ("user", "a\nb"), ("assistant", "c"))
    assert call.max_tokens == 5


def test_calls_and_their_results_are_turns_and_thoughts_are_none() -> None:
    given = [
        {"type": "message", "role": "user", "content": "a"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "c"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "d"}]},
    ]
    assert read(Fields({"input": given})).messages == (
        ("user", "a"),
        ("assistant", ""),
        ("tool", "c"),
        ("tool", "d"),
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "'loc': 'body.input', 'msg': 'Field required'"),
        ({"input": 5}, "2 validation errors"),
        ({"input": [5]}, "dict_type"),
        ({"input": "x", "max_output_tokens": "x"}, "body.max_output_tokens"),
    ],
)
def test_what_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusalError) as caught:
        read(Fields(body))
    assert message in caught.value.message


def test_a_cut_answer_is_incomplete_and_another_complete(ask: Ask) -> None:
    cut = ask("POST", PATH, {"input": "hi", "max_output_tokens": 3}).json
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert cut["usage"]["output_tokens"] == 3
    whole = ask("POST", PATH, {"input": "hi"}).json
    assert (whole["status"], whole["incomplete_details"]) == ("completed", None)
    assert whole["max_output_tokens"] == 4096 - whole["usage"]["input_tokens"]


def test_the_stream_says_what_the_body_says(ask: Ask) -> None:
    body = {"input": "hi", "temperature": 0, "max_output_tokens": 60}
    streamed = ask("POST", PATH, body | {"stream": True}).body.decode()
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    whole = ask("POST", PATH, body).json
    assert text == whole["output"][0]["content"][0]["text"]
    assert text == events[-1]["response"]["output"][0]["content"][0]["text"]
    assert whole["usage"] == events[-1]["response"]["usage"]


def test_a_response_that_is_kept_can_be_asked_for_and_gone_on_from(
    ask: Ask, simulator: Callable[..., Any]
) -> None:
    server = simulator(store_responses=True)
    first = ask("POST", PATH, {"input": "hi", "max_output_tokens": 3}, server=server).json
    again = ask("GET", f"{PATH}/{first['id']}", server=server)
    assert (again.status, again.json) == (200, first)
    more = {"input": "and?", "previous_response_id": first["id"], "stream": True}
    streamed = ask("POST", PATH, more | {"max_output_tokens": 3}, server=server).body.decode().splitlines()
    second = json.loads([line for line in streamed if line.startswith("data: ")][-1][6:])["response"]
    fresh = ask("POST", PATH, {"input": "and?", "max_output_tokens": 3}, server=server).json
    assert second["usage"]["input_tokens"] > fresh["usage"]["input_tokens"] + first["usage"]["output_tokens"]
    assert ask("GET", f"{PATH}/{second['id']}", server=server).json == second


@pytest.mark.parametrize("kept", [True, False])
def test_what_a_server_does_not_hold_it_does_not_find(
    ask: Ask, simulator: Callable[..., Any], kept: bool
) -> None:
    server = simulator(store_responses=kept)
    wanted = {
        "error": {
            "message": "Response with id 'resp_1' not found.",
            "type": "invalid_request_error",
            "param": "response_id",
            "code": 404,
        }
    }
    asked = {"input": "x", "previous_response_id": "resp_1"}
    for method, path, body in (
        ("GET", f"{PATH}/resp_1", None),
        ("POST", f"{PATH}/resp_1/cancel", None),
        ("POST", PATH, asked),
    ):
        answer = ask(method, path, body, server=server)
        assert (answer.status, answer.json) == (404, wanted)


def test_what_has_ended_cannot_be_cancelled_and_more_cannot_be_done(
    ask: Ask, simulator: Callable[..., Any]
) -> None:
    server = simulator(store_responses=True)
    one = ask("POST", PATH, {"input": "hi", "max_output_tokens": 3}, server=server).json["id"]
    answer = ask("POST", f"{PATH}/{one}/cancel", server=server)
    assert (answer.status, answer.json["error"]["message"]) == (
        400,
        "Cannot cancel a synchronous response.",
    )
    assert ask("DELETE", f"{PATH}/{one}", server=server).status == 405
    assert ask("GET", f"{PATH}/{one}/other", server=server).status == 404
