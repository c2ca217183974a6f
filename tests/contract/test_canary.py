"""A key and a sentence, sent in every place a client can put them, show up nowhere but in the answer to it."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.contract.stack import POLICIES, Loop, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-canary-4f9d2c71"
OTHER_KEY = "0123456789CANARYabcdef"
SENTENCE = "The canary sings behind the green door"
CHAT = "/v1/chat/completions"
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "x-api-key": KEY,
    "api-key": KEY,
    "cookie": f"session={KEY}",
    "user-agent": SENTENCE,
    "x-session-id": f"{SENTENCE} {KEY}",
    "x-specroute-tenant": f"{SENTENCE} {KEY}",
    "x-specroute-workload": SENTENCE,
    "x-specroute-class": f"{SENTENCE} {KEY}",
    "accept-language": SENTENCE,
    "openai-organization": KEY,
    "x-anything-else": f"{SENTENCE} {KEY}",
    "traceparent": f"00-{KEY}-{KEY}-01",
    "tracestate": f"vendor={KEY}",
    "x-request-id": KEY,
    "referer": f"http://{KEY}/",
    "x-specroute-policy": f"{SENTENCE} {KEY}",
    "x-specroute-sibling": f"{SENTENCE} {KEY}",
    "baggage": f"key={KEY}",
    "b3": f"{KEY}-{KEY}-1",
    "x-b3-traceid": KEY,
    "forwarded": f"for={KEY};host={KEY}",
    "x-forwarded-for": KEY,
    "x-forwarded-proto": KEY,
    "x-real-ip": KEY,
    "priority": SENTENCE,
    "origin": f"http://{KEY}",
    "if-none-match": KEY,
}

TRACED = (
    {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": f"vendor={KEY},other={SENTENCE}"},
    {"x-request-id": SENTENCE},
    {"x-request-id": SENTENCE.replace(" ", "%20")},
    {"x-request-id": f"req-{OTHER_KEY}", "authorization": f"Bearer {OTHER_KEY}"},
    {"x-request-id": OTHER_KEY, "cookie": f"a={OTHER_KEY}; b=c"},
    {
        "x-request-id": OTHER_KEY,
        "proxy-authorization": f"Basic {b64encode(f'me:{OTHER_KEY}'.encode()).decode()}",
    },
    {"x-request-id": OTHER_KEY, "hf-token": OTHER_KEY},
)
"""What is taken over where it has the right form: the context of a trace, and the id of a request."""

PICTURE = {"type": "image_url", "image_url": {"url": f"https://{KEY}/{SENTENCE}", "detail": SENTENCE}}


def body(**given: Any) -> dict[str, Any]:
    tool = {"name": SENTENCE, "description": f"{SENTENCE} {KEY}", "parameters": {"type": "object"}}
    call = {"name": SENTENCE, "arguments": json.dumps({KEY: SENTENCE})}
    return {
        "model": "gemma-4-31b",
        "messages": [
            {"role": "system", "content": f"{SENTENCE} {KEY}"},
            {"role": "user", "content": f"{SENTENCE} {KEY}", "name": KEY},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": KEY, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": KEY, "content": f"{SENTENCE} {KEY}"},
        ],
        "prompt_cache_key": KEY,
        "max_tokens": 8,
        "user": f"{SENTENCE} {KEY}",
        "metadata": {"workload": SENTENCE, KEY: SENTENCE},
        "stop": [SENTENCE],
        "tools": [{"type": "function", "function": tool}],
        "unknown_field": {KEY: SENTENCE},
        **given,
    }


async def echoing(scope: Any, receive: Any, send: Any) -> None:
    """A server that is well by every probe, and whose errors repeat what it was sent, as vLLM's can."""
    if scope["type"] != "http":
        return
    asked = b""
    while scope["method"] == "POST":
        event = await receive()
        asked += event.get("body", b"")
        if not event.get("more_body"):
            break
    load = 'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n'
    pages = {"/metrics": load, "/health": "", "/v1/models": '{"data":[{"id":"gemma-4-31b"}]}'}
    page = pages.get(scope["path"])
    error = {"message": f"cannot take {asked.decode()}", "type": SENTENCE, "param": KEY, "code": SENTENCE}
    answer, kind, status = json.dumps({"error": error}), b"application/json", 400
    if b'"seed":2' in asked:  # such as answer well, and name themselves as they like
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": SENTENCE},
            "finish_reason": SENTENCE,
        }
        named = OTHER_KEY if b'"user":"named"' in asked else KEY  # which a client may have made its id, too
        answer = json.dumps({"id": named, "model": SENTENCE, "choices": [choice]})
        kind, status = b"application/json", 200
    if b'"seed":1' in asked:  # such as break off in the middle of a stream
        answer, kind, status = f"data: {answer}\n\n", b"text/event-stream", 200
    if page is not None:
        answer, kind, status = page, b"text/plain", 200
    head = [(b"content-type", kind), (b"server", SENTENCE.encode()), (b"x-request-id", KEY.encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": answer.encode()})


@pytest.fixture(scope="module")
def sent() -> list[bytes]:
    return []


@pytest.fixture(scope="module")
def collector(sent: list[bytes]) -> Iterator[str]:
    """Takes whatever is exported, as it comes over the wire."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def malformed(url: str, head: str) -> None:
    """Send what is no HTTP, and read what comes of it."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(f"{head}\r\n\r\n".encode())
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


def test_nothing_of_it_is_anywhere(
    loop: Loop,
    tmp_path: Path,
    collector: str,
    sent: list[bytes],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    for name in ("gateway", "backends"):
        caplog.set_level(logging.DEBUG, name)
    log = tmp_path / "decisions.jsonl"
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))
    fleet += "  - {name: echo, url: 'http://127.0.0.1:1', model: google/gemma-4-31B-it, served_model: gemma-4-31b}\n"
    given = {
        "trace_ratio": 1.0,
        "otlp_endpoint": collector,
        "decision_log": log,
        "access_log": True,
        "log_level": "debug",
    }
    pages: list[str] = []
    with running(
        loop, tmp_path, fleet, policy, given=given, applications={"echo": echoing}
    ) as stack, httpx.Client(
        base_url=stack.url, headers=HEADERS, trust_env=False
    ) as client:  # fmt: skip
        answers = [
            client.post(CHAT, json=body()),
            client.post(CHAT, json=body(stream=True)),
            client.post(CHAT, json=body(tool_choice={"type": "function", "function": {"name": SENTENCE}})),
            client.post(CHAT, json=body(model=f"{SENTENCE} {KEY}")),
            client.post(CHAT, json=body(model=KEY)),
            client.post(CHAT, json=body(response_format={"type": f"{SENTENCE} {KEY}"})),
            client.post(CHAT, json=body(messages=[{"role": f"{SENTENCE} {KEY}", "content": KEY}])),
            client.post(CHAT, json=body(), headers={"x-specroute-backend": KEY}),
            client.post(CHAT, json=body(), headers={"x-specroute-backend": "echo"}),
            client.post(CHAT, json=body(stream=True), headers={"x-specroute-backend": "echo"}),
            client.post(CHAT, json=body(stream=True, seed=1), headers={"x-specroute-backend": "echo"}),
            client.post(CHAT, json=body(seed=2), headers={"x-specroute-backend": "echo"}),
            client.post(
                CHAT,
                json=body(seed=2, user="named"),
                headers={"x-specroute-backend": "echo", "authorization": f"Bearer {OTHER_KEY}"},
            ),
            *(client.post(CHAT, json=body(), headers=given) for given in TRACED),
            client.post(
                CHAT, json=body(), headers={"x-request-id": OTHER_KEY}, params={"api_key": OTHER_KEY}
            ),
            client.post(
                CHAT,
                json=body(
                    response_format={
                        "type": "json_schema",
                        "json_schema": {"name": SENTENCE, "schema": {"description": KEY}},
                    }
                ),
            ),
            client.post(CHAT, json=body(messages=[{"role": "user", "content": [PICTURE]}])),
            client.post(CHAT, json=body(logit_bias={KEY: 1}, guided_regex=SENTENCE)),
            client.post("/v1/embeddings", json={"model": "gemma-4-31b", "input": f"{SENTENCE} {KEY}"}),
            client.post("/v1/responses", json={"model": "gemma-4-31b", "input": f"{SENTENCE} {KEY}"}),
            client.post("/v1/messages", json=body()),
            client.post("/tokenize", json={"model": "gemma-4-31b", "prompt": f"{SENTENCE} {KEY}"}),
            client.post(CHAT, content=f'{{"model": "{SENTENCE} {KEY}'.encode()),
            client.post(CHAT, json={"model": {KEY: SENTENCE}}),
            client.post("/v1/completions", json={"model": "gemma-4-31b", "prompt": f"{SENTENCE} {KEY}"}),
            client.post(f"/v1/{KEY}/{SENTENCE}", params={KEY: SENTENCE}, json=body()),
            client.request("GET", f"/{KEY}", params={"q": SENTENCE}),
            client.request(KEY.upper(), "/status"),
            client.post(CHAT, content=b"x", headers={"content-encoding": KEY}),
            client.post(
                CHAT, content=gzip.compress(SENTENCE.encode())[:-9], headers={"content-encoding": "gzip"}
            ),
            client.post(CHAT, json=body(), headers={"content-type": f"{KEY}/{SENTENCE}; boundary={KEY}"}),
            client.post(CHAT, json=body(), headers={"host": KEY, "accept": f"{KEY}/{SENTENCE}"}),
        ]
        asked = [
            client.get(path, params=given)
            for path, given in (
                (f"/v1/models/{KEY}", {}), ("/-/board", {"window": KEY}), ("/ui/live", {"show": KEY}),
            )
        ]  # fmt: skip
        for head in (
            f"{KEY} / HTTP/1.1\r\n",
            f"GET /{KEY} HTTP/9.9\r\n{KEY}",
            f"GET / HTTP/1.1\r\n{KEY} : {SENTENCE}\r\n",
        ):
            malformed(stack.url, head)
        client.post("/ui/explain", data={"request": f"{SENTENCE} {KEY}", "model": "gemma-4-31b"})
        for pasted in (json.dumps(body()), json.dumps(body(model=f"{SENTENCE} {KEY}")), f"{SENTENCE} {KEY}"):
            client.post("/-/decide", content=pasted)
        for path in (f"/-/{KEY}", f"/ui/{KEY}", "/ui/live"):
            client.get(path, params={"show": f"{SENTENCE} {KEY}", "minutes": KEY})
        with client.stream("POST", CHAT, json=body(stream=True, max_tokens=4000)) as left:
            next(left.iter_bytes())
        stack.until_idle()
        pages = [
            client.get(path).text
            for path in (
                "/metrics", "/status", "/-/policy", "/-/board", "/ui", "/ui/live?show=speed", "/ui/live?show=gain",
                "/ui/data", "/v1/models",
            )
        ]  # fmt: skip
        with client.stream("GET", "/ui/decisions") as stream:
            pages += [chunk for chunk, _ in zip(stream.iter_text(), range(3), strict=False)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    assert {404, 400} <= {answer.status_code for answer in answers}
    echoed = [answer.text for answer in answers if "cannot take" in answer.text]
    assert len(echoed) >= 3
    assert all(SENTENCE in text for text in echoed)  # the client is told; nobody else is
    own = [
        answer.text for answer in [*answers, *asked] if answer.status_code >= 400 and _is_ours(answer.json())
    ]
    assert {code for code in CODES if any(f'"{code}"' in text for text in own)} == CODES
    assert [text for text in own if KEY in text or SENTENCE in text] == []
    everywhere = {
        "log": caplog.text,
        "stderr": capfd.readouterr().err,
        "export": b"".join(sent).decode("utf-8", "replace"),
        "decision log": log.read_text(),
        "pages": "\n".join(pages),
    }
    assert len(log.read_text().splitlines()) >= len(answers)
    assert "specroute.access" in everywhere["stderr"]
    assert "specroute.decision.reason" in everywhere["export"]
    assert "gemma31" in everywhere["pages"]
    for place, text in everywhere.items():
        for canary in (KEY, OTHER_KEY, SENTENCE, SENTENCE.replace(" ", "%20"), json.dumps(SENTENCE)):
            at = text.find(canary)
            assert at < 0, f"{place}: …{text[max(0, at - 200) : at + 100]}…"


CODES = {"model_not_found", "unknown_backend", "invalid_request", "int_parsing", "string_pattern_mismatch"}


def _is_ours(answer: dict[str, Any]) -> bool:
    """Whether the gateway itself says what is wrong: servers have numbers for codes, or none."""
    return "error" not in answer or answer["error"].get("code") in CODES


def junk(client: httpx.Client, number: int) -> None:
    """A request whose every name is made up."""
    headers = {
        "x-specroute-workload": f"w{number}", "x-session-id": f"s{number}", "x-specroute-tenant": f"t{number}",
        "x-specroute-backend": f"b{number}" if number % 5 == 0 else "", "user-agent": f"u{number}",
        "x-specroute-class": f"c{number}", "accept-language": f"l{number}", f"x-junk-{number}": "1",
    }  # fmt: skip
    tool = {"type": "function", "function": {"name": f"tool{number}", "parameters": {}}}
    said = {
        "role": "user",
        "content": f"{chr(0x100 + number % 50 * 0x400) * 40} Answer in language {number}.",
    }
    named = {"type": "function", "function": {"name": f"tool{number}"}}
    kinds: tuple[tuple[str, str, Any], ...] = (
        ("POST", CHAT, {"model": f"m{number}", "messages": []}),
        ("GET", f"/ui/nothing/{number}", None),
        ("POST", f"{CHAT}?q={number}", f"junk {number}"),
        ("POST", CHAT, {
            "model": f"m{number}", "response_format": {"type": f"f{number}"},
            "messages": [{"role": f"r{number}", "content": "x"}],
        }),
        (f"JUNK{number}", f"/v1/{number}", None),
        ("POST", f"/v1/junk/{number}", {"model": f"m{number}", "input": "x"}),
        # Of a model that there is, so that it is classified, but for a server that there is not.
        ("POST", CHAT, {
            "model": "gemma-4-31b", "messages": [said], "tools": [tool], "tool_choice": named, "user": f"u{number}",
            "metadata": {"workload": f"w{number}"},
        }),
    )  # fmt: skip
    method, path, body = kinds[number % len(kinds)]
    if number % 7 == 6:
        headers["x-specroute-backend"] = f"b{number}"
    client.request(method, path, json=body, headers=headers)


def series(client: httpx.Client) -> set[str]:
    """Names and labels of what there is; that a server was out for a moment says nothing of junk."""
    lines = client.get("/metrics").text.splitlines()
    found = {line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")}
    return {each for each in found if 'reason="unhealthy"' not in each}


@pytest.mark.timeout(900)  # ten thousand requests, on a machine that may be busy
def test_junk_leaves_the_number_of_series_constant(loop: Loop, tmp_path: Path) -> None:
    """10,000 made-up models, paths, methods, headers, tenants, classes, tools, languages and hints."""
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))
    with (
        running(loop, tmp_path, fleet, policy) as stack,
        httpx.Client(base_url=stack.url, trust_env=False) as client,
    ):
        for number in range(350):  # each kind of request in each script
            junk(client, number)
        before = series(client)
        for number in range(350, 10_350):
            junk(client, number)
        assert series(client) == before
