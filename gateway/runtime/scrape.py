"""Reads load and speculation counters off each backend's ``/metrics``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import httpx

from gateway.core.counters import parse_counters
from gateway.core.fleet import Load
from gateway.runtime import clock
from gateway.runtime.visits import get

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.counters import Counters
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
    """Reads the load of backends. A page that cannot be had leaves the last one to grow old."""

    def __init__(
        self,
        fleet: Fleet,
        pages: httpx.AsyncBaseTransport,
        *,
        timeout: float,
        counted: Callable[[str, Counters], None] = lambda _name, _counters: None,
    ) -> None:
        """Scrape a fleet.

        Args:
            fleet: Told what was found.
            pages: For control calls; never the data path.
            timeout: Seconds that a scrape may take.
            counted: Called with a backend's name and what its server has counted.
        """
        self._fleet = fleet
        self._counted = counted
        self._pages = pages
        self._timeout = timeout

    async def once(self, backend: Backend) -> None:
        """Scrape one backend and tell the fleet."""
        self._fleet.sync()
        in_flight = self._fleet.in_flight(backend.name)
        sent = clock.monotonic()
        try:
            page = await get(self._pages, f"{backend.url}/metrics", self._timeout, backend.api_key)
        except (httpx.HTTPError, TimeoutError):
            return
        if page.status_code == httpx.codes.OK:
            now = clock.monotonic()
            load = parse_load(page.content, now)
            if load is not None:
                self._fleet.loaded(backend.name, load, in_flight)
            # A busy server takes its time, and counts on while it does.
            counters = parse_counters(page.content, (sent + now) / 2)
            # What a page leaves out is not zero, nor a sign of a restart: what was counted last grows old.
            if counters.whole:
                self._counted(backend.name, counters)
