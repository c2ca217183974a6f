"""Answers whose body is pulled from a library: what such have in common, however they are asked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.wire.headers import Headers
    from gateway.wire.upstream import Shortcut, Sink


class PulledResponse:
    """All of :class:`~gateway.wire.upstream.UpstreamResponse` but its end."""

    def __init__(self, status: int, headers: Headers, body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._body = body
        self._flowing = asyncio.Event()
        self._flowing.set()

    def body(self) -> AsyncIterator[bytes]:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        return self._body

    async def pipe(self, sink: Sink, shortcut: Shortcut | None = None) -> None:  # noqa: ARG002 - no framing is seen
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        async for chunk in self._body:
            sink(chunk)
            await self._flowing.wait()

    def pause(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        self._flowing.clear()

    def resume(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        self._flowing.set()
