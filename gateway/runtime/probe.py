"""Asks each backend whether it is well and serves its model: what takes a server out and lets it back in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import httpx
import msgspec

from gateway.runtime.foreign import UNREADABLE
from gateway.runtime.visits import get

if TYPE_CHECKING:
    from gateway.core.fleet import Backend
    from gateway.runtime.fleet import Fleet

SILENCES: Final = 2
"""Probes in a row without an answer in time that take a server out: a busy one may miss a single one."""

_NAMED_AT_MOST: Final = 3
"""Models named in a reason."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


_MODELS: Final = msgspec.json.Decoder(_Models)


class Prober:
    """Probes ``/health``, then ``/v1/models``."""

    def __init__(self, fleet: Fleet, pages: httpx.AsyncBaseTransport, *, timeout: float) -> None:
        """Probe a fleet.

        Args:
            fleet: Told what was found.
            pages: For control calls; never the data path.
            timeout: Seconds that each of the two calls may take.
        """
        self._fleet = fleet
        self._pages = pages
        self._timeout = timeout
        self._silences: Counter[str] = Counter()

    async def once(self, backend: Backend) -> None:
        """Probe one backend and tell the fleet."""
        name = backend.name
        try:
            trouble = await self._trouble(backend)
        except TimeoutError:
            self._silences[name] += 1
            if self._silences[name] >= SILENCES:
                self._fleet.down(name, f"no answer to {SILENCES} probes within {self._timeout:g} s")
            return
        del self._silences[name]
        if trouble:
            self._fleet.down(name, trouble)
        else:
            self._fleet.up(name)

    async def _trouble(self, backend: Backend) -> str:
        """Why the backend cannot be used, in words; empty if it can."""
        for path in ("/health", "/v1/models"):
            try:
                page = await get(self._pages, backend.url + path, self._timeout, backend.api_key)
            except httpx.HTTPError as error:
                return f"{path}: {type(error).__name__}"
            if page.status_code != httpx.codes.OK:
                return f"{path} answered {page.status_code}"
        try:
            models = [model.id for model in _MODELS.decode(page.content).data]
        except UNREADABLE:
            return "/v1/models is no list of models"
        if backend.served_model in models:
            return ""
        return f"it serves {', '.join(models[:_NAMED_AT_MOST]) or 'nothing'}, not {backend.served_model}"
