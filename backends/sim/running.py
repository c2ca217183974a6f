"""One simulated server on a port: it listens, dies in the ways of a real one, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import uvicorn

from backends.sim import profiles
from backends.sim.server import Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.sim.fleet import Member

Death: TypeAlias = Literal["error", "reset", "stall"]
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: closing drops what is unsent and sends a reset


class Running:
    """A server that listens, unless it was killed.

    Attributes:
        member: What was started.
        simulator: What answers; a new one after each revival.
        url: Base address without path; empty before it listens.

    Raises:
        backends.sim.profiles.UnknownConfigurationError: The member has no profile.
        ValueError: The member could not start as a real server could not.
    """

    def __init__(self, member: Member, host: str) -> None:
        self.member = member
        self.simulator = _simulator(member)
        self.url = ""
        self._address = (host, member.port)
        self._server: _Server | None = None
        self._held: socket.socket | None = None

    async def start(self) -> None:
        """Take the port and answer.

        Raises:
            OSError: The port is taken.
        """
        taken = self._bind()
        self._address = taken.getsockname()
        self.url = f"http://{self._address[0]}:{self._address[1]}"
        await self._serve(taken)

    async def kill(self, how: Death) -> None:
        """Let the server die.

        Args:
            how: ``error``: the engine dies; streams end in an error event and ``[DONE]``, other requests
                in status 500, then connections are refused. ``reset``: the process is gone; every
                connection is reset without a word, new ones are refused. ``stall``: nothing moves any
                more; connections are accepted, streams stay open and silent, every request hangs,
                ``/health`` too. A stalled server can still be reset.

        Raises:
            RuntimeError: It is dead, or stalled and not to be reset.
        """
        server = self._server
        if server is None or (self.simulator.stalled and how != "reset"):
            raise RuntimeError(f"{self.member.label} is dead already")
        if how == "stall":
            self.simulator.stall()
            return
        if how == "error":
            self.simulator.close()
        else:
            server.reset()
        await self._end(server)
        self._held = self._bind()  # without listening: the port stays ours, and refuses

    async def revive(self) -> None:
        """Start a killed server anew, on the same port and with nothing of its past.

        Raises:
            RuntimeError: It is alive.
        """
        if self._server is not None:
            if not self.simulator.stalled:
                raise RuntimeError(f"{self.member.label} is alive")
            await self.kill("reset")
        self._release()
        self.simulator = _simulator(self.member)
        await self._serve(self._bind())

    async def stop(self) -> None:
        """End what is under way and leave the port."""
        self._release()
        if self._server is not None:
            if self.simulator.stalled:
                self._server.reset()
            self.simulator.close()
            await self._end(self._server)

    def _bind(self) -> socket.socket:
        bound = socket.socket()
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(self._address)
        except OSError:
            bound.close()
            raise
        return bound

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    async def _serve(self, taken: socket.socket) -> None:
        self._server = _Server(self.simulator, taken)
        await self._server.listening.wait()

    async def _end(self, server: _Server) -> None:
        server.should_exit = True
        await server.task
        self._server = None


class _Server(uvicorn.Server):
    """Uvicorn as a task, which leaves the signals to whoever owns the loop."""

    def __init__(self, simulator: Any, taken: socket.socket) -> None:  # noqa: ANN401 - uvicorn's own type of an application is narrower
        config = uvicorn.Config(
            simulator,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=75,
            backlog=2048,
        )
        super().__init__(config)
        self.listening = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self.serve(sockets=[taken]))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def reset(self) -> None:
        """Take no more connections and reset those that are open."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            transport: Any = connection.transport
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            transport.abort()


def _simulator(member: Member) -> Simulator:
    configuration = profiles.configuration(member.target, member.method, member.draft_tokens)
    return Simulator(configuration, member.options, lambda: datetime.now(UTC).timestamp())
