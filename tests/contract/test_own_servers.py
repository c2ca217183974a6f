"""Requests of a class with limits wait for the servers that are kept for it, but not for long."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.stack import eventually, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.contract.stack import Loop, Stack

MODEL = "google/gemma-4-31B-it"
FLEET = f"""\
version: 1
backends:
  - {{name: first, url: http://127.0.0.1:1, model: {MODEL}}}
  - {{name: second, url: http://127.0.0.1:2, model: {MODEL}}}
"""
POLICY = """\
version: 1
learning: {{mode: frozen, file: learned.yaml}}
classes:
  - {{name: chat, match: {{stream: true}}, ttft: {ttft}, tpot: 3ms, priority: 1}}
  - {{name: bulk}}
queue: {{wait: 60s}}
routes:
  - {{name: default, prefer: [any]}}
"""
KNOWN = """\
  {name}:
    fingerprint: plain
    steps_per_token: {{other: 1.0}}
    step_seconds: {{1: 0.001, 256: 0.256}}
    prefill_seconds: 0.0
    output_tokens: {{other: 20}}
"""
"""In batches of one the limit holds, and a server that does these does fifty requests a second."""

SLOW = {"speed": 0.1}
"""Answers last for minutes."""


@pytest.fixture
def stack(request: pytest.FixtureRequest, loop: Loop, tmp_path: Path) -> Iterator[Stack]:
    """Two servers, one of which is kept for chat."""
    known = "".join(KNOWN.format(name=name) for name in ("first", "second"))
    (tmp_path / "learned.yaml").write_text(f"version: 1\nservers:\n{known}")
    changes = {"first": SLOW, "second": SLOW}
    policy = POLICY.format(ttft=request.param)
    with running(loop, tmp_path, FLEET, policy, changes=changes) as found:
        yield found


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as found:
        yield found


def begun(stack: Stack, identity: str, *, stream: bool = True) -> httpx.Response:
    """A request whose answer has begun, or is over."""
    message = {"role": "user", "content": "Hello there."}
    body: dict[str, Any] = {"model": MODEL, "messages": [message], "stream": stream}
    body["max_tokens"] = 1000 if stream else 1
    asked = stack.http.build_request(
        "POST", "/v1/chat/completions", json=body, headers={"x-request-id": identity}
    )
    return stack.http.send(asked, stream=stream)


def kept_for_chat(stack: Stack) -> str:
    """The server that is, as soon as there is one."""
    begun(stack, "bulk", stream=False)
    begun(stack, "before").close()
    learning = eventually(
        lambda: stack.http.get("/status").json()["learning"],
        lambda now: now["roles"].get(MODEL, {}).get("chat"),
    )
    (name,) = learning["roles"][MODEL]["chat"]
    return str(name)


def waiting(stack: Stack) -> int:
    found = re.search(r"^specroute_queue_waiting\S* (\d+)", stack.http.get("/metrics").text, re.MULTILINE)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("stack", ["60s"], indirect=True)
def test_chat_waits_for_its_server_and_is_served_there(stack: Stack, pool: ThreadPoolExecutor) -> None:
    own, open_ = kept_for_chat(stack), []
    while True:
        last = pool.submit(begun, stack, f"chat-{len(open_)}")
        eventually(lambda: last.done() or waiting(stack) > 0, bool)  # noqa: B023 - called at once
        if not last.done():
            break
        open_.append(last.result())
        assert open_[-1].headers["x-specroute-backend"] == own
    open_[0].close()
    waited = last.result()
    assert waited.headers["x-specroute-backend"] == own
    for one in (waited, *open_):
        one.close()
    assert stack.records.of(f"chat-{len(open_)}").queued > 0.0


@pytest.mark.parametrize("stack", ["400ms"], indirect=True)
def test_when_its_patience_ends_it_is_served_elsewhere(stack: Stack) -> None:
    own, open_ = kept_for_chat(stack), []
    while not open_ or open_[-1].headers["x-specroute-backend"] == own:
        open_.append(begun(stack, f"chat-{len(open_)}"))
        assert open_[-1].status_code == 200
    for one in open_:
        one.close()
    assert [stack.records.of(f"chat-{at}").queued > 0.0 for at in range(len(open_))] == [
        *[False] * (len(open_) - 1), True
    ]  # fmt: skip
