"""One HTTP exchange over ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

JSON: Final = b"application/json"
EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"
_VARY: Final = (b"vary", b"Origin")


class Request:
    """An HTTP exchange: ASGI's three arguments and what is read from them.

    Attributes:
        answer_headers: Headers that every answer to it ends with.
        status: Of the answer; 500 until it begins.
        length: Bytes that the answer announces; 0 for a stream.
    """

    __slots__ = (
        "_receive", "_send", "answer_headers", "headers", "length", "method", "path", "query", "status",
    )  # fmt: skip

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: dict[str, str] = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.answer_headers: Headers = [_VARY]
        self.status = 500
        self.length = 0
        self._receive = receive
        self._send = send

    def header(self, name: str) -> str | None:
        """A request header, None where it is missing."""
        value = self.headers.get(name.encode())
        return None if value is None else value.decode("latin-1")

    async def body(self) -> bytes | None:
        """The whole body; None if the client left before its end."""
        parts = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return b"".join(parts)

    async def left(self) -> None:
        """Wait until the client is gone; for after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def reply(
        self, body: bytes, kind: bytes = JSON, *, status: int = 200, extra: Headers | None = None
    ) -> None:
        """Send a complete response; one without a body has no content type."""
        self.length = len(body)
        headers = [*(extra or ()), (b"content-length", b"%d" % len(body))]
        if body:
            headers.append((b"content-type", kind))
        await self._start(status, headers)
        await self.write(body, more=False)

    async def stream(self) -> None:
        """Start a response whose body comes by :meth:`write`."""
        await self._start(200, [(b"content-type", EVENT_STREAM)])

    async def write(self, body: bytes, *, more: bool) -> None:
        """Send some of the body; ``more`` says whether there will be more."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        headers = headers + self.answer_headers
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
