"""Pages of servers by the client that requests go by: httpx's types without its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx

from gateway.wire.upstream import UpstreamError, UpstreamRequest

if TYPE_CHECKING:
    from gateway.wire.upstream import Upstream

_CONNECT_SECONDS: Final = 10.0
"""Who asks for a page sets a limit to the whole; this one is for who does not."""


class Pages(httpx.AsyncBaseTransport):
    """A transport over a pool of connections: a page costs a tenth of what it costs by httpx's own."""

    def __init__(self, upstream: Upstream) -> None:
        """Take over a pool; :meth:`aclose` closes it."""
        self._upstream = upstream

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Get a page, body included.

        Raises:
            httpx.ConnectError: The server cannot be reached.
            httpx.ReadError: It breaks off.
        """
        headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() != b"host"]
        outgoing = UpstreamRequest(request.method, str(request.url), headers, body=b"")
        try:
            response = await self._upstream.send(outgoing, _CONNECT_SECONDS)
            try:
                body = b"".join([part async for part in response.body()])
            finally:
                await response.close()
        except UpstreamError as error:
            kind = httpx.ConnectError if error.phase == "connect" else httpx.ReadError
            raise kind(str(error)) from error
        return httpx.Response(response.status, headers=response.headers, content=body)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._upstream.close()
