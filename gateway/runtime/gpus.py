"""Reads the GPUs of each backend off its exporter; owner of what they did last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from gateway.core.gpus import GpuLoad, parse_gpus
from gateway.runtime import clock
from gateway.runtime.visits import get

if TYPE_CHECKING:
    from gateway.core.fleet import Backend


class GpuWatch:
    """What the GPUs of backends did when they were last looked at.

    Attributes:
        loads: By the name of the backend; one whose exporter does not answer keeps its last, which grows old.
    """

    def __init__(self) -> None:
        self.loads: dict[str, GpuLoad] = {}

    async def look(self, backend: Backend, pages: httpx.AsyncBaseTransport, within: float) -> None:
        """Look at the GPUs of a backend, if it says where to.

        Args:
            backend: Whose GPUs.
            pages: For control calls; never the data path.
            within: Seconds that this may take.
        """
        source = backend.gpus
        if source is None:
            return
        try:
            page = await get(pages, f"{source.exporter}/metrics", within)
        except (httpx.HTTPError, TimeoutError):
            return
        if page.status_code == httpx.codes.OK:
            self.loads[backend.name] = parse_gpus(page.content, source.ids, clock.monotonic())
