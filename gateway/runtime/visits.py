"""Control calls to the servers on a timer: one loop a backend, so that a slow one delays nobody else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import httpx

from gateway.runtime import tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.core.fleet import Backend
    from gateway.runtime.fleet import Fleet

_log = logging.getLogger(__name__)


async def get(
    pages: httpx.AsyncBaseTransport, url: str, within: float, api_key: str | None = None
) -> httpx.Response:
    """Get a page of a server.

    Args:
        pages: For control calls; never the data path.
        url: Of the page.
        within: Seconds that this may take.
        api_key: Sent along, if there is one.

    Raises:
        httpx.HTTPError: The server cannot be reached or breaks off.
        TimeoutError: The page is not there in time.
    """
    headers = [(b"authorization", b"Bearer " + api_key.encode())] if api_key else []
    async with asyncio.timeout(within):
        response = await pages.handle_async_request(httpx.Request("GET", url, headers=headers))
        await response.aread()
        return response


class Visits:
    """Does one thing with every backend of a fleet, again and again."""

    def __init__(
        self, fleet: Fleet, visit: Callable[[Backend], Awaitable[None]], *, interval: float, name: str
    ) -> None:
        """Get ready; :meth:`sync` starts.

        Args:
            fleet: Whose backends.
            visit: What to do with each; where it raises, that is logged and it is tried again.
            interval: Seconds from the end of a visit to the next one.
            name: What it is called in the names of tasks.
        """
        self._fleet = fleet
        self._visit = visit
        self._interval = interval
        self._name = name
        self._loops: dict[Backend, asyncio.Task[None]] = {}

    def sync(self) -> None:
        """Run exactly one loop for each backend of the fleet."""
        wanted = {state.backend for state in self._fleet.snapshot.states}
        for backend in self._loops.keys() - wanted:
            self._loops.pop(backend).cancel()
        for backend in wanted - self._loops.keys():
            self._loops[backend] = tasks.spawn(self._loop(backend), name=f"{self._name} {backend.name}")

    async def close(self) -> None:
        """Stop all loops."""
        loops = list(self._loops.values())
        self._loops.clear()
        await asyncio.gather(*map(tasks.cancel, loops))

    async def _loop(self, backend: Backend) -> None:
        while True:
            try:
                await self._visit(backend)
            except Exception:  # noqa: BLE001 - a loop that ends leaves the backend as it is for good
                _log.exception("%s %s: the visit failed", self._name, backend.name)
            await asyncio.sleep(self._interval)
