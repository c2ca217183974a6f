"""The pool of lean connections: take one or connect, send, wait for the head of the answer."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gateway.runtime import tasks
from gateway.wire.lean import request as wire
from gateway.wire.lean.connection import Connection
from gateway.wire.lean.response import LeanResponse, UnansweredError
from gateway.wire.upstream import CLOSE_SECONDS, KEEPALIVE_SECONDS, UpstreamError

if TYPE_CHECKING:
    from gateway.wire.upstream import UpstreamRequest

RACE_SECONDS: Final = 0.05
"""How soon after a request a pooled connection must break for its end to have crossed the request.

A server that closed before the request came says so within one round trip: a millisecond within a site, tens
of them across a continent. A longer silence may be one in which it worked on the request.
"""


class LeanUpstream:
    """Connections through asyncio's transports and httptools' parser, with no task or timer for a request."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, keepalive: float = KEEPALIVE_SECONDS) -> None:
        """Make an empty pool.

        Args:
            tls: For ``https`` backends; the system's authorities if None.
            keepalive: Seconds for which an idle connection is kept.
        """
        self._given_tls = tls
        self._keepalive = keepalive
        self._idle: dict[str, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._emptied = asyncio.Event()

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> LeanResponse:
        """See :class:`~gateway.wire.upstream.Upstream`."""
        base, target = wire.split(request.url)
        origin = wire.origin(base)
        head = wire.head(request, target, origin.authority)
        loop = self._loop
        started = loop.time()
        if (pooled := self._take(base, started)) is not None:
            try:
                return await _ask(pooled, loop, request, head)
            except UnansweredError:
                # The backend closed the idle connection just as we took it, in all likelihood.
                if self._closed or not request.repeatable or loop.time() - started > RACE_SECONDS:
                    raise
        return await _ask(await self._connect(base, origin, connect_timeout), loop, request, head)

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.Upstream`."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._idle.clear()
        for connection in tuple(self._open):
            connection.abort()
        if self._open:
            await tasks.bounded(
                self._emptied.wait(), within=CLOSE_SECONDS, name="close connections to backends"
            )

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The one that all connections belong to: to ask for it takes a call of the system each time."""
        return asyncio.get_running_loop()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    def _take(self, base: str, now: float) -> Connection | None:
        idle = self._idle.get(base)
        while idle:
            connection = idle.pop()  # the freshest: the others may come to rest
            if connection.usable and now - connection.idle_since < self._keepalive:
                return connection
            connection.close()
        return None

    async def _connect(self, base: str, origin: wire.Origin, limit: float) -> Connection:
        connection = Connection(base, self)
        try:
            async with asyncio.timeout(limit):
                await _stand(connection, origin, self._tls if origin.tls else None)
        except TimeoutError as error:
            raise UpstreamError("connect", "timeout:connect", f"not within {limit} s") from error
        except OSError as error:
            raise UpstreamError("connect", "connect", str(error)) from error
        if self._closed:
            connection.abort()
            raise UpstreamError("connect", "connect", "the pool is closed")
        if not connection.usable:
            connection.abort()
            raise UpstreamError("connect", "reset", "the backend closed the connection at once")
        # Only now: uvloop does not tell of the end of a connection that stood while connecting was cancelled.
        self._open.add(connection)
        return connection

    # What connections tell.

    def released(self, connection: Connection) -> None:
        """See :class:`~gateway.wire.lean.connection.Owner`."""
        loop = self._loop
        connection.idle_since = loop.time()
        idle = self._idle.get(connection.base)
        if idle is None:
            idle = self._idle[connection.base] = deque()
        idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._keepalive, self._sweep)

    def lost(self, connection: Connection) -> None:
        """See :class:`~gateway.wire.lean.connection.Owner`."""
        self._open.discard(connection)
        if self._closed and not self._open:
            self._emptied.set()

    def _sweep(self) -> None:
        """Close what has been idle for too long, and come again when the next will have been."""
        loop = self._loop
        limit = loop.time() - self._keepalive
        for base, idle in tuple(self._idle.items()):
            while idle and idle[0].idle_since <= limit:
                idle.popleft().close()
            if not idle:
                del self._idle[base]
        oldest = min((idle[0].idle_since for idle in self._idle.values()), default=None)
        self._sweeping = None if oldest is None else loop.call_at(oldest + self._keepalive, self._sweep)


async def _stand(connection: Connection, origin: wire.Origin, tls: ssl.SSLContext | None) -> None:
    """Make a connection stand, or leave nothing of it."""
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(lambda: connection, origin.host, origin.port, ssl=tls)
    except BaseException:
        if connection.usable:  # the loop would first wait for the backend's end of TLS
            connection.abort()
        raise


async def _ask(
    connection: Connection, loop: asyncio.AbstractEventLoop, request: UpstreamRequest, head: bytes
) -> LeanResponse:
    """Send a request over a connection and wait for status and headers."""
    response = LeanResponse(connection, loop, bare=request.method == "HEAD")
    try:
        connection.start(response, head, request.body)
        request.sent.done = True
        await response.head()
    except BaseException:
        connection.abort()
        raise
    return response
