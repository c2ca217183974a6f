"""A loop whose clock jumps to what is due next, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from backends.sim import profiles
from backends.sim.exchange import Reporting
from backends.sim.server import Options, Simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

TARGET = "google/gemma-4-31B-it"


class VirtualLoop(asyncio.SelectorEventLoop):
    """Sleeping takes no time: the clock moves on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        poll = self._selector.select  # type: ignore[attr-defined]

        def select(timeout: float | None) -> list[Any]:
            if timeout is None:
                raise AssertionError("everything waits and nothing is due")
            self.now += timeout
            return poll(0)  # type: ignore[no-any-return]

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


@pytest.fixture
def virtual() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on a virtual clock."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(main)

    return run


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Events of a stream; the last is ``[DONE]``."""
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n\n") if line]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


class Client:
    """One request to an ASGI application. ``leave`` hangs up."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.answer = Answer()
        self._gone: asyncio.Event = asyncio.Event()
        self.began: asyncio.Event = asyncio.Event()

    def leave(self) -> None:
        self._gone.set()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        sent = False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": raw}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.answer.status = message["status"]
                self.answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                self.answer.parts.append(message["body"])
                self.answer.complete = not message.get("more_body")
                self.began.set()

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        }
        await self.app(scope, receive, send)
        return self.answer


@pytest.fixture
def client() -> type[Client]:
    return Client


@pytest.fixture
def simulator() -> Callable[..., Simulator]:
    """Makes a server: method, N, then options."""

    def make(method: str = "dflash", draft_tokens: int = 7, **options: Any) -> Simulator:
        reporting = Reporting(options.pop("timings", False), options.pop("acceptance", "off"))
        base: dict[str, Any] = {"served_model": "tiny", "max_model_len": 4096, "reporting": reporting}
        chosen = Options(**base | options)
        return Simulator(
            profiles.configuration(TARGET, method, draft_tokens), chosen, lambda: 1_796_000_000.5
        )

    return make


@pytest.fixture
def ask(
    virtual: Callable[..., Any], client: Callable[..., Any], simulator: Callable[..., Any]
) -> Callable[..., Any]:
    """Asks a new server one thing: ``ask(method, path, body, server=..., **headers)``."""

    def send(method: str, path: str, body: Any = None, *, server: Any = None, **headers: str) -> Any:
        return virtual(client(server or simulator()).ask(method, path, body, **headers))

    return send
