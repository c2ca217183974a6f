"""A key and a sentence, sent in every place a client can put them, show up nowhere but in the answer to it."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.contract.stack import POLICIES, Loop, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "sk-canary-4f9d2c71"
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
    "x-anything-else": f"{SENTENCE} {KEY}",
    "traceparent": f"00-{KEY}-{KEY}-01",
    "tracestate": f"vendor={KEY}",
    "referer": f"http://{KEY}/",
}


def body(**given: Any) -> dict[str, Any]:
    tool = {"name": SENTENCE, "description": f"{SENTENCE} {KEY}", "parameters": {"type": "object"}}
    return {
        "model": "gemma-4-31b",
        "messages": [
            {"role": "system", "content": f"{SENTENCE} {KEY}"},
            {"role": "user", "content": f"{SENTENCE} {KEY}", "name": KEY},
        ],
        "max_tokens": 8,
        "user": f"{SENTENCE} {KEY}",
        "metadata": {"workload": SENTENCE, KEY: SENTENCE},
        "stop": [SENTENCE],
        "tools": [{"type": "function", "function": tool}],
        "unknown_field": {KEY: SENTENCE},
        **given,
    }


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
    given = {"otlp_endpoint": collector, "decision_log": log, "access_log": True, "log_level": "debug"}
    pages: list[str] = []
    with running(loop, tmp_path, fleet, policy, given=given) as stack, httpx.Client(
        base_url=stack.url, headers=HEADERS, trust_env=False
    ) as client:  # fmt: skip
        answers = [
            client.post(CHAT, json=body()),
            client.post(CHAT, json=body(stream=True)),
            client.post(CHAT, json=body(tool_choice={"type": "function", "function": {"name": SENTENCE}})),
            client.post(CHAT, json=body(model=f"{SENTENCE} {KEY}")),
            client.post(CHAT, json=body(response_format={"type": f"{SENTENCE} {KEY}"})),
            client.post(CHAT, json=body(messages=[{"role": f"{SENTENCE} {KEY}", "content": KEY}])),
            client.post(CHAT, json=body(), headers={"x-specroute-backend": KEY}),
            client.post(CHAT, content=f'{{"model": "{SENTENCE} {KEY}'.encode()),
            client.post(CHAT, json={"model": {KEY: SENTENCE}}),
            client.post("/v1/completions", json={"model": "gemma-4-31b", "prompt": f"{SENTENCE} {KEY}"}),
            client.post(f"/v1/{KEY}/{SENTENCE}", params={KEY: SENTENCE}, json=body()),
            client.request("GET", f"/{KEY}", params={"q": SENTENCE}),
        ]
        client.post("/ui/explain", data={"request": f"{SENTENCE} {KEY}", "model": "gemma-4-31b"})
        client.post("/-/decide", json=body())
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
        for canary in (KEY, SENTENCE, SENTENCE.replace(" ", "%20"), json.dumps(SENTENCE)):
            at = text.find(canary)
            assert at < 0, f"{place}: …{text[max(0, at - 200) : at + 100]}…"


@pytest.mark.timeout(600)  # ten thousand requests, on a machine that may be busy
def test_junk_leaves_the_number_of_series_constant(loop: Loop, tmp_path: Path) -> None:
    """10,000 made-up models, paths and headers."""
    fleet, policy = ((POLICIES / name).read_text() for name in ("fleet.yaml", "policy.yaml"))

    def series(client: httpx.Client) -> set[str]:
        lines = client.get("/metrics").text.splitlines()
        return {line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")}

    def junk(client: httpx.Client, number: int) -> None:
        headers = {
            "x-specroute-workload": f"w{number}", "x-session-id": f"s{number}", "x-specroute-tenant": f"t{number}",
            "x-specroute-backend": f"b{number}" if number % 5 == 0 else "", "user-agent": f"u{number}",
        }  # fmt: skip
        kind = number % 4
        if kind == 0:
            client.post(CHAT, json={"model": f"m{number}", "messages": []}, headers=headers)
        elif kind == 1:
            client.get(f"/ui/nothing/{number}", headers=headers)
        elif kind == 2:
            client.post(
                f"/v1/chat/completions?q={number}", content=f"{{junk {number}".encode(), headers=headers
            )
        else:
            client.post(
                CHAT, json={"model": f"m{number}", "response_format": {"type": f"f{number}"},
                            "messages": [{"role": f"r{number}", "content": "x"}]}, headers=headers
            )  # fmt: skip

    with (
        running(loop, tmp_path, fleet, policy) as stack,
        httpx.Client(base_url=stack.url, trust_env=False) as client,
    ):
        for number in range(40):
            junk(client, number)
        before = series(client)
        for number in range(40, 10_040):
            junk(client, number)
        assert series(client) == before
