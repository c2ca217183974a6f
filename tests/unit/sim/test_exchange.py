from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from backends.sim import tokens

Make = Callable[..., Any]
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def body(asked: str = "Tell me something nice.", **more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": asked}]} | more


def content(events: list[Any], index: int = 0) -> str:
    choices = [choice for event in events[:-1] for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_a_stream_says_what_a_body_says(ask: Make) -> None:
    whole = ask("POST", CHAT, body(seed=3)).json
    events = ask("POST", CHAT, body(seed=3, stream=True)).events
    assert content(events) == whole["choices"][0]["message"]["content"]
    assert events[-1] == "[DONE]"
    assert whole["system_fingerprint"].startswith("vllm-0.32.0-simulated-")


def test_an_event_carries_the_tokens_of_a_step(ask: Make, simulator: Make) -> None:
    request = body(seed=3, max_tokens=300, ignore_eos=True, stream=True, return_token_ids=True)
    request |= {"stream_options": {"include_usage": True}}
    server = simulator(acceptance="detailed", timings=True)
    *events, usage, _ = ask("POST", CHAT, request, server=server).events
    parts = [event["choices"][0]["token_ids"] for event in events[1:]]
    told = usage["metrics"]["speculative_decoding"]
    accepted = told["per_step_accepted"]
    assert [len(part) for part in parts[:-1]] == [1, *(number + 1 for number in accepted[:-1])]
    assert sum(map(len, parts)) == usage["usage"]["completion_tokens"] == 300
    assert tokens.decode([token for part in parts for token in part]) == content([*events, None])
    assert len(told["acceptance_histogram"]) == 8
    assert told["num_spec_steps"] == len(accepted)
    assert told["mean_acceptance_length"] == 1 + sum(accepted) / len(accepted)
    assert told["draft_acceptance_rate"] == sum(accepted) / (7 * len(accepted))


def test_timings_follow_from_one_another(ask: Make, simulator: Make) -> None:
    answer = ask("POST", CHAT, body(max_tokens=100), server=simulator(timings=True)).json
    told, number = answer["metrics"], answer["usage"]["completion_tokens"]
    seconds = (told["time_to_first_token_ms"] + told["generation_time_ms"]) / 1000
    assert told["tokens_per_second"] == pytest.approx(number / seconds)
    assert told["mean_itl_ms"] == pytest.approx(told["generation_time_ms"] / (number - 1))
    assert told["speculative_decoding"] is None


def test_what_was_not_asked_for_is_null(ask: Make, simulator: Make) -> None:
    told = ask("POST", CHAT, body(max_tokens=60), server=simulator(acceptance="summary")).json["metrics"]
    assert told["time_to_first_token_ms"] is None
    assert told["speculative_decoding"]["num_spec_tokens"] == 7
    assert told["speculative_decoding"]["per_step_accepted"] is None
    assert (
        ask("POST", CHAT, body(max_tokens=1), server=simulator(timings=True)).json["metrics"]["mean_itl_ms"]
        is None
    )


def test_an_answer_within_one_tick_of_the_clock_has_no_rate(ask: Make, simulator: Make) -> None:
    server = simulator(timings=True, speed=1e30)
    assert ask("POST", CHAT, body(max_tokens=5), server=server).json["metrics"]["tokens_per_second"] is None


def test_several_choices_differ_and_have_no_metrics(ask: Make, simulator: Make) -> None:
    server = simulator(acceptance="summary")
    answer = ask("POST", CHAT, body(n=3), server=server).json
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in answer["choices"]}) > 1
    assert answer["metrics"] is None
    request = body(n=4, stream=True, max_tokens=9, stream_options={"include_usage": True})
    events = ask("POST", CHAT, request, server=simulator(acceptance="summary")).events
    assert [event["choices"][0]["delta"].get("role") for event in events[:5]] == ["assistant"] * 4 + [None]
    assert len({content([*events[:-2], None], index) for index in range(4)}) > 1
    assert events[-2]["usage"]["completion_tokens"] == 36
    assert "metrics" not in events[-2]


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_says_the_prompt_first(ask: Make, stream: bool) -> None:
    request = {
        "model": "tiny",
        "prompt": tokens.encode("Hello there"),
        "echo": True,
        "max_tokens": 20,
        "logprobs": 0,
    }
    answer = ask("POST", TEXT, request | {"stream": stream})
    chunks = [event["choices"][0] for event in answer.events[:-1]] if stream else answer.json["choices"]
    text = "".join(chunk["text"] for chunk in chunks)
    assert text.startswith("Hello there")
    offsets = [offset for chunk in chunks for offset in chunk["logprobs"]["text_offset"]]
    said = [token for chunk in chunks for token in chunk["logprobs"]["tokens"]]
    assert "".join(said) == text
    assert offsets == [len("".join(said[:index])) for index in range(len(said))]


def test_tool_calls_are_streamed_as_they_would_be_sent_whole(ask: Make) -> None:
    tool = {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    request = body("What is the weather?", seed=2, tools=[{"type": "function", "function": tool}])
    message = ask("POST", CHAT, request).json["choices"][0]["message"]
    events = ask("POST", CHAT, request | {"stream": True}).events
    deltas = [call for event in events[:-1] for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert deltas[0]["function"]["name"] == message["tool_calls"][0]["function"]["name"] == "get_weather"
    arguments = "".join(delta["function"].get("arguments", "") for delta in deltas)
    assert arguments == message["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments)["city"]
    assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_client_that_leaves_frees_its_slot_at_once(
    virtual: Make, client: Make, simulator: Make, stream: bool, path: str
) -> None:
    async def main() -> None:
        server = simulator(max_num_seqs=1)
        request = {"model": "tiny", "max_tokens": 4000, "ignore_eos": True, "stream": stream}
        request |= {"messages": [{"role": "user", "content": "hi"}]} if path == CHAT else {"prompt": "hi"}
        clients = [client(server) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            running, queued = [group.create_task(one.ask("POST", path, request)) for one in clients]
            await asyncio.sleep(0.5)
            assert (server.running, server.waiting) == (1, 1)
            clients[1].leave()
            await queued
            assert (server.running, server.waiting) == (1, 0)
            clients[0].leave()
            await running
            assert (server.running, server.waiting) == (0, 0)
        assert not any(one.answer.complete for one in clients)
        assert bool(clients[0].answer.parts) == stream
        page = (await client(server).ask("GET", "/metrics")).body.decode()
        assert 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 0.0' in page

    virtual(main())


def test_a_cancelled_request_frees_its_slot(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> None:
        server = simulator()
        task = asyncio.get_running_loop().create_task(client(server).ask("POST", CHAT, body(max_tokens=4000)))
        await asyncio.sleep(0.1)
        assert server.running == 1
        task.cancel()
        await asyncio.wait([task])
        assert server.running == 0

    virtual(main())


def test_a_dead_engine_ends_streams_as_a_real_one(virtual: Make, client: Make, simulator: Make) -> None:
    async def main() -> None:
        server = simulator()
        streamed, whole = client(server), client(server)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(streamed.ask("POST", CHAT, body(stream=True))),
                group.create_task(whole.ask("POST", CHAT, body())),
            ]
            await streamed.began.wait()
            server.close()
            await asyncio.wait(tasks)
        message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        error = {"message": message, "type": "InternalServerError", "param": None, "code": 500}
        assert streamed.answer.events[-2:] == [{"error": error}, "[DONE]"]
        assert (whole.answer.status, whole.answer.json) == (500, {"error": error})
        assert (await client(server).ask("GET", "/health")).status == 503
        assert (await client(server).ask("POST", CHAT, body())).status == 500

    virtual(main())
