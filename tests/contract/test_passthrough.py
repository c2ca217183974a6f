"""Bytes through the gateway: what the server says reaches the client, what the client says reaches the server."""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backends.sim import profiles
from backends.sim.fleet import run_fleet
from backends.sim.server import Simulator
from gateway.policy.load import Loaded, load_fleet
from tests.contract.stack import SECONDS, member, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sim.fleet import Member
    from tests.contract.stack import Application, Loop, Stack

FLEET = """\
version: 1
backends:
  - name: twin
    url: http://127.0.0.1:1
    model: google/gemma-4-31B-it
    served_model: tiny
    method: dflash
    draft_tokens: 7
  - name: tapped
    url: http://127.0.0.1:2
    model: google/gemma-4-31B-it
    served_model: tiny
    method: dflash
    draft_tokens: 7
  - name: odd
    url: http://127.0.0.1:3
    model: org/Odd
"""
POLICY = """\
version: 1
models: {tiny: google/gemma-4-31B-it, alias: org/Odd}
allow_pin: true
routes:
  - {name: default, prefer: [tapped, odd, twin]}
"""
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
ASKED = [{"role": "user", "content": "What is 17 * 23?"}]
TOOL = {
    "type": "function",
    "function": {"name": "lookup", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}},
}
USAGE = {"include_usage": True}
LANGUAGES = {
    "vi": "Hãy giải thích vì sao bầu trời màu xanh, thật ngắn gọn nhé.",
    "zh": "请用三句话解释为什么天空是蓝色的。",
    "ja": "なぜ空は青いのか、短く説明してください。",
}
OURS = {"x-request-id", "x-specroute-backend", "x-specroute-workload", "x-specroute-policy"}
_CREATED = re.compile(rb'"created":\d+')


@dataclass
class Seen:
    """One exchange as a server saw it."""

    method: str
    target: bytes
    headers: dict[str, str]
    body: bytes = b""
    answer: bytes = b""


