"""Several gateway processes on one port: start them, start those that die again, stop them in good order."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.runtime import clock
from gateway.runtime.shared import Memory, Shared
from gateway.telemetry.logging import logging_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.settings import Settings

AGAIN_SECONDS: Final = 1.0
"""How soon after its start a worker that dies is not started again at once."""

HURRY: Final = signal.SIGUSR1
"""Has a worker that is stopping wait for open answers no longer."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Worker:
    """What one process of several is given.

    Attributes:
        number: Its number, from 0.
        port: That all of them listen on.
        listener: A socket of the loopback by which the others reach it.
        siblings: Addresses of these sockets of all workers, its own among them.
        shared: What it has in common with the others.
        lifeline: A descriptor that can be read from, and is at its end, once the supervisor is gone.
    """

    number: int
    port: int
    listener: socket.socket
    siblings: Sequence[str]
    shared: Shared
    lifeline: int
    _ready: int

    def ready(self) -> None:
        """Say that the port is open; of one that was started again nobody waits for it."""
        with suppress(BrokenPipeError):
            os.write(self._ready, b"!")
        os.close(self._ready)


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Open a port, which may be shared with other processes of the same kind."""
    return socket.create_server((host, port), backlog=2048, reuse_port=shared)


class Supervisor:
    """Keeps workers running. It does nothing else, so that nothing but its memory costs anything."""

    def __init__(self, settings: Settings, work: Callable[[Worker], int]) -> None:
        """Prepare to run.

        Args:
            settings: How many and where.
            work: Serves in a process of its own and returns its exit code.
        """
        self._settings = settings
        self._work = work
        self._stack = ExitStack()
        self._port = settings.port
        self._memory: Memory
        self._listeners: list[socket.socket] = []
        self._lifeline = (-1, -1)
        self._running: dict[int, tuple[int, float]] = {}
        self._stopping = False

    def run(self) -> int:
        """Run until SIGINT or SIGTERM. Returns the exit code: 0, or that of a worker that cannot start.

        Raises:
            OSError: The port is taken.
        """
        try:
            self._memory = Memory(self._settings.workers)
        except OSError as error:  # where memory may not be promised that is not there
            _log.error("no memory for %d workers to share: %s", self._settings.workers, error.strerror)
            return 1
        with self._stack:
            self._reserve()
            for number in _SIGNALS:
                signal.signal(number, self._pass_on)
            ready = [self._start(number) for number in range(self._settings.workers)]
            if not all(_is_ready(descriptor) for descriptor in ready) and not self._stopping:
                _log.error("a worker ended before it was ready")
                self._pass_on(signal.SIGTERM)
                return max(self._wait_for_all()) or 1
            if not self._stopping:
                address = f"http://{self._settings.host}:{self._port}"
                _log.info("serving on %s with %d workers", address, self._settings.workers)
            self._watch()
            return 0

    def _reserve(self) -> None:
        """Find out that the port is free, and keep it without taking connections."""
        host, port = self._settings.host, self._settings.port
        listen(host, port).close()
        keeper = self._stack.enter_context(socket.socket())
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        keeper.bind((host, port))
        self._port = keeper.getsockname()[1]
        for _ in range(self._settings.workers):
            self._listeners.append(self._stack.enter_context(listen("127.0.0.1", 0)))
        self._lifeline = os.pipe()
        for descriptor in self._lifeline:
            self._stack.callback(os.close, descriptor)

    def _start(self, number: int) -> int:
        """Start a worker. Returns a descriptor that tells when it is ready."""
        told, tells = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            os.close(told)
            os.close(self._lifeline[1])
            # A terminal gives it to all processes, not to the supervisor alone.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._become(number, tells)
        self._running[pid] = (number, clock.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(tells)
        return told

    def _become(self, number: int, tells: int) -> None:
        siblings = [f"http://127.0.0.1:{listener.getsockname()[1]}" for listener in self._listeners]
        listener = self._listeners[number]
        shared = self._memory.of(number)
        worker = Worker(number, self._port, listener, siblings, shared, self._lifeline[0], tells)
        code = 1
        try:
            with logging_to_stderr(self._settings.log_level, self._settings.log_format):
                try:
                    code = self._work(worker)
                except Exception:  # noqa: BLE001 - whatever it is, the supervisor starts another
                    _log.exception("worker %d failed", number)
        finally:  # nothing may go on with what is the supervisor's
            os._exit(code)

    def _watch(self) -> None:
        """Start again whatever ends before its time."""
        while self._running:
            pid, status = os.wait()
            number, since = self._running.pop(pid)
            self._memory.clear(number)
            if self._stopping:
                continue
            _log.error("worker %d ended with %d", number, os.waitstatus_to_exitcode(status))
            if clock.monotonic() - since < AGAIN_SECONDS:
                time.sleep(AGAIN_SECONDS)
            if not self._stopping:
                os.close(self._start(number))

    def _wait_for_all(self) -> list[int]:
        codes = []
        while self._running:
            pid, status = os.wait()
            del self._running[pid]
            codes.append(os.waitstatus_to_exitcode(status))
        return codes

    def _pass_on(self, number: int, _: object = None) -> None:
        """Stop the workers; at a second SIGINT they do not wait for open answers."""
        told = HURRY if self._stopping and number == signal.SIGINT else signal.SIGTERM
        self._stopping = True
        for pid in self._running:
            with suppress(ProcessLookupError):  # it has ended just now
                os.kill(pid, told)


def _is_ready(descriptor: int) -> bool:
    with os.fdopen(descriptor, "rb") as told:
        return told.read(1) == b"!"
