"""An on-call drill: a server slows down, its drafts fail, it dies, its metrics go. The page has to say which, and why."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.stack import Loop, eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.contract.stack import Stack

NAMES = ("plain", "steady", "faulty")
FLEET = """\
version: 1
backends:
  - {name: plain, url: "http://127.0.0.1:1", model: m}
  - {name: steady, url: "http://127.0.0.1:2", model: m, method: mtp, draft_tokens: 1}
  - {name: faulty, url: "http://127.0.0.1:3", model: m, method: mtp, draft_tokens: 1}
"""
POLICY = "version: 1\nallow_pin: true\nroutes: [{name: all, prefer: [any]}]\n"
STEPS = 12


class Server:
    """A vLLM server of which each thing can be broken."""

    def __init__(self, *, drafts: bool) -> None:
        self.drafts = drafts
        self.accepts = drafts
        self.step_seconds = 0.005
        self.well = True
        self.tells = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while scope["method"] == "POST" and (await receive()).get("more_body"):
            pass
        load = 'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_waiting{engine="0"} 0\n'
        pages = {
            "/metrics": load if self.tells else None,
            "/health": "" if self.well else None,
            "/v1/models": '{"data":[{"id":"m"}]}',
        }
        if scope["method"] == "POST":
            await self._answer(send)
            return
        page = pages.get(scope["path"])
        await send({"type": "http.response.start", "status": 500 if page is None else 200, "headers": []})
        await send({"type": "http.response.body", "body": (page or "").encode()})

    async def _answer(self, send: Any) -> None:
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})

        async def event(chunk: object) -> None:
            data = b"data: %s\n\n" % json.dumps(chunk).encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})

        tokens = 2 if self.accepts else 1
        for step in range(STEPS * 2 // tokens):
            choice = {"index": 0, "delta": {"content": "word " * tokens}, "finish_reason": None}
            if step == STEPS * 2 // tokens - 1:
                choice["finish_reason"] = "stop"
            await event({"id": "c", "model": "m", "choices": [choice]})
            await asyncio.sleep(self.step_seconds)
        steps, accepted = STEPS * 2 // tokens, STEPS if self.accepts else 0
        speculation = {
            "acceptance_histogram": [steps - accepted, accepted], "num_spec_steps": steps, "num_spec_tokens": 1,
            "num_accepted_draft_tokens": accepted, "num_draft_tokens": steps,
        }  # fmt: skip
        usage = {"prompt_tokens": 4, "completion_tokens": STEPS * 2, "total_tokens": 4 + STEPS * 2}
        metrics = {"speculative_decoding": speculation} if self.drafts else {}
        await event({"id": "c", "model": "m", "choices": [], "usage": usage, "metrics": metrics})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


@pytest.fixture
def servers() -> dict[str, Server]:
    return {name: Server(drafts=name != "plain") for name in NAMES}


@pytest.fixture
def stack(servers: dict[str, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setattr("gateway.ui.samples.INTERVAL", 0.2)
    loop = Loop()
    with running(loop, tmp_path, FLEET, POLICY, applications=servers) as found:
        yield found
    loop.close()


def ask(stack: Stack, rounds: int) -> None:
    """Requests of one kind for each server that is well."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], "stream": True}
    for _ in range(rounds):
        for name in NAMES:
            headers = {"x-specroute-backend": name, "x-specroute-workload": "chat"}
            stack.http.post("/v1/chat/completions", json=body, headers=headers)


def line(stack: Stack, shown: str, backend: str) -> list[float]:
    """What the chart over time draws of a backend, without gaps."""
    return [
        value for value in stack.http.get("/ui/data").json()["over_time"][shown][backend] if value is not None
    ]


def settled(stack: Stack, shown: str, more: int) -> dict[str, list[float]]:
    """The lines of all, when they have so many points more than when they were last looked at."""
    before = len(line(stack, shown, "faulty"))

    def read() -> dict[str, list[float]]:
        ask(stack, 1)
        return {name: line(stack, shown, name) for name in NAMES if name != "plain"}

    return eventually(read, lambda found: len(found["faulty"]) >= before + more)


@pytest.mark.parametrize("fault", ["slow", "drafts"])
def test_which_route_is_slow_since_when_and_why(stack: Stack, servers: dict[str, Server], fault: str) -> None:
    settled(stack, "speeds", 3)
    if fault == "slow":
        servers["faulty"].step_seconds *= 30
    else:
        servers["faulty"].accepts = False
        servers["faulty"].step_seconds *= 4
    speeds = settled(stack, "speeds", 4)
    acceptance = {name: line(stack, "acceptance", name) for name in ("steady", "faulty")}
    # Which, and since when: the line falls, and that of its neighbour does not.
    assert speeds["faulty"][-1] < 0.5 * max(speeds["faulty"])
    assert speeds["faulty"].index(max(speeds["faulty"])) < len(speeds["faulty"]) - 1
    # Why: either acceptance fell with it, or the server itself is slow.
    assert acceptance["faulty"][0] == 1.0 == min(acceptance["steady"])
    assert acceptance["faulty"][-1] == (1.0 if fault == "slow" else 0.0)
    (cell,) = [each for each in stack.http.get("/-/board").json()["cells"] if each["backend"] == "faulty"]
    assert cell["workload"] == "chat"


def test_a_server_that_dies_is_out_with_its_reason_everywhere(
    stack: Stack, servers: dict[str, Server], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    servers["faulty"].well = False
    found = stack.until("faulty", available=False)
    assert "500" in found["reason"]
    page = stack.http.get("/ui/live").text
    assert "unhealthy" in page
    assert found["reason"] in page
    assert 'specroute_backend_healthy{backend="faulty"} 0.0' in stack.http.get("/metrics").text
    assert any("backend faulty is out" in message for message in caplog.messages)
    servers["faulty"].well = True
    stack.until("faulty", available=True)
    assert any("backend faulty is" in message and "out" not in message for message in caplog.messages)


def test_a_load_that_is_not_told_any_more_is_seen_by_its_age(
    stack: Stack, servers: dict[str, Server]
) -> None:
    servers["faulty"].tells = False

    def ages() -> dict[str, float]:
        return {name: backend["load_age_seconds"] for name, backend in stack.backends().items()}

    found = eventually(ages, lambda ages: ages["faulty"] > 1.5)
    assert found["steady"] < found["faulty"]
    assert stack.backends()["faulty"]["available"]