@dataclass
class Tap:
    """Keeps what goes in and out of a server, by request id."""

    application: Application
    seen: dict[str, Seen] = field(default_factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        seen = self.seen[headers.get("x-request-id", "")] = Seen(scope["method"], target, headers)

        async def tapped_receive() -> Any:
            message = await receive()
            seen.body += message.get("body", b"")
            return message

        async def tapped_send(message: Any) -> None:
            seen.answer += message.get("body", b"")
            await send(message)

        await self.application(scope, tapped_receive, tapped_send)


EMOJI = "🎉🚀👩‍👩‍👧 Grüße, Füße – اليوم ไทย"


async def odd(scope: Any, receive: Any, send: Any) -> None:
    """A server whose bytes only it would choose, cut where it hurts."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/metrics":
        kind, parts = b"text/plain", [b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"]
    elif scope["path"] == "/v1/models":
        kind, parts = b"application/json", [b'{"data":[{"id":"org/Odd"}]}']
    elif scope["path"] == CHAT:
        delta = json.dumps({"choices": [{"delta": {"content": EMOJI}}]}, ensure_ascii=False).encode()
        stream = b": hello\r\n\r\ndata:" + delta + b"\r\n\r\nevent: x\r\ndata: 1\r\n\r\ndata: [DONE]\n\n"
        kind, parts = b"text/event-stream", [stream[at : at + 1] for at in range(len(stream))]
    else:
        kind, parts = b"application/json", [b'{ "object":"odd",\t"x": [ ] , "\\u00fc": "\xc3', b'\xbc" }']
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def declared(name: str) -> Member:
    fleet = load_fleet(FLEET)
    assert isinstance(fleet, Loaded)
    return next(member(one, {}) for one in fleet.value.backends if one.name == name)


@pytest.fixture(scope="module")
def taps() -> dict[str, Tap]:
    tapped = declared("tapped")
    configuration = profiles.configuration(tapped.target, tapped.method, tapped.draft_tokens)
    return {"tapped": Tap(Simulator(configuration, tapped.options, time.time)), "odd": Tap(odd)}


@pytest.fixture(scope="module")
def pair(
    loop: Loop,
    taps: dict[str, Tap],
    tmp_path_factory: pytest.TempPathFactory,
    pipe: bool,
) -> Iterator[Stack]:
    folder, given = tmp_path_factory.mktemp("passthrough"), {"pipe": pipe}
    with running(loop, folder, FLEET, POLICY, applications=taps, given=given) as found:
        yield found


@pytest.fixture(scope="module")
def direct(loop: Loop, pair: Stack) -> Iterator[httpx.Client]:  # anew with each gateway
    """A server like the twin behind the gateway: its answers are the same as long as it gets the same requests."""
    with (
        loop.entered(run_fleet([declared("twin")])) as (server,),
        httpx.Client(base_url=server.url, trust_env=False, timeout=SECONDS) as client,
    ):
        yield client


class Both:
    """Sends a request directly and through the gateway."""

    def __init__(self, direct: httpx.Client, gateway: httpx.Client) -> None:
        self._direct = direct
        self._gateway = gateway
        self._numbers = itertools.count()

    def ask(self, path: str, body: Any, method: str = "POST") -> tuple[httpx.Response, httpx.Response]:
        content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {
            "content-type": "application/json",
            "x-request-id": f"both-{next(self._numbers)}",
            "x-specroute-backend": "twin",
        }
        plain, passed = (
            client.request(method, path, content=content, headers=headers)
            for client in (self._direct, self._gateway)
        )
        return plain, passed


@pytest.fixture(scope="module")
def both(pair: Stack, direct: httpx.Client) -> Both:
    return Both(direct, pair.http)


def same(plain: httpx.Response, passed: httpx.Response) -> None:
    assert passed.status_code == plain.status_code
    assert _CREATED.sub(b"", passed.content) == _CREATED.sub(b"", plain.content)
    assert passed.headers.get("content-type") == plain.headers.get("content-type")


def post(pair: Stack, path: str, body: Any, backend: str = "", **more: str) -> tuple[httpx.Response, str]:
    """Send a request; gives the answer and the request id."""
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    headers = {
        "content-type": "application/json",
        **({"x-specroute-backend": backend} if backend else {}),
        **more,
    }
    answer = pair.http.post(path, content=content, headers=headers)
    return answer, answer.headers["x-request-id"]


def events(body: bytes) -> list[Any]:
    return [json.loads(event[6:]) for event in body.split(b"\n\n") if event.startswith(b"data: {")]


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "seed": {"seed": 3, "temperature": 0.3},
    "choices": {"n": 2, "max_tokens": 20},
    "logprobs": {"logprobs": True, "top_logprobs": 2, "max_tokens": 10},
    "tool": {"tools": [TOOL], "tool_choice": "required"},
    "token ids": {"return_token_ids": True, "max_tokens": 12},
    "stop": {"stop": ["the", "a"], "include_stop_str_in_output": True},
}


@pytest.mark.parametrize("changes", REQUESTS.values(), ids=list(REQUESTS))
def test_an_answer_is_what_the_server_says_without_the_gateway(both: Both, changes: dict[str, Any]) -> None:
    plain, passed = both.ask(CHAT, {"model": "tiny", "messages": ASKED, **changes})
    assert plain.status_code == 200
    same(plain, passed)


def test_a_completion_is_what_the_server_says_without_the_gateway(both: Both) -> None:
    plain, passed = both.ask(TEXT, {"model": "tiny", "prompt": ["Once", "Twice"], "max_tokens": 30})
    assert plain.status_code == 200
    same(plain, passed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_of_many_bytes_a_character_is_what_the_server_says(both: Both, language: str) -> None:
    messages = [{"role": "user", "content": LANGUAGES[language]}]
    plain, passed = both.ask(CHAT, {"model": "tiny", "messages": messages})
    same(plain, passed)
    assert not passed.json()["choices"][0]["message"]["content"].isascii()


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": -1},
        {"n": 0},
        {"max_tokens": "many"},
        {"messages": "hello"},
        {"stream": "perhaps"},
        {"tools": "none"},
        {"max_tokens": 5000},
        {"min_p": 0.1},
        {"logit_bias": {"5": 1}},
        {"messages": [{"role": "user", "content": "word " * 9000}]},
        {"stream": True, "temperature": -1},
        {"stream": True, "stream_options": "all"},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_a_refusal_is_what_the_server_says_without_the_gateway(both: Both, changes: dict[str, Any]) -> None:
    plain, passed = both.ask(CHAT, {"model": "tiny", "messages": ASKED, **changes})
    assert plain.status_code == 400
    same(plain, passed)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing/here?a=1&b=%20", 404),
        ("POST", "/nothing", 404),
        ("GET", CHAT, 405),
        ("GET", "/version", 200),
        ("POST", "/ping", 200),
    ],
)
def test_other_paths_are_the_servers_business(both: Both, method: str, path: str, status: int) -> None:
    plain, passed = both.ask(path, b"", method)
    assert plain.status_code == status
    same(plain, passed)


def test_tokens_go_there_and_back(both: Both) -> None:
    plain, passed = both.ask("/tokenize", {"model": "tiny", "prompt": LANGUAGES["zh"]})
    same(plain, passed)
    plain, passed = both.ask("/detokenize", {"model": "tiny", "tokens": passed.json()["tokens"]})
    same(plain, passed)
    assert passed.json()["prompt"] == LANGUAGES["zh"]


def test_ours_are_the_only_headers_added(both: Both) -> None:
    plain, passed = both.ask(CHAT, {"model": "tiny", "messages": ASKED})
    assert set(passed.headers) - set(plain.headers) == OURS
    assert set(plain.headers) - set(passed.headers) <= {"server", "date"}


STREAMS = {
    **REQUESTS,
    **{language: {"messages": [{"role": "user", "content": text}]} for language, text in LANGUAGES.items()},
}


@pytest.mark.parametrize("changes", STREAMS.values(), ids=list(STREAMS))
def test_a_stream_comes_as_the_server_sent_it(
    pair: Stack, taps: dict[str, Tap], changes: dict[str, Any]
) -> None:
    request = {"model": "tiny", "messages": ASKED, "stream": True, "stream_options": USAGE, **changes}
    answer, identity = post(pair, CHAT, request, "tapped")
    assert answer.status_code == 200
    assert answer.content == taps["tapped"].seen[identity].answer
    assert answer.content.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "changes",
    [
        *REQUESTS.values(),
        {"stream_options": None},
        {"stream_options": {}},
        {"stream_options": {"include_usage": False}},
        {"stream_options": {"include_usage": False, "continuous_usage_stats": True}},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_only_the_usage_nobody_asked_for_is_cut_out(
    pair: Stack, taps: dict[str, Tap], path: str, changes: dict[str, Any]
) -> None:
    asked = {"messages": ASKED} if path == CHAT else {"prompt": "Once upon a time", "max_tokens": 50}
    if path == TEXT and changes.keys() & {"tools", "logprobs"}:
        pytest.skip("for chats only")
    answer, identity = post(pair, path, {"model": "tiny", "stream": True, **asked, **changes}, "tapped")
    assert answer.status_code == 200
    said = taps["tapped"].seen[identity].answer.split(b"\n\n")
    cut = json.loads(said.pop(-3)[6:])
    assert cut["choices"] == []
    assert cut["usage"]["completion_tokens"] > 0
    # The fingerprint stands in the last event, whichever that is.
    said[-3] = said[-3][:-1] + f',"system_fingerprint":"{cut["system_fingerprint"]}"}}'.encode()
    assert answer.content == b"\n\n".join(said)
    assert [event for event in events(answer.content) if event.get("usage")] == []


def test_usage_in_every_chunk_stays_where_it_was_asked_for(pair: Stack, taps: dict[str, Tap]) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    request = {"model": "tiny", "messages": ASKED, "stream": True, "stream_options": options}
    answer, identity = post(pair, CHAT, request, "tapped")
    assert answer.content == taps["tapped"].seen[identity].answer
    assert all(event["usage"] for event in events(answer.content))


@pytest.mark.parametrize("options", [USAGE, None], ids=["with usage", "without"])
def test_a_stream_that_comes_byte_by_byte_stays_whole(
    pair: Stack, taps: dict[str, Tap], options: dict[str, Any] | None
) -> None:
    request = {"model": "org/Odd", "messages": ASKED, "stream": True, "stream_options": options}
    answer, identity = post(pair, CHAT, request)
    assert answer.content == taps["odd"].seen[identity].answer
    assert EMOJI.encode() in answer.content


def test_a_document_of_an_odd_kind_stays_as_it_is(pair: Stack, taps: dict[str, Tap]) -> None:
    answer, identity = post(pair, TEXT, {"model": "org/Odd"})
    assert answer.content == taps["odd"].seen[identity].answer
    assert b'"\\u00fc": "\xc3\xbc"' in answer.content


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"model": "tiny", "messages": [', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"[1, 2]", "JSON object"),
        (b'{"model": 7}', "'model' is a string"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_openais_shape(pair: Stack, body: bytes, words: str) -> None:
    answer, _ = post(pair, CHAT, body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


UNUSUAL = (
    b'{"messages":[{"role":"user","content":"h\\u00fc \xf0\x9f\x8e\x89"}], "model" : "org/Odd",\n'
    b'  "x_unknown": {"deep": [1.0, 1e400, 12345678901234567890123, {"z":1,"a":2}]}, "priority": 3,"x":null }'
)


def test_a_body_reaches_the_server_as_it_was_sent(pair: Stack, taps: dict[str, Tap]) -> None:
    _, identity = post(pair, TEXT, UNUSUAL)
    assert taps["odd"].seen[identity].body == UNUSUAL


def test_a_new_model_name_changes_nothing_else(pair: Stack, taps: dict[str, Tap]) -> None:
    _, identity = post(pair, TEXT, UNUSUAL.replace(b"org/Odd", b"alias"))
    body = taps["odd"].seen[identity].body
    assert b'"x_unknown":{"deep": [1.0, 1e400, 12345678901234567890123, {"z":1,"a":2}]}' in body
    assert b'"messages":[{"role":"user","content":"h\\u00fc \xf0\x9f\x8e\x89"}]' in body
    assert b'"model":"org/Odd"' in body
    assert list(json.loads(body)) == list(json.loads(UNUSUAL))


def test_usage_is_asked_for_beside_other_stream_options(pair: Stack, taps: dict[str, Tap]) -> None:
    request = {"model": "org/Odd", "stream": True, "y": 1}
    _, identity = post(pair, CHAT, request | {"stream_options": {"later": [1]}})
    body = json.loads(taps["odd"].seen[identity].body)
    assert body == request | {"stream_options": {"later": [1], "include_usage": True}}


def test_headers_reach_the_server_but_for_the_clients_secrets(pair: Stack, taps: dict[str, Tap]) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    given = {
        "authorization": "Bearer canary-key",
        "cookie": "canary-key=1",
        "x-tenant": "blue",
        "x-request-id": "id-1",
        "x-specroute-workload": "math",
        "traceparent": parent,
    }
    post(pair, TEXT, {"model": "org/Odd"}, **given)
    headers = taps["odd"].seen["id-1"].headers
    assert "canary-key" not in str(headers)
    assert headers["x-tenant"] == "blue"
    assert "x-specroute-workload" not in headers
    assert headers["traceparent"][:36] == parent[:36]
    assert headers["traceparent"] != parent


def test_path_query_and_bytes_reach_the_chosen_server_as_they_were_sent(
    pair: Stack, taps: dict[str, Tap]
) -> None:
    target = "/v1/files/a%2Fb%20c?x=1&x=2&y=%C3%BC"
    headers = {"x-specroute-backend": "odd", "x-request-id": "put-1"}
    pair.http.put(target, content=b"\x00\xff raw", headers=headers)
    seen = taps["odd"].seen["put-1"]
    assert (seen.method, seen.target, seen.body) == ("PUT", target.encode(), b"\x00\xff raw")


def test_requests_that_come_in_one_piece_are_answered_in_order(stack: Stack) -> None:
    body = json.dumps({"model": "gemma-4-31b", "messages": ASKED, "max_tokens": 3}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    host, port = stack.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        pieces = (f"{head}x-request-id: piped-{number}\r\n\r\n".encode() + body for number in (1, 2))
        connection.sendall(b"".join(pieces))
        seen = b""
        while b"chatcmpl-piped-2" not in seen:
            part = connection.recv(65536)
            assert part, seen
            seen += part
    assert seen.index(b"chatcmpl-piped-1") < seen.index(b"chatcmpl-piped-2")


def test_many_clients_at_once_get_their_own_answers(stack: Stack) -> None:
    def ask(number: int) -> tuple[int, set[str]]:
        request = {"model": "gemma-4-31b", "messages": ASKED, "stream": number % 2 == 0, "max_tokens": 50}
        answer = stack.http.post(CHAT, json=request, headers={"x-request-id": f"crowd-{number}"})
        return answer.status_code, set(re.findall(r'"id":"chatcmpl-([^"]*)"', answer.text))

    with ThreadPoolExecutor(16) as crowd:
        answers = list(crowd.map(ask, range(32)))
    assert answers == [(200, {f"crowd-{number}"}) for number in range(32)]
