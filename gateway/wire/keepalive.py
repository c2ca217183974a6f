"""Comments that keep a silent stream alive through proxies that cut idle connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.runtime import tasks

if TYPE_CHECKING:
    from gateway.wire.client import Client
    from gateway.wire.headers import Headers

COMMENT: Final = b": keep-alive\n\n"


class KeepAlive:
    """Sends a comment whenever nothing went to the client for an interval, also before the first byte.

    The first comment commits the status line, so an error that comes later is told as an event.
    """

    __slots__ = ("_client", "_headers", "_interval", "_loop", "_timer")

    def __init__(self, client: Client, interval: float, headers: Headers) -> None:
        """Begin to watch.

        Args:
            client: Whom to write to.
            interval: Seconds of silence before a comment.
            headers: Headers of the stream, if a comment is the first that is sent.
        """
        self._client = client
        self._interval = interval
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(interval, self._look)

    def close(self) -> None:
        """Send no more."""
        self._timer.cancel()

    def _look(self) -> None:
        silent = self._loop.time() - self._client.last_sent
        if silent < self._interval:
            self._timer = self._loop.call_later(self._interval - silent, self._look)
            return
        self._timer = self._loop.call_later(self._interval, self._look)
        tasks.spawn(self._comment(), name="keep-alive")

    async def _comment(self) -> None:
        client = self._client
        if client.finished or client.gone or client.writing or not client.between_events:
            return  # a client that does not keep up has enough to read
        if not client.started:
            await client.start(200, self._headers)
        await client.write(COMMENT)
