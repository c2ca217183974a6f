"""The simulator against bytes captured from real servers, and against the OpenAI SDK."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
import pytest_asyncio

from backends.sim.exchange import Reporting
from backends.sim.fleet import Member, Running, run_fleet
from backends.sim.server import Options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.asyncio(loop_scope="module")

CAPTURES = Path(__file__).parents[1] / "fixtures" / "vllm"
TARGET = "google/gemma-4-31B-it"
FAST = 2000.0
SPEAKS = ("object", "role", "type", "finish_reason", "owned_by", "organization", "stop_reason")
"""Keys whose text has to be the same, not only its type."""


def member(name: str, method: str, draft_tokens: int, **changes: Any) -> Member:
    base: dict[str, Any] = {"served_model": "tiny", "max_model_len": 1024, "auto_tools": False, "speed": FAST}
    return Member(TARGET, method, draft_tokens, name, options=Options(**base | changes))


FLEET = (
    member("default", "none", 0),
    member(
        "full-flags", "eagle3", 4, reporting=Reporting(timings=True, acceptance="detailed"),
        prompt_details=True, request_id_headers=True,
    ),
    member("spec", "dflash", 3, reporting=Reporting(timings=True, acceptance="detailed")),
    member("gpu", "dflash", 7, max_model_len=4096, prompt_details=True, auto_tools=True),
    member("slow", "dflash", 7, auto_tools=True, speed=0.01, max_num_seqs=1),
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet() -> AsyncIterator[dict[str, Running]]:
    async with run_fleet(FLEET) as running:
        yield {one.member.name: one for one in running}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


@dataclass(frozen=True)
class Capture:
    """One exchange with a real server."""

    method: str
    path: str
    headers: dict[str, str]
    request: bytes
    status: int
    answer_headers: dict[str, str]
    body: str

    @classmethod
    def read(cls, file: Path) -> Capture:
        asked, answered = file.read_text().split("--- response\n", 1)
        head, _, body = asked.removeprefix("--- request\n").partition("\n\n")
        line, *headers = head.split("\n")
        method, path = line.split(" ")
        answer_head, _, answer_body = answered.partition("\n\n")
        status_line, *answer_headers = answer_head.split("\n")
        return cls(
            method,
            path,
            dict(header.split(": ", 1) for header in headers),
            body.removesuffix("\n").encode(),
            int(status_line.split(" ")[1]),
            dict(header.split(": ", 1) for header in answer_headers),
            answer_body.removesuffix("\n"),
        )


def events(body: str) -> list[Any]:
    """Data of the events of a stream."""
    lines = re.findall("^data: (.*)$", body, re.MULTILINE)
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def shape(value: Any, key: str = "") -> Any:
    """Keys in their order and the types of values; texts only where they are part of the protocol."""
    if isinstance(value, dict):
        return [(name, shape(inner, name)) for name, inner in value.items()]
    if isinstance(value, list):
        kinds: list[Any] = []
        for inner in value:
            if (found := shape(inner)) not in kinds:
                kinds.append(found)
        return ["list"] if key == "bytes" else ["list", *kinds]  # a captured token was half a character
    return value if key in SPEAKS else type(value).__name__


def stream_shape(found: list[Any]) -> list[Any]:
    """Shapes of the events, runs of the same one counted once."""
    shapes: list[Any] = []
    for event in found:
        this = shape(event) if isinstance(event, dict) else event
        if not shapes or shapes[-1] != this:
            shapes.append(this)
    return shapes


def captures(folder: str, *patterns: str) -> list[Any]:
    files = sorted(file for pattern in patterns for file in (CAPTURES / folder).glob(pattern))
    return [pytest.param(folder, file, id=f"{folder}-{file.stem}") for file in files]


async def replay(
    http: httpx.AsyncClient, server: Running, capture: Capture, request: bytes
) -> httpx.Response:
    return await http.request(
        capture.method, server.url + capture.path, headers=capture.headers, content=request or None
    )


def same_headers(found: httpx.Response, capture: Capture) -> None:
    expected = dict(capture.answer_headers)
    lengths = (expected.pop("content-length", None), found.headers.get("content-length"))
    assert (lengths[0] is None) == (lengths[1] is None)
    assert [name for name in found.headers if name != "content-length"] == list(expected)
    for name in ("content-type", "vary", "allow", "server", "transfer-encoding"):
        assert found.headers.get(name) == expected.get(name)


FIXED = (
    "err-*.txt", "health.txt", "load.txt", "version.txt", "ping-*.txt", "kv_event_sources.txt",
    "chat-dp-rank9.txt", "is_sleeping.txt", "server_info.txt", "embeddings-404.txt",
)  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "file"),
    captures("default", *FIXED),
)
async def test_fixed_answers_are_the_same_bytes(
    fleet: dict[str, Running], http: httpx.AsyncClient, folder: str, file: Path
) -> None:
    capture = Capture.read(file)
    request, expected = capture.request, capture.body
    if file.stem == "err-too-long":  # the file has only the start of the prompt
        request = json.dumps({"model": "tiny", "prompt": [5] * 1500, "max_tokens": 12}).encode()
    if file.stem == "err-token-oov":  # a real vocabulary is smaller
        request, expected = request.replace(b"999999", b"9999999"), expected.replace("999999", "9999999")
    found = await replay(http, fleet[folder], capture, request)
    assert (found.status_code, found.text) == (capture.status, expected)
    same_headers(found, capture)


BODIES = (
    "chat.txt", "chat-n2.txt", "chat-logprobs.txt", "chat-token-ids.txt", "completion.txt",
    "completion-token-ids-prompt.txt", "models.txt", "tokenize*.txt", "detokenize.txt", "messages.txt",
    "responses.txt", "chat-dp-rank0.txt", "chat-priority.txt", "chat-extra-field.txt",
)  # fmt: skip


@pytest.mark.parametrize(("folder", "file"), captures("default", *BODIES) + captures("full-flags", *BODIES))
async def test_bodies_have_the_keys_and_types_of_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient, folder: str, file: Path
) -> None:
    capture = Capture.read(file)
    found = await replay(http, fleet[folder], capture, capture.request)
    expected, made = json.loads(capture.body), found.json()
    assert found.status_code == 200
    drop_unspeculated(expected, made)
    assert shape(made) == shape(expected)
    same_headers(found, capture)
    if (given := capture.headers.get("X-Request-Id")) is not None:
        assert made["id"] == f"chatcmpl-{given}"


def drop_unspeculated(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """The captured server of ``full-flags`` never drafted, so it had no steps to list."""
    told = (expected.get("metrics") or {}).get("speculative_decoding")
    if told is None and expected.get("metrics"):
        found["metrics"]["speculative_decoding"] = None
    elif told is not None and not told["num_spec_steps"]:
        for metrics in (expected["metrics"], found["metrics"]):
            for name in ("per_step_accepted", "per_step_drafted"):
                metrics["speculative_decoding"].pop(name, None)


@pytest.mark.parametrize(
    ("folder", "file"),
    captures("default", "ch*-stream*.txt", "completion-stream*.txt")
    + captures("full-flags", "ch*-stream*.txt", "completion-stream*.txt"),
)
async def test_streams_have_the_events_of_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient, folder: str, file: Path
) -> None:
    capture = Capture.read(file)
    found = await replay(http, fleet[folder], capture, capture.request)
    expected, made = events(capture.body), events(found.text)
    assert found.status_code == 200
    if "metrics" in expected[-2]:
        drop_unspeculated(expected[-2], made[-2])
    if '"n": 2' in capture.request.decode():
        assert [shape(event) for event in made[:2]] == [shape(event) for event in expected[:2]]
        assert {str(shape(event)) for event in made[:-1]} == {str(shape(event)) for event in expected[:-1]}
    else:
        assert stream_shape(made) == stream_shape(expected)
    same_headers(found, capture)
    assert [line[:6] for line in found.text.split("\n\n")[:-1]] == ["data: "] * len(made)


@pytest.mark.parametrize(
    ("folder", "file"),
    captures("default", "messages-stream.txt", "responses-stream.txt")
    + captures("full-flags", "messages-stream.txt", "responses-stream.txt"),
)
async def test_named_events_are_those_of_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient, folder: str, file: Path
) -> None:
    capture = Capture.read(file)
    found = await replay(http, fleet[folder], capture, capture.request)
    expected, made = events(capture.body), events(found.text)
    for completed in (expected[-1], made[-1]):
        if (metrics := completed.get("response", {}).get("metrics")) is not None:
            del metrics["speculative_decoding"]  # the captured server had no draft
    assert stream_shape(made) == stream_shape(expected)
    assert re.sub(r"^data: .*$", "", found.text, flags=re.MULTILINE).split() == [
        word for event in made for word in ("event:", event["type"])
    ]
    assert [event["sequence_number"] for event in made if "sequence_number" in event] == (
        list(range(len(made))) if "response" in made[0] else []
    )
    same_headers(found, capture)


async def test_acceptance_is_reported_as_by_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient
) -> None:
    request: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 40,
    }
    url = fleet["spec"].url + "/v1/chat/completions"
    whole = (await http.post(url, json=request)).json()
    assert shape(whole) == shape(json.loads((CAPTURES / "spec" / "draft_model.json").read_text()))
    options = {"stream": True, "stream_options": {"include_usage": True}}
    made = events((await http.post(url, json=request | options)).text)
    assert stream_shape(made) == stream_shape(events((CAPTURES / "spec" / "draft_model.sse").read_text()))


def gpu(name: str) -> tuple[dict[str, Any], str]:
    """Request and decoded body of an exchange with 0.26 on a GPU."""
    asked = json.loads((CAPTURES / "gpu" / f"{name}.request.json").read_text())
    body = (CAPTURES / "gpu" / f"{name}.http").read_text().split("\n\n", 1)[1]
    return asked["body"], re.sub(r"^[0-9a-f]+\n(?=data: )|\n\n0\n\n$", "", body, flags=re.MULTILINE)


async def test_a_streamed_tool_call_has_the_events_of_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient
) -> None:
    request, body = gpu("chat-stream-tools")
    found = await http.post(fleet["gpu"].url + "/v1/chat/completions", json=request)
    expected = [json.loads(line[6:]) for line in body.split("\n") if line.startswith("data: {")]
    assert stream_shape(events(found.text)[:-1]) == stream_shape(expected)


async def test_a_stop_string_ends_an_answer_as_on_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient
) -> None:
    request, body = gpu("chat-stop")
    made = (await http.post(fleet["gpu"].url + "/v1/chat/completions", json=request)).json()
    expected = json.loads(body)
    choice = made["choices"][0]
    assert choice["stop_reason"] in request["stop"]
    choice["stop_reason"] = expected["choices"][0]["stop_reason"]
    del expected["usage"]["prompt_tokens_details"], made["usage"]["prompt_tokens_details"]
    del made["usage"]["completion_tokens_details"]  # new in 0.32
    assert shape(made) == shape(expected)


async def test_a_prompt_that_leaves_too_little_room_is_refused_in_the_words_of_a_real_server(
    fleet: dict[str, Running], http: httpx.AsyncClient
) -> None:
    expected = (CAPTURES / "gpu" / "error-too-long.http").read_text().split("\n\n", 1)[1]
    request = {"model": "tiny", "prompt": [5] * 4049, "max_tokens": 48}
    found = await http.post(fleet["gpu"].url + "/v1/completions", json=request)
    assert (found.status_code, found.text) == (400, expected.strip())


async def test_a_client_that_hangs_up_frees_its_slot(
    fleet: dict[str, Running], http: httpx.AsyncClient
) -> None:
    server = fleet["slow"]
    request = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 900}
    url = server.url + "/v1/chat/completions"

    async def until(running: int, waiting: int) -> None:
        wanted = {
            f'vllm:num_requests_{name}{{engine="0",model_name="tiny"}} {number}.0'
            for name, number in (("running", running), ("waiting", waiting))
        }
        async with asyncio.timeout(10):
            while not wanted <= set((await http.get(server.url + "/metrics")).text.splitlines()):
                pass

    async with http.stream("POST", url, json=request | {"stream": True}) as streamed:
        assert streamed.status_code == 200
        await until(1, 0)
        waiting = asyncio.get_running_loop().create_task(http.post(url, json=request))
        await until(1, 1)
        waiting.cancel()
        await until(1, 0)
    await until(0, 0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk(fleet: dict[str, Running]) -> AsyncIterator[openai.AsyncOpenAI]:
    url = fleet["gpu"].url + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


MESSAGES: Any = [{"role": "user", "content": "How should I prepare for the talk with my manager?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
            },
            "required": ["city", "days"],
        },
    },
}


async def test_sdk_chat(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="tiny", messages=MESSAGES, max_completion_tokens=200)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.system_fingerprint is not None
    assert "simulated" in answer.system_fingerprint


async def test_sdk_stream(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}, seed=5
    )
    chunks = [chunk async for chunk in stream]
    whole = await sdk.chat.completions.create(model="tiny", messages=MESSAGES, seed=5)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    usage = chunks[-1].usage
    assert usage is not None
    assert whole.usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert len(chunks) < usage.completion_tokens


async def test_sdk_completions(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.completions.create(model="tiny", prompt=["Once", "Twice"], max_tokens=8, logprobs=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.top_logprobs is not None
    assert [len(top) for top in answer.choices[0].logprobs.top_logprobs] == [3] * 8
    stream = await sdk.completions.create(model="tiny", prompt="Once", max_tokens=8, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream])


async def test_sdk_tools(sdk: openai.AsyncOpenAI) -> None:
    asked: Any = [{"role": "user", "content": "What is the weather in Lisbon this week?"}]
    answer = await sdk.chat.completions.create(model="tiny", messages=asked, tools=[WEATHER])
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls
    call: Any = choice.message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather"
    assert 1 <= arguments["days"] <= 7
    turns = [*asked, choice.message, {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    answer = await sdk.chat.completions.create(model="tiny", messages=turns, tools=[WEATHER])
    assert answer.choices[0].message.content
    async with sdk.chat.completions.stream(model="tiny", messages=asked, tools=[WEATHER]) as stream:
        final = await stream.get_final_completion()
    streamed: Any = final.choices[0].message.tool_calls
    assert json.loads(streamed[0].function.arguments)["city"]


async def test_sdk_logprobs(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=5, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content) == answer.choices[0].message.content
    assert [len(entry.top_logprobs) for entry in logprobs.content] == [3] * 5


async def test_sdk_several_choices(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="tiny", messages=MESSAGES, n=3, max_tokens=20)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


async def test_sdk_structured(sdk: openai.AsyncOpenAI) -> None:
    schema: Any = {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
    }
    answer = await sdk.chat.completions.create(model="tiny", messages=MESSAGES, response_format=schema)
    assert isinstance(json.loads(answer.choices[0].message.content or "")["ok"], bool)


async def test_sdk_models(sdk: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in sdk.models.list()] == ["tiny"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "nope"}, openai.NotFoundError, "does not exist"),
        ({"model": "nope", "stream": True}, openai.NotFoundError, "does not exist"),
        ({"messages": []}, openai.BadRequestError, "empty conversation"),
        ({"temperature": 3}, openai.BadRequestError, "in \\[0, 2\\]"),
        ({"n": 2, "temperature": 0}, openai.BadRequestError, "greedy sampling"),
        ({"temperature": -1}, openai.BadRequestError, "non-negative"),
        ({"n": 0}, openai.BadRequestError, "at least 1"),
        ({"max_tokens": 5000}, openai.BadRequestError, "max_model_len=4096"),
        ({"logit_bias": {"5": 1}}, openai.BadRequestError, "not yet supported with speculative decoding"),
        ({"extra_body": {"min_p": 0.1}, "stream": True}, openai.BadRequestError, "not yet supported"),
        (
            {"messages": [{"role": "user", "content": "word " * 9000}]},
            openai.BadRequestError,
            "maximum context",
        ),
    ],
)
async def test_sdk_errors(
    sdk: openai.AsyncOpenAI, changes: dict[str, Any], error: type[openai.APIStatusError], message: str
) -> None:
    request = {"model": "tiny", "messages": MESSAGES, "max_tokens": 5} | changes
    with pytest.raises(error, match=message):
        await sdk.chat.completions.create(**request)
