"""The pipe: an extension of ASGI by which our server takes an answer without an ``await``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.wire.heads import OLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from gateway.runtime.turnstile import Work
    from gateway.wire.client import Scope
    from gateway.wire.errors import Problem
    from gateway.wire.headers import Headers
    from gateway.wire.protocol import LimitedProtocol

A = TypeVar("A")
B = TypeVar("B")

_line: Final = b"%b: %b\r\n".__mod__
"""A header as a line."""

EXTENSION: Final = "specroute.pipe"
"""Key of the pipe among the ``extensions`` of a scope."""

BODILESS: Final = frozenset({204, 304})
"""Statuses of answers that have no body."""


def pipe_of(scope: Scope) -> Pipe | None:
    """Take the pipe that a server offers for an exchange, if it offers one."""
    # Left in the scope, it would be part of a circle that only a collection ends.
    pipe: Pipe | None = scope.get("extensions", {}).pop(EXTENSION, None)
    return pipe


class Pipe:
    """The way to the client of one exchange, instead of ``send`` and, after its request, of ``receive``."""

    __slots__ = ("_chunked", "_cycle", "_flow", "_head", "_lost", "_protocol", "_room", "_transport")

    def __init__(self, protocol: LimitedProtocol, cycle: RequestResponseCycle) -> None:
        """Make the pipe of one request-response cycle of uvicorn's."""
        self._protocol = protocol
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = protocol.transport
        self._head = b""
        self._chunked = True
        self._room: Callable[[], None] | None = None
        self._lost: Callable[[], None] | None = None

    def request_body(self) -> bytes | None:
        """Take the body of the request, once; None if it is not all here and ``receive`` is to be asked."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def start(self, status: int, headers: Headers) -> None:
        """Begin the answer; it goes out with the first part of the body.

        Args:
            status: Of the answer.
            headers: Names in lower case, none of the connection; without a length the body comes in chunks.

        Raises:
            ValueError: A header holds a line break or a null byte and would be read as something else.
        """
        cycle = self._cycle
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        lines = list(map(_line, cycle.default_headers))
        lines += map(_line, headers)
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        # An old client takes all until the connection ends for the body.
        self._chunked = not (
            b"content-length" in dict(headers)
            or cycle.scope["method"] == "HEAD"
            or status in BODILESS
            or cycle.scope["http_version"] in OLD
        )
        if self._chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"%b%b\r\n" % (STATUS_LINE[status], b"".join(lines))
        breaks = len(lines) + 2
        if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
            raise ValueError("a header holds a line break or a null byte")
        self._head = head

    def write(self, data: bytes) -> bool:
        """Write a part of the body, at once.

        Returns:
            Whether the client keeps up. If not, nothing is lost, but the more is written the more is held.
        """
        if self._cycle.disconnected:
            return True
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data, self._head = self._head + data, b""
        self._transport.write(data)
        if not self._flow.write_paused:
            return True
        self.hold_back()
        return False

    async def turn(self) -> None:
        """Wait before a heavy step, see :meth:`Turnstile.turn`."""
        await self._protocol.turnstile.turn()

    async def share(self, work: Work[A, B], one: A) -> B:
        """Have a heavy step done, see :meth:`Turnstile.share`."""
        return await self._protocol.turnstile.share(work, one)

    def streams(self) -> None:
        """A stream begins, which others are not to hold up until :meth:`release`."""
        self._protocol.turnstile.streams.add(self)

    def inside(self) -> tuple[Callable[[bytes], None], FlowControl, RequestResponseCycle] | None:
        """What :meth:`write` comes down to for a part that is framed as a chunk already, after the first.

        Returns:
            What writes to the connection; what tells that the client does not keep up, of which
            :meth:`hold_back` is to hear; and what tells that it has left, after which nothing may be written.
            None where the body does not come in chunks.
        """
        return (self._transport.write, self._flow, self._cycle) if self._chunked else None

    def hold_back(self) -> None:
        """The client does not keep up: call for room once it has caught up."""
        self._protocol.held_back.add(self)

    def finish(self, data: bytes) -> None:
        """Write the last part of the body, which may be empty."""
        cycle = self._cycle
        if cycle.disconnected:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if cycle.scope["method"] == "HEAD":
            data = b""
        self._transport.write(self._head + data)
        self._head = b""
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._protocol.close()
        cycle.on_response()

    @property
    def refusal(self) -> Problem | None:
        """What the client was told by the server where its body could not be read to the end."""
        protocol, cycle = self._protocol, self._cycle
        told = protocol.refused and cycle.disconnected and cycle.more_body
        return protocol.refusal.problem if told else None

    @property
    def behind(self) -> bool:
        """Whether the client has yet to read a part of what was written, of this answer or one before."""
        return self._flow.write_paused and not self._cycle.disconnected

    def abort(self) -> None:
        """End the connection at once, whatever was not read yet."""
        self._protocol.abort()

    def on_room(self, call: Callable[[], None]) -> None:
        """Call this each time a client that did not keep up has caught up, or left."""
        self._room = call
        if self.behind:
            self.hold_back()

    def on_lost(self, call: Callable[[], None] | None) -> None:
        """Call this once the client has left, instead of what was to be called before.

        None ends the exchange: nothing is called any more, not for room either.
        """
        self._lost = call
        if call is None:
            self._room = None  # it knows the client, and the client this pipe
            self._protocol.watched.discard(self)
        elif self._cycle.disconnected:
            self._protocol.loop.call_soon(self.lost)
        else:
            self._flow.resume_reading()  # or nobody would notice
            self._protocol.watched.add(self)

    def release(self) -> None:
        """The exchange has ended. Whom to call is forgotten: in a circle it would wait for a collection."""
        self._room = None
        self.on_lost(None)
        self._protocol.turnstile.streams.discard(self)

    # What the protocol calls.

    def room(self) -> None:
        """The client has caught up."""
        if self._room is not None:
            self._room()

    def lost(self) -> None:
        """The client has left."""
        if self._lost is not None:
            self._lost()
