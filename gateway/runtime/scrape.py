"""Reads load off each backend's ``/metrics`` on a timer; a server that answers is healthy."""

from __future__ import annotations

import asyncio
import math
import re
from typing import TYPE_CHECKING, Final

import httpx

from gateway.core.fleet import Load
from gateway.runtime import clock, tasks

if TYPE_CHECKING:
    from gateway.core.fleet import Backend
    from gateway.runtime.fleet import Fleet

_SAMPLE: Final = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc)"
    rb'(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?\s+([^\s]+)',
    re.MULTILINE,
)
"""The samples that are read; ``gpu_cache_usage_perc`` is the older name of ``kv_cache_usage_perc``."""


def parse_load(page: bytes, now: float) -> Load | None:
    """Load from a page in Prometheus' text format, summed over engines; None if it is not all there.

    Args:
        page: The page.
        now: Monotonic seconds at which it was read.
    """
    found: dict[bytes, list[float]] = {}
    for name, value in _SAMPLE.findall(page):
        found.setdefault(name, []).append(_number(value))
    running = sum(found.get(b"num_requests_running", [math.nan]))
    waiting = sum(found.get(b"num_requests_waiting", [math.nan]))
    if not math.isfinite(running + waiting):
        return None
    caches = found.get(b"kv_cache_usage_perc") or found.get(b"gpu_cache_usage_perc") or [math.nan]
    usage = sum(caches) / len(caches)
    return Load(round(running), round(waiting), usage if math.isfinite(usage) else None, now)


def _number(value: bytes) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


class Scraper:
    """One loop a backend, so that a slow one delays nobody else."""

    def __init__(self, fleet: Fleet, client: httpx.AsyncClient, *, interval: float, timeout: float) -> None:
        """Scrape a fleet.

        Args:
            fleet: Told what was found.
            client: For control calls; never the data path.
            interval: Seconds between two scrapes of a backend.
            timeout: Seconds after which a scrape has failed.
        """
        self._fleet = fleet
        self._client = client
        self._interval = interval
        self._timeout = timeout
        self._loops: dict[Backend, asyncio.Task[None]] = {}

    def sync(self) -> None:
        """Run exactly one loop for each backend of the fleet."""
        wanted = {state.backend for state in self._fleet.snapshot.states}
        for backend in self._loops.keys() - wanted:
            self._loops.pop(backend).cancel()
        for backend in wanted - self._loops.keys():
            self._loops[backend] = tasks.spawn(self._loop(backend), name=f"scrape {backend.name}")

    async def close(self) -> None:
        """Stop all loops."""
        loops = list(self._loops.values())
        self._loops.clear()
        for loop in loops:
            await tasks.cancel(loop)

    async def once(self, backend: Backend) -> None:
        """Scrape one backend and tell the fleet."""
        headers = [(b"authorization", b"Bearer " + backend.api_key.encode())] if backend.api_key else []
        in_flight = self._fleet.in_flight(backend.name)
        try:
            # One limit on the whole: httpx's own starts anew with every byte.
            async with asyncio.timeout(self._timeout):
                response = await self._client.get(f"{backend.url}/metrics", headers=headers, timeout=None)
        except (httpx.HTTPError, TimeoutError) as error:
            self._fleet.failed(backend.name, f"/metrics: {type(error).__name__}")
            return
        if response.status_code != httpx.codes.OK:
            self._fleet.failed(backend.name, f"/metrics answered {response.status_code}")
            return
        if (load := parse_load(response.content, clock.monotonic())) is not None:
            self._fleet.loaded(backend.name, load, in_flight)
        else:
            self._fleet.reachable(backend.name)

    async def _loop(self, backend: Backend) -> None:
        while True:
            await self.once(backend)
            await asyncio.sleep(self._interval)
