"""The client's side of one exchange: its body in, our answer out, a watch on whether it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.runtime import clock
from gateway.wire import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from gateway.wire.headers import Headers

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]


SLOW_SECONDS: Final = 0.02
"""A write that takes longer waited for the client: handing over to the kernel takes microseconds."""


class Client:
    """One ASGI exchange.

    Attributes:
        started: Whether the status line went out, after which no other answer is possible.
        delivered: Whether a part of an answer went out, after which no other backend may answer anew.
        finished: Whether the whole answer went out.
        between_events: Whether what went out ends where a comment may follow.
        writing: Whether we wait for the client to read.
        slow: Whether the client ever read so slowly that we had to wait.
        last_sent: Monotonic seconds at which something was last sent.
        gone: Whether the client left.
        bytes_out: Body bytes sent.
        status: HTTP status sent, 0 before.
    """

    __slots__ = (
        "_receive", "_send", "between_events", "bytes_out", "delivered", "finished", "gone", "last_sent",
        "slow", "started", "status", "writing",
    )  # fmt: skip

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.started = False
        self.delivered = False
        self.finished = False
        self.between_events = True
        self.writing = False
        self.slow = False
        self.last_sent = clock.monotonic()
        self.gone = False
        self.bytes_out = 0
        self.status = 0

    async def body(self, limit: int) -> bytes | errors.Problem:
        """The whole request body; a problem if it is larger than ``limit`` bytes.

        A client that leaves meanwhile sets :attr:`gone`.
        """
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                return b""
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                return errors.too_large(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def left(self) -> None:
        """Return when the client has left; call it only after :meth:`body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True

    async def start(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Send a part of the body; waits while the client reads slower than we write."""
        self.bytes_out += len(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def deliver(self, data: bytes, *, between_events: bool = True) -> None:
        """Send a part of an answer."""
        self.delivered = True
        self.between_events = between_events
        began = self.last_sent = clock.monotonic()
        self.writing = True
        await self.write(data)
        self.writing = False
        if clock.monotonic() - began > SLOW_SECONDS:
            self.slow = True

    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the body."""
        self.bytes_out += len(data)
        self.finished = True
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.finish(body)
