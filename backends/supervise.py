"""Runs the servers of a fleet as processes: in order, watched, restarted, stopped with all they started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import anyio
import httpx

from backends.commands import Command, Event
from backends.reach import UnreadableCertificateError, client, disbelief
from backends.server_log import Log, cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TAIL_LINES: Final = 30
"""Lines of a log that are shown when a server did not start."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take; seconds.

    Attributes:
        ready: From the start to readiness: weights are loaded and kernels compiled.
        stop: From SIGTERM to SIGKILL.
        answer: For one look at a server that is not ready.
        poll: Between two looks at a server that is not ready.
        backoff: Before the first restart; doubled with each, up to ``longest_backoff``.
        steady: After so long a life the back-off begins anew.
    """

    ready: float = 3600.0
    stop: float = 30.0
    answer: float = 5.0
    poll: float = 0.5
    backoff: float = 1.0
    longest_backoff: float = 60.0
    steady: float = 120.0


class _NeverReadyError(Exception):
    """What a server answers will not change, however long one waits; the text says why."""


@dataclass(slots=True)
class _Server:
    command: Command
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it is known whether it becomes ready."""
    ready: bool = False
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    cause: str = ""
    """The last error that it told."""
    process: asyncio.subprocess.Process | None = None


class Supervisor:
    """The servers of a fleet. Use as an async context manager; leaving it stops them all."""

    def __init__(
        self,
        commands: Sequence[Command],
        *,
        tell: Callable[[str, Event, str], None],
        line: Callable[[str, str], None] = lambda _name, _line: None,
        at_once: int = 1,
        patience: Patience | None = None,
    ) -> None:
        """Prepare to run servers.

        Args:
            commands: The servers, in the order in which they are started.
            tell: Called with the name of a server, what happened to it, and details in words.
            line: Called with the name of a server and each line that it writes.
            at_once: How many may be on their way to readiness together.
            patience: How long things may take.
        """
        self._servers = [_Server(command) for command in commands]
        self._tell = tell
        self._line = line
        self._turns = asyncio.Semaphore(at_once)
        self._patience = patience or Patience()
        self._stopping = asyncio.Event()
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        """Start the first servers; see :meth:`ready` for when all of them are."""
        await self._group.__aenter__()
        for server in self._servers:
            self._group.create_task(self._keep(server))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all servers and wait for their ends."""
        self.stop()
        await self._group.__aexit__(None, None, None)

    def stop(self) -> None:
        """Begin to stop all servers, and start none any more."""
        self._stopping.set()

    async def ready(self) -> list[str]:
        """Wait until each server is ready or has failed. Gives the names of those that are ready."""
        for server in self._servers:
            await server.done.wait()
        return [server.command.name for server in self._servers if server.ready]

    async def _keep(self, server: _Server) -> None:
        """Start a server, and start it again whenever it ends after it was ready once."""
        pause = self._patience.backoff
        clock = asyncio.get_running_loop()
        try:
            while not self._stopping.is_set():
                started = clock.time()
                async with self._turns:
                    ready = not self._stopping.is_set() and await self._start(server)
                server.ready |= ready
                server.done.set()
                if ready:
                    await self._ended(server)
                await self._stop(server)
                if self._stopping.is_set() or not server.ready:
                    return
                if clock.time() - started > self._patience.steady:
                    pause = self._patience.backoff
                code = server.process.returncode if server.process else None
                self._tell(
                    server.command.name, Event.ENDED, f"exit code {code}, started again in {pause:g} s"
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), pause)
                pause = min(2 * pause, self._patience.longest_backoff)
        finally:
            # However this task ends: nobody else ends what it started.
            _kill(server)
            server.done.set()
            if server.process is not None:
                await server.process.wait()

    async def _start(self, server: _Server) -> bool:
        """Start a server and wait. Tells whether it became ready."""
        command = server.command
        self._tell(command.name, Event.STARTING, command.url)
        # A pipe of our own: with one of asyncio a process runs until all that hold the pipe have ended, so a
        # worker that outlives its server would hide that it died.
        reading, writing = os.pipe()
        self._group.create_task(self._tee(server, os.fdopen(reading, "rb")))
        try:
            server.process = await asyncio.create_subprocess_exec(
                *command.argv, env=dict(command.env), start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=writing, stderr=writing,
            )  # fmt: skip
        except OSError as error:
            self._tell(command.name, Event.FAILED, f"{command.argv[0]}: {error.strerror}")
            return False
        finally:
            os.close(writing)
        try:
            return await self._becomes_ready(server, server.process)
        except (_NeverReadyError, UnreadableCertificateError) as error:
            self._fail(server, str(error))
            return False

    async def _becomes_ready(self, server: _Server, process: asyncio.subprocess.Process) -> bool:
        command = server.command
        clock = asyncio.get_running_loop()
        deadline = clock.time() + self._patience.ready
        async with client(key=command.key, certificate=command.certificate) as asking:
            while process.returncode is None and not self._stopping.is_set():
                lacks = await _lacks(asking, command, self._patience.answer)
                if lacks is None:
                    self._tell(command.name, Event.READY, command.url)
                    return True
                if clock.time() > deadline:
                    self._fail(server, f"not ready after {self._patience.ready:g} s: {lacks}")
                    return False
                await self._pause(process)
        if not self._stopping.is_set():
            why = f": {server.cause}" if server.cause else ""
            self._fail(server, f"exit code {process.returncode} before it was ready{why}")
        return False

    def _fail(self, server: _Server, why: str) -> None:
        tail = "\n".join(server.tail)
        self._tell(server.command.name, Event.FAILED, f"{why}; the end of {server.command.log}:\n{tail}")

    async def _pause(self, process: asyncio.subprocess.Process) -> None:
        """Wait a moment, or less if the process ends."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), self._patience.poll)

    async def _ended(self, server: _Server) -> None:
        """Wait until the server ends, or is to be stopped."""
        if server.process is None:
            return
        waiting = (
            self._group.create_task(server.process.wait()),
            self._group.create_task(self._stopping.wait()),
        )
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()

    async def _stop(self, server: _Server) -> None:
        """End a server and whatever it started."""
        process = server.process
        if process is None:
            return
        alive = process.returncode is None
        if alive:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._patience.stop)
        _kill(server)
        await process.wait()
        if alive and self._stopping.is_set():
            self._tell(server.command.name, Event.STOPPED, f"exit code {process.returncode}")

    async def _tee(self, server: _Server, pipe: BinaryIO) -> None:
        """Copy what a server writes into its log, and hand it on line by line."""
        output = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(output)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        with contextlib.closing(transport), contextlib.closing(Log(server.command, self._tell)) as log:
            rest = b""
            while piece := await output.read(65536):
                log.write(piece)
                *lines, rest = (rest + piece).split(b"\n")
                for written in lines:
                    text = written.decode(errors="replace").rstrip()
                    server.tail.append(text)
                    server.cause = cause(text) or server.cause
                    self._line(server.command.name, text)


