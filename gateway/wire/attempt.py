"""One attempt at one backend: send, read, pass on as bytes arrive, and say how far it came."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.core.features import GENERATING
from gateway.core.outcome import Attempt
from gateway.runtime import clock
from gateway.wire import errors, gathering
from gateway.wire import headers as names
from gateway.wire.chunks import decode, is_object
from gateway.wire.endings import has_ended
from gateway.wire.patience import Patience
from gateway.wire.plan import Answer
from gateway.wire.pouring import KeptBackError, pour
from gateway.wire.reading import Reading
from gateway.wire.sse import StreamTap
from gateway.wire.upstream import UpstreamError, UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.core.fleet import Backend
    from gateway.wire.client import Client
    from gateway.wire.headers import Headers
    from gateway.wire.plan import Plan
    from gateway.wire.resume import Splice
    from gateway.wire.upstream import UpstreamResponse

    Send = Callable[[UpstreamRequest, float], Awaitable[UpstreamResponse]]

ANSWER_LIMIT: Final = 64 * 2**20
"""Largest JSON answer, in bytes: these are held whole until they have ended."""

ERROR_LIMIT: Final = 2**20
"""Largest body of an error, in bytes."""

BUSY_STATUSES: Final = frozenset({429, 503})
"""Answers with which a backend may say when it wants to be asked again."""

OWN_SHARE: Final = 0.9
"""Share of its time without which no backend is blamed for its silence: others took the rest of it."""

STATUSES: Final = range(200, 600)
"""Those that an answer may have; interim ones are no answers."""

_JSON: Final = b"application/json"
_EVENTS: Final = b"text/event-stream"
_ANSWERS: Final = frozenset({_JSON, _EVENTS})
"""Types of what servers answer to prompts; what stands before them may show a page, or lead elsewhere."""

_ENCODING: Final = b"content-encoding"


class Trial:
    """One attempt in progress; :meth:`run` may be cancelled at any moment and leaves a true account.

    Attributes:
        started: Monotonic seconds at which the attempt began.
        reading: What was read of the answer.
        held: An answer that was not passed on.
        event_stream: Whether the client gets a stream of events.
    """

    __slots__ = (
        "_client", "_plan", "_request", "_retry_after", "_span_id", "_tap", "backend", "error",
        "event_stream", "held", "phase", "reading", "started", "status",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        request: UpstreamRequest,
        client: Client,
        span_id: str,
        splice: Splice | None = None,
    ) -> None:
        self._plan = plan
        self.backend = backend
        self._request = request
        self._client = client
        self._span_id = span_id
        self.started = clock.monotonic()
        self.phase = "connect"
        self.error = "client_gone"
        self.status = 0
        self._retry_after: float | None = None
        self._tap: StreamTap | Splice | None = splice
        self.reading = splice.reading if splice is not None else Reading()
        self.held: Answer | None = None
        self.event_stream = client.delivered  # what is gone on with is one

    @property
    def tap(self) -> StreamTap | Splice:
        """Reads the answer if it is a stream of events."""
        if self._tap is None:
            plan = self._plan
            self._tap = StreamTap(self.reading, strip_usage=plan.strip_usage, tape=plan.tape)
        return self._tap

    def attempt(self) -> Attempt:
        """The account as it stands."""
        return Attempt(
            backend=self.backend.name,
            phase=self.phase,
            error=self.error,
            status=self.status,
            started=self.started,
            ended=clock.monotonic(),
            span_id=self._span_id,
            retry_after=self._retry_after,
        )

    async def run(self, send: Send) -> None:
        """Make the attempt; afterwards :attr:`error` is empty if the client has its whole answer.

        Args:
            send: Sends the request and waits for status and headers, see
                :meth:`gateway.wire.upstream.Upstream.send`.
        """
        timeouts = self._plan.timeouts
        patience = Patience(
            self._client,
            self._plan.alarms,
            self._plan.task,
            now=self.started,
            first_byte=timeouts.first_byte if self._plan.stream else timeouts.total,
            idle=timeouts.idle,
            deadline=self._plan.deadline,
        )
        try:
            with patience:
                response = await send(self._request, timeouts.connect)
                self.phase = "headers"
                self.status = response.status
                try:
                    await self._take(response, patience)
                finally:
                    await response.close()
        except asyncio.CancelledError:
            if self.phase == "connect" and self._request.sent.done:
                self.phase = "sent"
            raise
        except TimeoutError:
            if self.phase == "connect":  # connecting has a limit of its own, so the request went out
                self.phase = "sent"
            self.error = patience.which
            if self.error == "timeout:total" and not patience.last and not self._had_its_time():
                self.error = "timeout:deadline"
        except UpstreamError as error:
            if self.phase == "connect":
                self.phase = error.phase
            self.error = error.error
        if self.error and self._has_all:
            tail = self.tap.end(broken=True)
            if self.tap.done or self.reading.error:
                # Whatever became of the connection after the end of the answer, or after the server itself
                # told of its failure, takes nothing from it.
                self._complete()
                self.error = self.reading.error
                await self._client.close(tail if self.tap.done else b"")

    def _had_its_time(self) -> bool:
        """Whether the backend had nearly as long as if the request had been sent to it at once."""
        timeouts = self._plan.timeouts
        own = min(timeouts.first_byte, timeouts.total) if self._plan.stream else timeouts.total
        return clock.monotonic() - self.started >= OWN_SHARE * own

    @property
    def _prompted(self) -> bool:
        """Whether an answer is a JSON object or a stream of events, and nothing else one."""
        return self._plan.endpoint in GENERATING and not self._client.bare

    def _hold(self, response: UpstreamResponse, body: bytes) -> None:
        """Keep what is no answer; the client gets it if nobody else has one."""
        self.held = Answer(response.status, response.headers, body)
        self.error = "protocol"

    @property
    def _has_all(self) -> bool:
        """Whether the client was given all that was read."""
        client = self._client
        return client.delivered and not (client.finished or client.writing or self.tap.error)

    async def _take(self, response: UpstreamResponse, patience: Patience) -> None:
        self._client.quiet = False
        if response.status not in STATUSES:
            raise UpstreamError("headers", "protocol", f"status {response.status}")
        fields = dict(reversed(response.headers))
        content_type = names.media_type(fields.get(b"content-type", b""))
        encoded = fields.get(_ENCODING, b"identity") != b"identity"
        if response.status >= 400:
            body = await gathering.whole(response, ERROR_LIMIT, partial(self._arrived, patience))
            self.held = Answer(response.status, response.headers, body)
            self.error = f"status:{response.status}"
            if response.status in BUSY_STATUSES:
                self._retry_after = names.retry_after(response.headers, clock.unix_ns() / 1e9)
        elif content_type == _EVENTS and not (encoded or self._client.bare):
            await self._stream(response, patience)
        elif self._client.started:
            raise UpstreamError("headers", "protocol", f"{content_type!r} to a stream that has begun")
        else:
            self._client.quiet = True  # until another attempt may give a stream after all
            await self._other(response, patience, content_type)

    async def _other(self, response: UpstreamResponse, patience: Patience, content_type: bytes) -> None:
        """Pass on what is no stream of events."""
        if self._prompted and (response.status >= 300 or content_type not in _ANSWERS):
            self._hold(
                response, await gathering.whole(response, ANSWER_LIMIT, partial(self._arrived, patience))
            )
        elif content_type == _JSON:
            await self._document(response, patience)
        else:
            await self._flow(response, patience)

    def _arrived(self, patience: Patience) -> float:
        """Note that bytes arrived and return the time."""
        now = clock.monotonic()
        self.phase = "first_byte"
        patience.last = now
        return now

    async def _document(self, response: UpstreamResponse, patience: Patience) -> None:
        """Pass on a JSON answer whole, so that until its end another backend can still give it."""
        body = await gathering.whole(response, ANSWER_LIMIT, partial(self._arrived, patience))
        if (read := decode(body)) is not None:
            self.reading.take_whole(read, body)
        elif self._prompted and names.first(response.headers, _ENCODING) is None and not is_object(body):
            self._hold(response, body)
            return
        self._complete()
        await self._client.answer(response.status, self._dressed(response), body)

    async def _flow(self, response: UpstreamResponse, patience: Patience) -> None:
        """Pass on any other answer as it comes."""
        client = self._client
        async for chunk in response.body():
            self._arrived(patience)
            if not client.started:
                await client.start(response.status, self._dressed(response))
            await client.deliver(chunk, between_events=False)
        self._complete()
        if client.started:
            await client.finish()
        else:
            await client.answer(response.status, self._dressed(response), b"")

    async def _stream(self, response: UpstreamResponse, patience: Patience) -> None:
        """Pass on server-sent events as they come; all but the first by the pipe, if there is one."""
        self.event_stream = True
        tap, client = self.tap, self._client
        client.streams()
        async for chunk in response.body():
            data = tap.feed(chunk, self._arrived(patience))
            if self._begins_with_error:
                self._refused(
                    response,
                    data + await gathering.rest(response, tap, ERROR_LIMIT, partial(self._arrived, patience)),
                )
                return
            if data:
                await self._give(response, data)
            if tap.error:
                self.error = tap.reading.error
                return
            if data and client.delivered and client.pipe is not None:
                try:
                    await pour(response, tap, client, client.pipe, patience)
                except KeptBackError:
                    self.error = tap.reading.error
                    return
                break
        tail = tap.end()
        if self._begins_with_error:
            self._refused(response, tail)
            return
        if not (has_ended(self._plan, tap) and (client.delivered or tail)):
            self.error = "ended_early"
            return
        if tail and not tap.cut:
            await self._give(response, tail)
        self._complete()
        self.error = tap.reading.error
        await client.finish()

    @property
    def _begins_with_error(self) -> bool:
        reading = self.tap.reading
        return bool(reading.error) and not reading.events and not self._client.delivered

    def _refused(self, response: UpstreamResponse, said: bytes) -> None:
        """Keep a stream that begins with an error, for want of a better one."""
        told = errors.event(self.tap.error) if self.tap.error else b""
        self.held = Answer(response.status, response.headers, said + told)
        self.error = self.tap.reading.error

    async def _give(self, response: UpstreamResponse, data: bytes) -> None:
        """Pass on events, or comments, after which another backend may still answer."""
        tap, client = self.tap, self._client
        if not client.started:  # only now: until here another backend may give status and headers, too
            await client.start(response.status, self._dressed(response))
        if client.delivered or tap.reading.begun or not tap.between_events:
            await client.deliver(data, between_events=tap.between_events)
        else:
            await client.write(data)

    def _complete(self) -> None:
        self.phase = "done"
        self.error = ""

    def _dressed(self, response: UpstreamResponse) -> Headers:
        return self._plan.dress(response.headers, self.backend)
