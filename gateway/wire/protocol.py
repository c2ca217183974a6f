"""The listening side of HTTP/1.1: uvicorn's, with limits on the size of a head and the time it takes."""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from gateway.runtime.turnstile import turnstile_of
from gateway.wire import refusals
from gateway.wire.cycle import begun
from gateway.wire.heads import HeadReader
from gateway.wire.refusals import HEAD_LIMIT
from gateway.wire.rest import Rest
from gateway.wire.stall import Stall

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGI3Application
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from gateway.wire.pipe import Pipe

AHEAD_LIMIT: Final = 64 * 2**10
"""Most bytes that are read of requests behind one that has not been answered yet."""


class LimitedProtocol(HeadReader):
    """One connection of a client.

    Attributes:
        head_seconds: How long a head may take, from the connection or its first byte on.
        body_seconds: How long a body may bring nothing.
        linger_seconds: How long a client that was refused may go on sending, so that it gets to read why.
        turnstile: Lets requests begin, of all connections of the loop.
        refused: Whether no more is read.
        watched: Pipes to be told when the client leaves.
        unread_seconds: How long a client may read nothing of what was written to it.
        held_back: Pipes that wait for the client to catch up.
    """

    head_seconds: ClassVar[float] = 30.0
    body_seconds: ClassVar[float] = 60.0
    linger_seconds: ClassVar[float] = 2.0
    unread_seconds: ClassVar[float] = 60.0

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """As uvicorn makes it."""
        super().__init__(config, server_state, app_state, _loop)
        self._silent = 0
        self.refused = self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self.turnstile = turnstile_of(self.loop)
        self.watched: set[Pipe] = set()
        self.held_back: set[Pipe] = set()
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._ahead = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """A client has connected."""
        super().connection_made(transport)
        self._rest = Rest(self.loop, self.timeout_keep_alive, transport.close)
        self._stall = Stall(self.loop, transport, self.unread_seconds, self.abort)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=0)  # write at once, not when all others had their turn
        self._close_after(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._stop_timer()
        self._rest.stop()
        self._stall.stop()
        super().connection_lost(exc)
        self._end_all()
        if self.cycle is not None:
            self.cycle.transport = self.transport  # or each would know the other until a collection

    def eof_received(self) -> None:
        """The client sends no more: it has left, though it may not have read all that was written."""
        self._end_all()

    def abort(self) -> None:
        """End it at once, whatever was not read yet."""
        self.transport.abort()
        self._end_all()

    # What a cycle of uvicorn's knows as its transport.

    def write(self, data: bytes) -> None:
        """Write to the client, at once."""
        self.transport.write(data)

    def is_closing(self) -> bool:
        """Whether nothing written would go out."""
        return self.transport.is_closing()

    def close(self) -> None:
        """End it, behind an answer or where one breaks off.

        Who still sends gets to read the answer: if what is sent were not read, the kernel would reset the
        connection (RFC 9112, 9.6). So the rest of a body is read and thrown away, and so is what came behind.
        """
        answered = self._unanswered[0] if self._unanswered else None
        if answered is None or not answered.response_complete:
            self.transport.close()
        elif answered.more_body:
            self._write_no_more()
        elif self.refused or self.pipeline:
            self._linger()
        else:
            self.transport.close()

    def _write_no_more(self) -> None:
        self._ended = True
        self.flow.resume_reading()  # to the end of the body, or until the client has left
        if not self.transport.is_closing():
            with suppress(OSError):  # it has left, of which we are about to be told
                self.transport.write_eof()

    def _linger(self) -> None:
        """Close once the client has had the time to read what it was told."""
        self.refused = True
        self.pipeline.clear()
        self._stop_timer()
        self._write_no_more()
        self._close_after(self.linger_seconds)

    def _end_all(self) -> None:
        """Nobody waits for what is open; what waits behind it does not begin."""
        self.pipeline.clear()
        while self._unanswered:
            cycle = self._unanswered.popleft()
            cycle.disconnected = True
            cycle.message_event.set()
        self._tell_that_it_left()
        self._tell_of_room()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.turnstile.add(partial(super()._start_asgi_task, cycle, app))

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for one."""
        if self._unanswered:
            self._unanswered.popleft().body = bytearray()  # of which nobody takes what is left
        self.server_state.total_requests += 1
        if self._ended or self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._rest.begin()
        if not self.pipeline:
            self._ahead = 0

    def _tell_that_it_left(self) -> None:
        while self.watched:
            self.watched.pop().lost()

    def resume_writing(self) -> None:
        """It has caught up with what was written."""
        super().resume_writing()
        self._stall.end()
        self._tell_of_room()

    def _tell_of_room(self) -> None:
        while self.held_back:
            self.held_back.pop().room()

    def pause_writing(self) -> None:
        """It does not keep up with what is written."""
        super().pause_writing()
        self._stall.begin()

    def data_received(self, data: bytes) -> None:
        """Read bytes as they arrive."""
        if self.refused:
            return
        self._progress = self._rest.on = False
        self._feed(data)
        if self.pipeline:
            self._read_ahead()
        # What the parser holds back of a head that has not ended is not counted anywhere else.
        self._silent = 0 if self._progress else self._silent + len(data)
        if self._silent > HEAD_LIMIT and not self.refused:
            self.refusal = refusals.HEAD_TOO_LARGE
            self.send_400_response("")
        self._limit_the_wait()

    def _read_ahead(self) -> None:
        """Go on reading behind a request that is not answered yet: else nobody notices that its client left.

        What is too much is thrown away, and the connection ends with the answers to what came as a whole.
        """
        if self._ahead > AHEAD_LIMIT and not self.refused:
            self._take_no_more()
        self.flow.resume_reading()

    def _take_no_more(self) -> bool:
        """Answer the requests that came as a whole, and end with that. Tells whether there is one."""
        self.refused = True
        self._stop_timer()
        while self.pipeline and self.pipeline[0][0].more_body:
            self.pipeline.popleft()
            self._unanswered.pop()
        if not self._unanswered or self._unanswered[-1].more_body:
            return False
        self.cycle = self._unanswered[-1]
        self.cycle.keep_alive = False
        self.flow.resume_reading()  # or nobody would notice that the client leaves
        return True

    def _limit_the_wait(self) -> None:
        """For the rest of what has come in part."""
        if self.refused:
            return
        if not self._head_open:
            if len(self.cycle.body) > HIGH_WATER_LIMIT and not self.cycle.response_complete:
                self.flow.pause_reading()  # until what has come is taken
            self._stop_timer()
            self._timer = self.loop.call_later(self.body_seconds, self._body_stalled)
        elif self._timer is None and not self._answering:
            self._close_after(self.head_seconds)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - what uvicorn says is not JSON
        """Refuse to read on. Where that would fall into an answer, the connection just ends."""
        if self._take_no_more():
            return
        cycle = self.cycle
        if not self._head_open and cycle.response_started:
            self._linger() if cycle.response_complete else self.transport.close()
            return
        if self._answering:
            cycle.disconnected = True
            cycle.message_event.set()
            self._tell_that_it_left()
        self.transport.write(self.refusal.answer)
        self._linger()

    @property
    def _answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete  # uvicorn's type forgets the None

    def _body_stalled(self) -> None:
        if self.flow.read_paused:  # by us: nobody has taken yet what came before
            self._timer = self.loop.call_later(self.body_seconds, self._body_stalled)
            return
        self.refusal = refusals.TOO_SLOW
        self.send_400_response("")

    def _close_after(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What the parser calls.

    def on_headers_complete(self) -> None:
        """The head has ended."""
        super().on_headers_complete()
        self._head_open = False
        self._stop_timer()
        if self._repeating:
            self._repeating = False
            return
        waits = self._answering
        cycle = self.cycle = begun(self)
        self._unanswered.append(cycle)
        if not waits:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
            self._ahead += self._head_size

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._progress = True
        if self.pipeline:
            self._ahead += len(body)
        if (cycle := self.cycle).response_complete:
            return
        # Most come in one piece, of which no copy need be made; of thousands of pieces each is copied once.
        if not cycle.body:
            cycle.body = body  # type: ignore[assignment] # as good where nothing is added
        elif type(cycle.body) is bytearray:
            cycle.body += body
        else:
            cycle.body = bytearray(cycle.body) + body
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The request has ended; the next head may come."""
        self._progress = True
        if not self.parser.should_upgrade():
            self._stop_timer()
            self._head_open = True
            if self._ended:
                self._linger()
            cycle = self.cycle
            if not cycle.response_complete:
                cycle.more_body = False
                cycle.message_event.set()
