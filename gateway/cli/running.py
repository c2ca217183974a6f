"""Running a gateway as a process: load the files, listen, serve until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import uvicorn
import uvloop

from gateway.app import Gateway
from gateway.cli.environment import mistyped
from gateway.cli.otel import with_standard
from gateway.cli.workers import HURRY, Supervisor, Worker, listen
from gateway.policy.load import Invalid
from gateway.runtime import tasks
from gateway.runtime.reload import load_files
from gateway.telemetry.logging import logging_to_stderr
from gateway.wire.protocol import LimitedProtocol
from gateway.wire.siblings import Siblings

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from gateway.policy.load import Config, Loaded
    from gateway.settings import Settings


_log = logging.getLogger(__name__)

_COLLECT_AFTER = (3_000, 66, 20)
"""Objects that are made before Python looks for cycles among them, and collections before it looks further.

By default it would look many times a request, for cycles that hardly any request leaves. A look at so many
takes a millisecond; at fewer, requests that run at the same time would be looked at again and again.
"""

_SWITCH_SECONDS = 0.00005
"""How long a thread, as one that reads files, may keep the loop waiting at a time."""


class _Server(uvicorn.Server):
    """Uvicorn that leaves the signals to whoever owns the loop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(gateway: Gateway, settings: Settings) -> AsyncIterator[str]:
    """Serve a gateway in the running loop. Gives its address; the port is open when it does.

    Raises:
        OSError: The port is taken.
    """
    with listen(settings.host, settings.port) as listener:
        server = _Server(_config(gateway, settings))
        task = tasks.spawn(server.serve(sockets=[listener]), name="gateway")
        try:
            yield _address(settings, listener)
        finally:
            server.should_exit = True
            await task


async def _serve(gateway: Gateway, settings: Settings, worker: Worker | None) -> None:
    """Serve until SIGINT or SIGTERM; a second SIGINT does not wait for open answers."""
    # What is there before the first request stays: going through it would hold up answers for tens of ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with listen(settings.host, settings.port, shared=worker is not None) as listener:
        siblings = (
            None
            if worker is None
            else Siblings(gateway, worker.siblings, worker.number, body_limit=settings.body_limit)
        )
        server = _Server(_config(siblings or gateway, settings))
        loop = asyncio.get_running_loop()
        hurry = signal.SIGINT if worker is None else HURRY
        for number, means in ((signal.SIGTERM, signal.SIGTERM), (hurry, signal.SIGINT)):
            loop.add_signal_handler(number, server.handle_exit, means, None)
        if worker is None or siblings is None:
            _log.info("serving on %s", _address(settings, listener))
            await server.serve(sockets=[listener])
            return
        loop.add_reader(worker.lifeline, _orphaned, loop, worker, server)
        worker.ready()
        try:
            await server.serve(sockets=[listener, worker.listener])
        finally:
            await siblings.close()


def _orphaned(loop: asyncio.AbstractEventLoop, worker: Worker, server: _Server) -> None:
    """The supervisor is gone, so nobody would stop this worker."""
    loop.remove_reader(worker.lifeline)
    server.handle_exit(signal.SIGTERM, None)


def _address(settings: Settings, listener: socket.socket) -> str:
    return f"http://{settings.host}:{listener.getsockname()[1]}"


def run(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code: 0 good, 2 if files or port are bad."""
    with logging_to_stderr(settings.log_level, settings.log_format):
        return _run(settings)


def _run(settings: Settings) -> int:
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    if isinstance(loaded, Invalid):
        for problem in (*loaded.problems, *loaded.warnings):
            print(problem, file=sys.stderr)
        return 2
    for warning in loaded.warnings:
        _log.warning("%s", warning)
    settings, unheeded = with_standard(settings, os.environ)
    for words in (
        *unheeded,
        *mistyped(os.environ, settings.fleet.read_text(encoding="utf-8", errors="replace")),
    ):
        _log.warning("%s", words)
    try:
        if settings.workers == 1:
            return _work(settings, loaded, None)
        return Supervisor(settings, partial(_work, settings, loaded)).run()
    except OSError as error:
        print(
            f"specroute: cannot listen on {settings.host}:{settings.port}: {error.strerror}", file=sys.stderr
        )
        return 2


def _work(settings: Settings, loaded: Loaded[Config], worker: Worker | None) -> int:
    """Serve as the one process or as one of several. Returns the exit code.

    Raises:
        OSError: The port is taken.
    """
    if worker is not None:
        settings = _own(settings, worker)
    try:
        gateway = Gateway(settings, loaded, shared=None if worker is None else worker.shared)
    except OSError as error:
        print(f"specroute: cannot write {settings.decision_log}: {error.strerror}", file=sys.stderr)
        return 2
    uvloop.run(_serve(gateway, settings, worker))
    return 0


def _own(settings: Settings, worker: Worker) -> Settings:
    """Settings of one of several processes: a file of its own, and a name of its own for collectors."""
    attributes = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    identity = f"service.instance.id={uuid4()}"
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = f"{attributes},{identity}" if attributes else identity
    log = settings.decision_log
    return settings.model_copy(
        update={
            "port": worker.port,
            "decision_log": log and log.with_name(f"{log.stem}-{worker.number}{log.suffix}"),
        }
    )


def _config(app: Gateway | Siblings, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client's address is not used
        log_config=None,
        timeout_graceful_shutdown=settings.drain_seconds,
    )
