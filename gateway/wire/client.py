"""The client's side of one exchange: its body in, our answer out, a watch on whether it left."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.runtime import clock, tasks
from gateway.wire import errors
from gateway.wire.pipe import BODILESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from gateway.runtime.turnstile import Work
    from gateway.wire.headers import Headers
    from gateway.wire.pipe import Pipe

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

A = TypeVar("A")
B = TypeVar("B")

SLOW_SECONDS: Final = 0.02
"""A write that takes longer waited for the client: handing over to the kernel takes microseconds."""


LAST_SECONDS: Final = 1.0
"""How long a client may take to read what it is told last, once its time is up."""


class Client:
    """One ASGI exchange.

    Attributes:
        bare: Whether answers have no body whatever they say, for the client asked with HEAD.
        started: Whether the status line went out, after which no other answer is possible.
        delivered: Whether a part of an answer went out, after which no other backend may answer anew.
        finished: Whether the whole answer went out.
        between_events: Whether what went out ends where a comment may follow.
        quiet: Whether comments would spoil what is to come.
        writing: Whether we wait for the client to read.
        caught_up_at: Monotonic seconds at which such a wait last ended, 0 before.
        slow: Whether the client ever read so slowly that we had to wait.
        pipe: The way to it past ASGI's messages, where the server offers one.
        line: The same, to end the connection; also where answers go by messages.
        last_sent: Monotonic seconds at which something was last sent.
        gone: Whether the client left.
        bytes_out: Body bytes sent.
        status: HTTP status sent, 0 before.
    """

    __slots__ = (
        "_held_since", "_receive", "_send", "bare", "between_events", "bytes_out", "caught_up_at",
        "delivered", "finished", "gone", "last_sent", "line", "pipe", "quiet", "slow", "started", "status",
        "writing",
    )  # fmt: skip

    def __init__(
        self, receive: Receive, send: Send, pipe: Pipe | None = None, line: Pipe | None = None
    ) -> None:
        self._receive = receive
        self._send = send
        self._held_since = 0.0
        self.pipe = pipe
        self.line = line or pipe
        self.bare = False
        self.started = False
        self.delivered = False
        self.finished = False
        self.between_events = True
        self.quiet = False
        self.writing = False
        self.caught_up_at = 0.0
        self.slow = False
        self.last_sent = clock.monotonic()
        self.gone = False
        self.bytes_out = 0
        self.status = 0

    async def body(self, limit: int) -> bytes | errors.Problem:
        """The whole request body; a problem if it is larger than ``limit`` bytes or cannot be read.

        A client that leaves meanwhile sets :attr:`gone`.
        """
        if self.pipe is not None and (whole := self.pipe.request_body()) is not None:
            return whole if len(whole) <= limit else errors.too_large(limit)
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                if self.line is not None and (refusal := self.line.refusal) is not None:
                    return refusal  # the client has been told, and what is sent to it goes nowhere
                self.gone = True
                return b""
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > limit:
                return errors.too_large(limit)
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def watch(self, left: Callable[[], None]) -> Callable[[], None]:
        """Call ``left`` when the client has left; only after :meth:`body`. Returns what ends the watch."""

        def leave() -> None:
            self.gone = True
            left()

        if (pipe := self.pipe) is not None:
            pipe.on_lost(leave)
            return partial(pipe.on_lost, None)
        watching = tasks.spawn(self._wait_for_the_end(leave), name="watch client")

        def end() -> None:
            watching.cancel()

        return end

    async def _wait_for_the_end(self, leave: Callable[[], None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        leave()

    async def start(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.started = True
        self.status = status
        if self.pipe is not None:
            self.pipe.start(status, headers)
            return
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Send a part of the body; waits while the client reads slower than we write."""
        self.bytes_out += len(data)
        if self.pipe is None:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        elif not self.pipe.write(data):
            room = asyncio.get_running_loop().create_future()
            self.pipe.on_room(partial(_settle, room))
            await room

    async def comment(self, data: bytes) -> None:
        """Send a comment; one that the client does not read is not waited for."""
        if self.pipe is None:
            await self.write(data)
        else:
            self.bytes_out += len(data)
            self.pipe.write(data)

    async def deliver(self, data: bytes, *, between_events: bool = True) -> None:
        """Send a part of an answer."""
        self.delivered = True
        self.between_events = between_events
        began = self.last_sent = clock.monotonic()
        self.writing = True
        await self.write(data)
        self._caught_up(began)

    async def turn(self) -> None:
        """Wait before a heavy step, so that others are not held up."""
        if self.line is not None:
            await self.line.turn()

    async def share(self, work: Work[A, B], one: A) -> B:
        """Have a heavy step done, together with those of others where the server offers that."""
        if self.line is not None:
            return await self.line.share(work, one)
        [found] = work([one])
        return found

    def streams(self) -> None:
        """A stream begins."""
        if self.line is not None:
            self.line.streams()

    def release(self) -> None:
        """End what is between this and the pipe."""
        if self.line is not None:
            self.line.release()

    def fell_behind(self, now: float) -> None:
        """The pipe said so at this monotonic time."""
        if not self.writing:
            self.writing = True
            self._held_since = now

    def catches_up(self, pipe: Pipe, then: Callable[[], None]) -> None:
        """Call this each time the client has caught up with what the pipe was given."""

        def caught_up() -> None:
            if self.writing:
                self._caught_up(self._held_since)
            then()

        pipe.on_room(caught_up)

    def _caught_up(self, since: float) -> None:
        self.writing = False
        self.caught_up_at = clock.monotonic()
        if self.caught_up_at - since > SLOW_SECONDS:
            self.slow = True

    async def finish(self, data: bytes = b"") -> None:
        """Send the last part of the body."""
        self.bytes_out += len(data)
        self.finished = True
        if self.pipe is not None:
            self.pipe.finish(data)
            return
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def close(self, data: bytes = b"") -> None:
        """Send the last part of an answer that nothing more is waited for: not for its client either."""
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.finish(data)
        except TimeoutError:
            self.cut_off()

    def cut_off(self) -> None:
        """End the connection at once, whatever was not read yet."""
        if self.line is not None:
            self.line.abort()

    @property
    def behind(self) -> bool:
        """Whether the client has yet to read a part of what it was sent, as far as can be told."""
        return self.line is not None and self.line.behind

    async def taken(self, deadline: float) -> None:
        """Wait until the client has read what it was sent; cut it off if it has not by then.

        Args:
            deadline: Monotonic seconds; there is at least :data:`LAST_SECONDS` from now.
        """
        line = self.line
        if line is None or not self.behind:
            return
        room = asyncio.get_running_loop().create_future()
        line.on_room(partial(_settle, room))
        try:
            async with asyncio.timeout(max(LAST_SECONDS, deadline - clock.monotonic())):
                await room
        except TimeoutError:
            self.cut_off()

    async def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer, with its length unless it has none or the headers tell it."""
        told = status in BODILESS or (self.bare and not body) or b"content-length" in dict(headers)
        await self.start(status, headers if told else [*headers, (b"content-length", b"%d" % len(body))])
        await self.finish(body)


def _settle(waited_for: asyncio.Future[None]) -> None:
    if not waited_for.done():
        waited_for.set_result(None)
