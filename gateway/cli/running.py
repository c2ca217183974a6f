"""Running a gateway as a process: load the files, listen, serve until told to stop."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

import uvicorn

from gateway.app import Gateway
from gateway.policy.load import Invalid
from gateway.runtime.reload import load_files

if TYPE_CHECKING:
    from gateway.settings import Settings


def server(gateway: Gateway, settings: Settings) -> uvicorn.Server:
    """An HTTP server for a gateway, not yet started."""
    return uvicorn.Server(
        uvicorn.Config(
            gateway,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http="httptools",
            lifespan="on",
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=30,
        )
    )


def run(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code: 0 good, 2 if the files are bad."""
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for every scrape
    loaded = load_files(settings.fleet, settings.policy, os.environ)
    for problem in (*(loaded.problems if isinstance(loaded, Invalid) else ()), *loaded.warnings):
        print(problem, file=sys.stderr)
    if isinstance(loaded, Invalid):
        return 2
    server(Gateway(settings, loaded), settings).run()
    return 0
