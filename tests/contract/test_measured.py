"""Usage, times and the end of an answer are measured alike at every endpoint that generates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.telemetry.decision_entry import finish_of

if TYPE_CHECKING:
    from tests.contract.stack import Stack

MODEL = "gemma-4-31b"
TURNS = [{"role": "user", "content": "Tell me about your garden."}]
CHAT = "/v1/chat/completions"
LIMITS: dict[str, str] = {"/v1/responses": "max_output_tokens", "/v1/messages": "max_tokens"}
BODIES: dict[str, dict[str, Any]] = {"/v1/responses": {"input": TURNS}, "/v1/messages": {"messages": TURNS}}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(("limit", "finish"), [(24, "length"), (4000, "stop")])
def test_an_answer_is_measured_as_that_of_a_chat(
    stack: Stack, path: str, stream: bool, limit: int, finish: str
) -> None:
    name = f"measured-{path[4:]}-{stream}-{limit}"
    headers = {"x-request-id": name, "x-specroute-backend": "gemma31-none"}
    asked = {"model": MODEL, "stream": stream, LIMITS[path]: limit, **BODIES[path]}
    body = stack.http.post(path, json=asked, headers=headers)
    assert body.status_code == 200
    record = stack.records.of(name)
    outcome = record.outcome
    headers["x-request-id"] = f"{name}-chat"
    stack.http.post(CHAT, json={"model": MODEL, "messages": TURNS, "max_tokens": 4}, headers=headers)
    assert outcome.usage.input_tokens == stack.records.of(f"{name}-chat").outcome.usage.input_tokens
    output = outcome.usage.output_tokens
    assert output == limit if finish == "length" else output
    assert output is not None
    assert (outcome.status, finish_of(outcome)) == ("ok", finish)
    if not stream:
        assert (outcome.ttft, outcome.tpot, outcome.events) == (None, None, 0)
        return
    assert outcome.ttft is not None
    assert outcome.decode_seconds is not None
    assert 0 < outcome.ttft <= outcome.ttft + outcome.decode_seconds <= record.ended - record.started
    assert outcome.decode_tokens == output - 1
    assert outcome.events == body.content.count(b"event: content_block_delta\n") + body.content.count(
        b"event: response.output_text.delta\n"
    )


@pytest.mark.parametrize("path", BODIES)
def test_the_metrics_of_a_stream_have_its_tokens_and_its_times(stack: Stack, path: str) -> None:
    def read() -> dict[str, float]:
        lines = stack.http.get("/metrics").text.splitlines()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in lines)
            if name[:1] != "#"
        }

    headers = {"x-request-id": f"metrics-{path[4:]}", "x-specroute-backend": "gemma31-eagle5"}
    before = read()
    asked = {"model": MODEL, "stream": True, LIMITS[path]: 40, **BODIES[path]}
    assert stack.http.post(path, json=asked, headers=headers).status_code == 200
    assert stack.records.of(headers["x-request-id"]).outcome.usage.output_tokens
    more = {name for name, value in read().items() if value > before.get(name, 0.0)}
    for family in ("specroute_ttft_seconds_count", "specroute_output_tokens_total"):
        assert any(name.startswith(family) and 'backend="gemma31-eagle5"' in name for name in more), family