def _kill(server: _Server) -> None:
    """End what is left of a server's session: workers that outlived it, or itself if it does not listen."""
    if server.process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)


async def _lacks(asking: httpx.AsyncClient, command: Command, within: float) -> str | None:
    """What a server lacks to be ready, in words; None once it is healthy and lists its model.

    Raises:
        _NeverReadyError: It is there, and nobody with this key and these certificates will be served.
    """
    try:
        # One limit on the whole: httpx's own starts anew with every byte.
        with anyio.fail_after(within):
            health = await asking.get(f"{command.url}/health")
            if health.status_code != httpx.codes.OK:
                return f"it answers /health with {health.status_code}"
            listing = await asking.get(f"{command.url}/v1/models")
        if listing.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            wrong = (
                "does not take the key it was shown" if command.key else "asks for a key, and has none here"
            )
            raise _NeverReadyError(f"it {wrong}; set api_key_env to the variable that holds it")
        models = [str(model["id"]) for model in listing.json()["data"]]
    except httpx.HTTPError as error:
        if why := disbelief(error):
            raise _NeverReadyError(f"its certificate is not believed: {why}") from None
        return f"{command.url} does not answer"
    except TimeoutError:
        return f"{command.url} does not answer"
    except (ValueError, KeyError, TypeError):
        return "it lists no models"
    if command.served_model in models:
        return None
    return f"it lists the models {', '.join(models)} and not {command.served_model}"
