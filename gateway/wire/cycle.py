"""From the head of a request to what uvicorn calls a cycle: the request, and the answer to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from gateway.wire.heads import OLD
from gateway.wire.pipe import EXTENSION, Pipe

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent, HTTPScope

    from gateway.wire.protocol import LimitedProtocol


class OldCycle(RequestResponseCycle):
    """One whose client knows no chunks: without a length a body goes on until the connection ends."""

    _framed = True

    async def send(self, message: ASGISendEvent) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self._framed = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            self.chunked_encoding = None if self._framed else False
        elif message["type"] == "http.response.body" and not self._framed:
            self.expected_content_length = len(message.get("body", b""))  # or uvicorn would find it too long
        await super().send(message)


def begun(protocol: LimitedProtocol) -> RequestResponseCycle:
    """The cycle of the request whose head has just ended, with a pipe in the extensions of its scope."""
    parser, headers = protocol.parser, protocol.headers
    version = parser.get_http_version()
    raw_path, query = protocol.target
    path = raw_path.decode("ascii")
    extensions: dict[str, Any] = {}
    scope: HTTPScope = {
        "type": "http",
        "asgi": {"version": protocol.asgi_version, "spec_version": "2.3"},
        "http_version": version,
        "server": protocol.server,
        "client": protocol.client,
        "scheme": protocol.scheme or "http",
        "root_path": protocol.root_path,
        "headers": headers,
        "state": protocol.app_state.copy(),
        "method": parser.get_method().decode("ascii"),
        "path": protocol.root_path + (unquote(path) if "%" in path else path),
        "raw_path": protocol.root_path.encode("ascii") + raw_path,
        "query_string": query,
        "extensions": extensions,
    }
    protocol.scope = scope
    cycle = (OldCycle if version in OLD else RequestResponseCycle)(
        scope=scope,
        transport=protocol,  # type: ignore[arg-type] # it does what is asked of one here
        flow=protocol.flow,
        logger=protocol.logger,
        access_logger=protocol.access_logger,
        access_log=protocol.access_log,
        default_headers=protocol.server_state.default_headers,
        message_event=asyncio.Event(),
        expect_100_continue=version not in OLD and _asks_to_go_on(headers),
        keep_alive=version not in OLD and parser.should_keep_alive(),
        on_response=protocol.on_response_complete,
    )
    extensions[EXTENSION] = Pipe(protocol, cycle)
    return cycle


def _asks_to_go_on(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the client waits to be told to send its body."""
    if b"expect" not in dict(headers):
        return False
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in headers)
