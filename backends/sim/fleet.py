"""Several simulated servers in one process, on ports of their own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import uvicorn

from backends.sim import profiles
from backends.sim.server import Options, Simulator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Member:
    """A server to start.

    Attributes:
        target: Hugging Face id of the target model.
        method: Speculative method, ``none`` for the baseline.
        draft_tokens: N; 0 for the baseline.
        name: What to call it; made from method and N where empty.
        port: Port to listen on; 0 for a free one.
    """

    target: str
    method: str = "none"
    draft_tokens: int = 0
    name: str = ""
    port: int = 0
    options: Options = field(default_factory=Options)

    @property
    def label(self) -> str:
        """Its name, or one made from method and N."""
        return self.name or (f"{self.method}-{self.draft_tokens}" if self.draft_tokens else self.method)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that listens.

    Attributes:
        url: Base address without path.
    """

    member: Member
    url: str
    simulator: Simulator


class _Server(uvicorn.Server):
    """Uvicorn that leaves the signals to whoever owns the loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def run_fleet(
    members: Sequence[Member], *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Running, ...]]:
    """Start servers in the running loop and stop them at the end.

    Yields:
        The servers in the order given, all of them listening.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: A member has no profile.
        OSError: A port is taken.
        ValueError: A member could not start as a real server could not.
    """
    simulators = [_simulator(member) for member in members]
    with contextlib.ExitStack() as sockets:
        listeners = [
            sockets.enter_context(socket.create_server((host, member.port), backlog=2048))
            for member in members
        ]
        servers = [_Server(_config(simulator)) for simulator in simulators]
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(server.serve(sockets=[listener]), name=f"sim {member.label}")
            for server, listener, member in zip(servers, listeners, members, strict=True)
        ]
        try:
            yield tuple(
                Running(member, f"http://{host}:{listener.getsockname()[1]}", simulator)
                for member, listener, simulator in zip(members, listeners, simulators, strict=True)
            )
        finally:
            for simulator, server in zip(simulators, servers, strict=True):
                simulator.close()
                server.should_exit = True
            await asyncio.gather(*tasks)


def _simulator(member: Member) -> Simulator:
    configuration = profiles.configuration(member.target, member.method, member.draft_tokens)
    return Simulator(configuration, member.options, lambda: datetime.now(UTC).timestamp())


def _config(simulator: Any) -> uvicorn.Config:  # noqa: ANN401 - uvicorn's own type of an application is narrower
    return uvicorn.Config(
        simulator,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
    )
