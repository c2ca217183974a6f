"""A hosted model answers through real LiteLLM while no server of its target can."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.contract.provider import CALL, USAGE, Provider
from tests.contract.stack import Loop, eventually, listening, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.stack import Stack

pytestmark = pytest.mark.filterwarnings("ignore")  # those of LiteLLM and what it imports

FLEET = """\
version: 1
backends:
  - {name: plain, url: "http://127.0.0.1:8101", model: Qwen/Qwen3-8B}
  - {name: hosted, url: "litellm://openai/hosted-1", model: Qwen/Qwen3-8B}
"""
POLICY = """\
version: 1
models: {tiny: Qwen/Qwen3-8B}
allow_pin: true
classes: [{name: secret, match: {tenant: legal}, stand_ins: false}, {name: batch}]
routes:
  - {name: inside, match: {tenant: staff}, prefer: [any]}
  - {name: default, prefer: [any], stand_ins: true}
"""
HI = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def stack(loop: Loop, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("hosted")
    with loop.entered(listening(provider)) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        patch.setenv("OPENAI_API_KEY", "sk-own")
        with running(loop, folder, FLEET, POLICY) as found:
            loop.run(found.servers["plain"].stop())
            found.until("plain", available=False)
            yield found


@pytest.fixture
def sdk(stack: Stack) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{stack.url}/v1", api_key="client", max_retries=0, http_client=http
    ) as client:
        yield client


def test_a_chat_is_answered_and_the_answer_says_by_whom(
    sdk: openai.OpenAI, stack: Stack, provider: Provider
) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        model="tiny", messages=HI, max_tokens=9, extra_body={"top_k": 3, "api_base": "http://evil.test"}
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == "hosted words"
    assert (answer.choices[0].finish_reason, answer.usage.total_tokens) == ("stop", 5)
    assert raw.headers["x-specroute-backend"] == "hosted"
    assert provider.asked[-1] == {"model": "hosted-1", "messages": HI, "max_tokens": 9}
    assert provider.keys[-1] == "Bearer sk-own"
    record = stack.records.of(raw.headers["x-request-id"])
    assert (record.backend, record.method, record.baseline) == ("hosted", "stand-in", False)
    assert record.decision.reason == "stand_in"
    assert record.outcome.usage.output_tokens == USAGE["completion_tokens"]


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_is_what_an_openai_server_sends(sdk: openai.OpenAI, usage: bool) -> None:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if usage else {}
    chunks = list(sdk.chat.completions.create(model="tiny", messages=HI, stream=True, **options))
    said = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert said == "hosted words"
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
    assert [one.usage.total_tokens for one in chunks if one.usage] == ([5] if usage else [])


def test_a_stream_ends_as_clients_of_the_form_expect(stack: Stack) -> None:
    asked = {"model": "tiny", "messages": HI, "stream": True}
    text = stack.http.post("/v1/chat/completions", json=asked).text
    assert text.startswith("data: {")
    assert text.endswith("data: [DONE]\n\n")


def test_text_completions_are_answered(sdk: openai.OpenAI) -> None:
    assert sdk.completions.create(model="tiny", prompt="hi").choices[0].text == "hosted words"
    chunks = sdk.completions.create(model="tiny", prompt="hi", stream=True)
    assert "".join(one.choices[0].text for one in chunks if one.choices) == "hosted words"


def test_tools_are_called(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="tiny", messages=HI, tools=TOOLS)
    assert answer.choices[0].message.tool_calls[0].function.arguments == CALL["function"]["arguments"]
    assert answer.choices[0].message.content is None


@pytest.mark.parametrize(
    ("status", "told", "by_provider"),
    [
        (400, 400, True),
        (401, 502, False),
        (404, 502, False),
        (429, 429, False),
        (500, 500, False),
        (503, 503, False),
    ],
)
def test_what_the_provider_refuses_is_an_error_of_the_same_form(
    stack: Stack, provider: Provider, status: int, told: int, by_provider: bool
) -> None:
    before = len(provider.asked)
    asked = {"model": "tiny", "messages": [{"role": "user", "content": f"status {status}"}]}
    eventually(lambda: _hosted(stack)["available"], bool)
    answer = stack.http.post("/v1/chat/completions", json=asked)
    assert answer.status_code == told
    assert ("sk-secret" in answer.json()["error"]["message"]) == by_provider
    assert len(provider.asked) == before + 1  # LiteLLM asks once
    if status == 429:  # which asked for a pause
        assert _hosted(stack)["unavailable"] == "retry_after"
        eventually(lambda: _hosted(stack)["available"], bool)


def test_a_client_that_leaves_ends_the_stream_at_the_provider(stack: Stack, provider: Provider) -> None:
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "endless"}], "stream": True}
    eventually(lambda: _hosted(stack)["available"], bool)
    with stack.http.stream("POST", "/v1/chat/completions", json=asked) as answer:
        next(answer.iter_raw())
    stack.loop.run(provider.left.wait())
    assert eventually(lambda: _hosted(stack)["in_flight"], lambda count: count == 0) == 0


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://pictures.invalid/a.png"}},
        {"type": "file", "file": {"file_id": "http://pictures.invalid/a.pdf"}},
    ],
)
def test_no_address_of_a_client_is_looked_up(
    stack: Stack, provider: Provider, part: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[object] = []
    resolve = socket.getaddrinfo

    def seen(host: object, *more: Any, **named: Any) -> Any:
        looked_up.append(host)
        return resolve(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", seen)
    asked = {"model": "tiny", "messages": [{"role": "user", "content": [part]}]}
    before = len(provider.asked)
    answer = stack.http.post("/v1/chat/completions", json=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (501, "unsupported_by_stand_in")
    assert len(provider.asked) == before
    assert "pictures.invalid" not in looked_up
    assert _hosted(stack)["available"]


@pytest.mark.parametrize(
    "headers",
    [
        {"x-specroute-stand-ins": "no"},
        {"x-specroute-tenant": "staff"},
        {"x-specroute-tenant": "legal"},
        {"x-specroute-tenant": "legal", "x-specroute-class": "batch", "x-specroute-stand-ins": "yes"},
        {"x-specroute-class": "secret"},
    ],
)
def test_what_is_to_stay_never_leaves(stack: Stack, provider: Provider, headers: dict[str, str]) -> None:
    asked, before = {"model": "tiny", "messages": HI}, len(provider.asked)
    answer = stack.http.post("/v1/chat/completions", json=asked, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "all_rejected")
    chosen = stack.http.post(
        "/v1/chat/completions", json=asked, headers=headers | {"x-specroute-backend": "hosted"}
    )
    assert (chosen.status_code, chosen.json()["error"]["code"]) == (403, "pin_not_allowed")
    assert len(provider.asked) == before


def test_a_caller_who_allows_it_gets_what_the_policy_gives(stack: Stack) -> None:
    asked, headers = {"model": "tiny", "messages": HI}, {"x-specroute-stand-ins": "Yes"}
    answer = stack.http.post("/v1/chat/completions", json=asked, headers=headers)
    assert answer.headers["x-specroute-backend"] == "hosted"


def test_other_endpoints_answer_as_before(stack: Stack) -> None:
    assert stack.http.post("/v1/responses", json={"model": "tiny", "input": "hi"}).status_code == 503


def test_the_gateway_is_ready_and_a_server_that_is_back_takes_over(stack: Stack) -> None:
    assert stack.http.get("/readyz").status_code == 200
    asked = {"model": "tiny", "messages": HI}
    stack.loop.run(stack.servers["plain"].start())
    stack.until("plain", available=True)
    assert stack.http.post("/v1/chat/completions", json=asked).headers["x-specroute-backend"] == "plain"
    wrong = stack.http.post("/v1/chat/completions", json=asked | {"temperature": "hot"})
    assert (wrong.status_code, wrong.headers["x-specroute-backend"]) == (400, "plain")
    chosen = stack.http.post("/v1/chat/completions", json=asked, headers={"x-specroute-backend": "hosted"})
    assert chosen.headers["x-specroute-backend"] == "hosted"


def _hosted(stack: Stack) -> dict[str, Any]:
    (found,) = stack.http.get("/status").json()["fleet"]["stand_ins"]
    return found
