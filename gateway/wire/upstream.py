"""The one seam to backends: send a request, get status and headers, then body bytes as they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.wire.headers import Headers

KEEPALIVE_SECONDS = 4.0
"""Below uvicorn's 5 s, so that a pooled connection is not taken just as the server closes it."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request as it goes to a backend; ``url`` is complete, ``body`` is sent as it is."""

    method: str
    url: str
    headers: Headers
    body: bytes


class UpstreamError(Exception):
    """A backend could not be reached or broke the connection.

    Attributes:
        phase: Last phase reached, one of :data:`gateway.core.outcome.PHASES`.
        error: ``connect``, ``timeout:connect``, ``reset`` or ``protocol``.
    """

    def __init__(self, phase: str, error: str, detail: str) -> None:
        super().__init__(f"{error} in phase {phase}: {detail}")
        self.phase = phase
        self.error = error


class UpstreamResponse(Protocol):
    """An answer whose status and headers have arrived."""

    status: int
    headers: Headers
    """Names in lower case."""

    def body(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive, still encoded as the headers say; raises :class:`UpstreamError`."""
        ...

    async def close(self) -> None:
        """Give the connection back, or close it if the body was not read to its end."""
        ...


class Upstream(Protocol):
    """A pool of connections to all backends."""

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> UpstreamResponse:
        """Send a request and wait for status and headers.

        Args:
            request: What to send.
            connect_timeout: Seconds within which the connection must stand; other limits are the caller's.

        Raises:
            UpstreamError: With the phase that was reached.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class HttpxUpstream:
    """Connections through httpx's transport interface, over aiohttp."""

    def __init__(self) -> None:
        self._transport = AiohttpTransport(client=_session)

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> UpstreamResponse:
        """See :class:`Upstream`."""
        outgoing = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            extensions={"timeout": {"connect": connect_timeout}},
        )
        try:
            response = await self._transport.handle_async_request(outgoing)
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _classify(error) from error
        return HttpxResponse(response)

    async def close(self) -> None:
        """See :class:`Upstream`."""
        await self._transport.aclose()


class HttpxResponse:
    """See :class:`UpstreamResponse`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Headers = [(name.lower(), value) for name, value in response.headers.raw]

    async def body(self) -> AsyncIterator[bytes]:
        """See :class:`UpstreamResponse`."""
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr] # the transport's stream is async
                yield chunk
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise UpstreamError("headers", "reset", str(error)) from error

    async def close(self) -> None:
        """See :class:`UpstreamResponse`."""
        await self._response.aclose()


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


def _classify(error: httpx.TransportError | aiohttp.ClientError) -> UpstreamError:
    """Read phase and error class off aiohttp's exception: httpx's names a reset a connect timeout.

    The transport maps most of aiohttp's exceptions to httpx's and lets some through.
    """
    cause = error.__cause__ if isinstance(error, httpx.TransportError) else error
    detail = str(error) or type(cause).__name__
    if isinstance(cause, (aiohttp.ConnectionTimeoutError, aiohttp.ServerTimeoutError)):
        return UpstreamError("connect", "timeout:connect", detail)
    if isinstance(cause, aiohttp.ClientConnectorError):
        return UpstreamError("connect", "connect", detail)
    if isinstance(cause, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
        return UpstreamError("sent", "reset", detail)
    return UpstreamError("sent", "protocol", detail)
