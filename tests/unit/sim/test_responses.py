from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from backends.sim.fields import Fields, RefusalError
from backends.sim.responses import read

Ask = Callable[..., Any]
PATH = "/v1/responses"


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
