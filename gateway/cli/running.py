"""Running a gateway as a process: load the files, listen, serve until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from gateway.app import Gateway
from gateway.policy.load import Invalid
from gateway.runtime import tasks
from gateway.runtime.reload import load_files
from gateway.wire.protocol import LimitedProtocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gateway.settings import Settings


_log = logging.getLogger(__name__)

_COLLECT_AFTER = (10_000, 20, 20)
"""Objects that are made before Python looks for cycles among them, and collections before it looks further.

By default it would look many times a request, for cycles that hardly any request leaves.
"""


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
    with _listening(settings) as listener:
        server = _Server(_config(gateway, settings))
        task = tasks.spawn(server.serve(sockets=[listener]), name="gateway")
        try:
            yield _address(settings, listener)
        finally:
            server.should_exit = True
            await task


async def _serve(gateway: Gateway, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; a second SIGINT does not wait for open answers."""
    # What is there before the first request stays: going through it would hold up answers for tens of ms.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    with _listening(settings) as listener:
        server = _Server(_config(gateway, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.handle_exit, number, None)
        _log.info("serving on %s", _address(settings, listener))
        await server.serve(sockets=[listener])


def _listening(settings: Settings) -> socket.socket:
    return socket.create_server((settings.host, settings.port), backlog=2048)


def _address(settings: Settings, listener: socket.socket) -> str:
    return f"http://{settings.host}:{listener.getsockname()[1]}"


def run(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code: 0 good, 2 if files or port are bad."""
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("httpx", "watchfiles.main"):  # a line for every scrape, and for every file beside ours
        logging.getLogger(noisy).setLevel(logging.WARNING)
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    for problem in (*(loaded.problems if isinstance(loaded, Invalid) else ()), *loaded.warnings):
        print(problem, file=sys.stderr)
    if isinstance(loaded, Invalid):
        return 2
    try:
        gateway = Gateway(settings, loaded)
    except OSError as error:
        print(f"specroute: cannot write {settings.decision_log}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        uvloop.run(_serve(gateway, settings))
    except OSError as error:
        print(
            f"specroute: cannot listen on {settings.host}:{settings.port}: {error.strerror}", file=sys.stderr
        )
        return 2
    return 0


def _config(gateway: Gateway, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        gateway,
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
