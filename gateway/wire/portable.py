"""Upstream over httpx and aiohttp: general-purpose clients, where the lean one does not do."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from yarl import URL

from gateway.runtime import tasks
from gateway.wire.lean.request import split
from gateway.wire.lean.response import HEAD_LIMIT
from gateway.wire.pulled import PulledResponse
from gateway.wire.upstream import CLOSE_SECONDS, KEEPALIVE_SECONDS, UpstreamError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    from gateway.wire.upstream import UpstreamRequest


_SENDING: Final[ContextVar[UpstreamRequest]] = ContextVar("sending")
"""The request that a task sends: the transport has no place for all of it."""

_HEADERS: Final = 1_000
"""Most headers of an answer, trailers included."""


class HttpxUpstream:
    """Connections through httpx's transport interface, over aiohttp."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, keepalive: float = KEEPALIVE_SECONDS) -> None:
        """Make an empty pool.

        Args:
            tls: For ``https`` backends; the system's authorities if None.
            keepalive: Seconds for which an idle connection is kept.
        """
        self._transport = AiohttpTransport(client=lambda: _session(tls, keepalive))

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> HttpxResponse:
        """See :class:`~gateway.wire.upstream.Upstream`."""
        outgoing = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            extensions={"timeout": {"connect": connect_timeout}},
        )
        _SENDING.set(request)
        try:
            response = await self._transport.handle_async_request(outgoing)
        except (httpx.TransportError, aiohttp.ClientError) as error:
            raise _classify(error) from error
        answer = HttpxResponse(response)
        if fault := _fault(answer):
            await answer.close()
            raise UpstreamError("sent", "protocol", fault)
        return answer

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.Upstream`."""
        # The client waits until a backend has taken all that was written to it, which may be never.
        await tasks.bounded(
            self._transport.aclose(), within=CLOSE_SECONDS, name="close connections to backends"
        )


class HttpxResponse(PulledResponse):
    """See :class:`~gateway.wire.upstream.UpstreamResponse`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        super().__init__(response.status_code, headers, self._read())

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        await self._response.aclose()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.stream:  # type: ignore[union-attr] # the transport's stream is async
                yield chunk
        except (httpx.TransportError, aiohttp.ClientError, RuntimeError) as error:
            # A pool closed while an answer is read makes aiohttp raise a RuntimeError.
            raise UpstreamError("headers", "reset", str(error)) from error


def _fault(answer: HttpxResponse) -> str:
    """What is wrong with an answer that aiohttp hands on."""
    if answer.status < 200:
        return f"status {answer.status} ends no request"
    for name, value in answer.headers:
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            return f"transfer encoding {value!r} was not asked for"
    return ""


async def _tell(*_: object) -> None:
    _SENDING.get().sent.done = True


async def _as_it_is(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Ask for the very target, in which dots were resolved and escapes written otherwise on its way here.

    Raises:
        ServerDisconnectedError: It broke, and aiohttp would ask once more for what may not be repeated.
    """
    sending = _SENDING.get()
    if sending.sent.done and not sending.repeatable:
        raise aiohttp.ServerDisconnectedError
    request.url = URL("".join(split(sending.url)), encoded=True)
    return await send(request)


def _session(tls: ssl.SSLContext | None, keepalive: float) -> aiohttp.ClientSession:
    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(_tell)
    return aiohttp.ClientSession(
        trace_configs=[trace],
        middlewares=(_as_it_is,),
        max_line_size=HEAD_LIMIT,
        max_field_size=HEAD_LIMIT,
        max_headers=_HEADERS,
        connector=aiohttp.TCPConnector(limit=0, ssl=tls or True, keepalive_timeout=keepalive),
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
