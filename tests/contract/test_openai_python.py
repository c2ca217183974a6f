"""The OpenAI Python SDK against the gateway in front of simulated servers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.contract.conftest import SLOW
from tests.contract.stack import eventually

if TYPE_CHECKING:
    from tests.contract.stack import Stack

MODEL = "gemma-4-31b"
MESSAGES: Any = [{"role": "user", "content": "How should I prepare for the talk with my manager?"}]
CHAT: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "seed": 5}
ENDLESS: dict[str, Any] = {
    "model": SLOW,
    "messages": MESSAGES,
    "max_tokens": 3000,
    "extra_body": {"ignore_eos": True},
}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city", "days"],
        },
    },
}
ABOUT_WEATHER: Any = [{"role": "user", "content": "What is the weather in Lisbon this week?"}]
USAGE: Any = {"include_usage": True}


def text_of(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def running(stack: Stack, name: str) -> int:
    simulator = stack.servers[name].simulator
    return simulator.running + simulator.waiting


def test_chat(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert "simulated" in (answer.system_fingerprint or "")


def test_a_streamed_chat_says_the_same_and_has_no_usage_that_was_not_asked_for(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(**CHAT)
    chunks = list(sdk.chat.completions.create(**CHAT, stream=True))
    assert text_of(chunks) == whole.choices[0].message.content
    assert [chunk for chunk in chunks if chunk.usage is not None or not chunk.choices] == []
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_usage_that_was_asked_for_comes_exactly_once(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(**CHAT)
    chunks = list(sdk.chat.completions.create(**CHAT, stream=True, stream_options=USAGE))
    assert [chunk.usage for chunk in chunks if chunk.usage is not None] == [whole.usage]
    assert chunks[-1].usage is not None
    assert chunks[-1].choices == []
    assert text_of(chunks) == whole.choices[0].message.content


def test_completions(sdk: openai.OpenAI) -> None:
    request: dict[str, Any] = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 12, "seed": 5}
    whole = sdk.completions.create(**request, logprobs=2)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12
    assert whole.choices[0].logprobs is not None
    assert len(whole.choices[0].logprobs.tokens or ()) == 12
    chunks = list(sdk.completions.create(**request, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert [chunk for chunk in chunks if chunk.usage is not None or not chunk.choices] == []
    chunks = list(sdk.completions.create(**request, stream=True, stream_options=USAGE))
    assert [chunk.usage for chunk in chunks if chunk.usage is not None] == [whole.usage]


def test_several_prompts_in_one_completion(sdk: openai.OpenAI) -> None:
    answer = sdk.completions.create(model=MODEL, prompt=["Once", "Twice"], max_tokens=8)
    assert [choice.index for choice in answer.choices] == [0, 1]


def test_a_tool_is_called_and_its_result_is_answered(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model=MODEL, messages=ABOUT_WEATHER, tools=[WEATHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    call: Any = choice.message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["days"] >= 1
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    turns: Any = [*ABOUT_WEATHER, choice.message, result]
    answer = sdk.chat.completions.create(model=MODEL, messages=turns, tools=[WEATHER])
    assert answer.choices[0].message.content
    assert not answer.choices[0].message.tool_calls


def test_a_required_tool_is_called_whatever_was_asked(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(**CHAT, tools=[WEATHER], tool_choice="required")
    assert answer.choices[0].message.tool_calls


def test_a_streamed_tool_call_can_be_put_together(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model=MODEL, messages=ABOUT_WEATHER, tools=[WEATHER]) as stream:
        called: Any = stream.get_final_completion().choices[0].message.tool_calls
    assert [call.function.name for call in called] == ["get_weather"]
    assert json.loads(called[0].function.arguments)["city"]


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs(sdk: openai.OpenAI, stream: bool) -> None:
    request: dict[str, Any] = {**CHAT, "max_tokens": 5, "logprobs": True, "top_logprobs": 3}
    if stream:
        chunks = list(sdk.chat.completions.create(**request, stream=True))
        entries = [
            entry
            for chunk in chunks
            if chunk.choices[0].logprobs
            for entry in chunk.choices[0].logprobs.content or ()
        ]
        text = text_of(chunks)
    else:
        choice = sdk.chat.completions.create(**request).choices[0]
        assert choice.logprobs is not None
        entries, text = choice.logprobs.content or [], choice.message.content or ""
    assert "".join(entry.token for entry in entries) == text
    assert [len(entry.top_logprobs) for entry in entries] == [3] * 5


@pytest.mark.parametrize("stream", [False, True])
def test_several_choices(sdk: openai.OpenAI, stream: bool) -> None:
    request: dict[str, Any] = {**CHAT, "n": 3, "max_tokens": 20}
    if stream:
        choices = [chunk.choices[0] for chunk in sdk.chat.completions.create(**request, stream=True)]
        ended = [choice.index for choice in choices if choice.finish_reason]
        assert sorted(ended) == [0, 1, 2]
    else:
        answer = sdk.chat.completions.create(**request)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]


def test_an_answer_fits_the_schema_that_was_given(sdk: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
    answer = sdk.chat.completions.create(**CHAT, response_format=wanted)
    assert isinstance(json.loads(answer.choices[0].message.content or "")["ok"], bool)


def test_a_stop_string_ends_the_answer_before_it(sdk: openai.OpenAI) -> None:
    text = sdk.chat.completions.create(**CHAT).choices[0].message.content or ""
    word = text.split()[6]
    stopped = sdk.chat.completions.create(**CHAT, stop=[word]).choices[0]
    assert stopped.message.content == text[: text.index(word)]
    assert stopped.finish_reason == "stop"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_limit_on_tokens_is_kept(sdk: openai.OpenAI, limit: str) -> None:
    answer = sdk.chat.completions.create(**CHAT, **{limit: 7})
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 7


def test_models_can_be_listed_and_looked_up(sdk: openai.OpenAI) -> None:
    names = [model.id for model in sdk.models.list()]
    assert {MODEL, "qwen3.6-35b", "google/gemma-4-31B-it"} <= set(names)
    assert [sdk.models.retrieve(name).id for name in names] == names
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        sdk.models.retrieve("nope")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "nope"}, openai.NotFoundError, "`nope` does not exist"),
        ({"temperature": -1}, openai.BadRequestError, "temperature must be non-negative"),
        ({"n": 0}, openai.BadRequestError, "n must be at least 1"),
        ({"max_tokens": 5000}, openai.BadRequestError, "max_model_len=4096"),
        ({"max_tokens": "many"}, openai.BadRequestError, "valid integer"),
        ({"messages": "hello"}, openai.BadRequestError, "valid list"),
        (
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            openai.BadRequestError,
            "maximum context length is 4096 tokens",
        ),
    ],
)
def test_what_is_wrong_with_a_request_is_told_by_status_and_words(
    sdk: openai.OpenAI,
    changes: dict[str, Any],
    error: type[openai.APIStatusError],
    message: str,
    stream: bool,
) -> None:
    with pytest.raises(error, match=message):
        sdk.chat.completions.create(**CHAT | changes, stream=stream)


def test_min_p_goes_to_a_server_that_takes_it(stack: Stack, sdk: openai.OpenAI) -> None:
    request: Any = CHAT | {"extra_body": {"min_p": 0.1}}
    raw = sdk.chat.completions.with_raw_response.create(**request)
    assert raw.headers["x-specroute-backend"] == "gemma31-none"
    assert raw.parse().choices[0].message.content
    with (
        openai.OpenAI(
            base_url=f"{stack.servers['gemma31-mtp4'].url}/v1",
            api_key="none",
            max_retries=0,
            http_client=openai.DefaultHttpxClient(trust_env=False),
        ) as direct,
        pytest.raises(openai.BadRequestError, match="not yet supported with speculative decoding"),
    ):
        direct.chat.completions.create(**request)


def test_an_answer_says_who_gave_it(stack: Stack, sdk: openai.OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**CHAT, extra_headers={"x-request-id": "mine-1"})
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.parse().id == "chatcmpl-mine-1"
    assert raw.headers["x-specroute-backend"] == stack.records.of("mine-1").backend
    assert raw.headers["x-specroute-workload"] == "chat"
    assert raw.headers["x-specroute-policy"]


def test_a_request_without_an_id_gets_one(sdk: openai.OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**CHAT)
    assert raw.parse().id == f"chatcmpl-{raw.headers['x-request-id']}"


def test_the_caller_may_choose_the_backend(sdk: openai.OpenAI) -> None:
    chosen = {"x-specroute-backend": "gemma31-dspark7"}
    raw = sdk.chat.completions.with_raw_response.create(**CHAT, extra_headers=chosen)
    assert raw.headers["x-specroute-backend"] == "gemma31-dspark7"
    with pytest.raises(openai.BadRequestError, match="gemma31-dflash7"):
        sdk.chat.completions.create(**CHAT, extra_headers={"x-specroute-backend": "qwen35-none"})


@pytest.mark.parametrize(
    "hint",
    [{"extra_headers": {"x-specroute-workload": "math"}}, {"metadata": {"workload": "math"}}],
    ids=["header", "metadata"],
)
def test_the_caller_may_name_the_workload(sdk: openai.OpenAI, hint: dict[str, Any]) -> None:
    raw = sdk.chat.completions.with_raw_response.create(**CHAT, **hint)
    assert raw.headers["x-specroute-workload"] == "math"


def test_a_client_that_waits_no_longer_frees_its_slot(stack: Stack, sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        sdk.with_options(timeout=0.3).chat.completions.create(
            **ENDLESS, extra_headers={"x-request-id": "impatient"}
        )
    record = stack.records.of("impatient")
    assert (record.outcome.status, record.outcome.http_status) == ("cancelled", 499)
    eventually(lambda: running(stack, "slow"), lambda count: count == 0)


def test_a_stream_that_is_left_frees_its_slot(stack: Stack, sdk: openai.OpenAI) -> None:
    headers = {"x-request-id": "leaves"}
    with sdk.chat.completions.create(**ENDLESS, stream=True, extra_headers=headers) as stream:
        next(stream)
        assert running(stack, "slow") == 1
    record = stack.records.of("leaves")
    assert (record.outcome.status, record.outcome.http_status) == ("cancelled", 200)
    eventually(lambda: running(stack, "slow"), lambda count: count == 0)
    stack.until("slow", in_flight=0, running=0)
