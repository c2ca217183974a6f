"""One attempt at one backend: send, read, pass on as bytes arrive, and say how far it came."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core.outcome import Attempt
from gateway.runtime import clock
from gateway.wire import headers as names
from gateway.wire.reading import Reading, decode
from gateway.wire.sse import StreamTap
from gateway.wire.upstream import UpstreamError, UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.fleet import Backend
    from gateway.core.policy import Timeouts
    from gateway.wire.client import Client
    from gateway.wire.headers import Headers
    from gateway.wire.upstream import Upstream, UpstreamResponse

ANSWER_LIMIT: Final = 64 * 2**20
"""Largest answer, in bytes, that is held whole; longer ones are passed on as they come."""

ENDS_WITH_DONE: Final = frozenset({"chat", "completions"})


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer held back: its status says that another backend may do better."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """What every attempt at a request has in common.

    Attributes:
        stream: The request asked for a stream, so that a first byte is due early.
        strip_usage: We asked for usage, the client did not.
        deadline: Monotonic seconds at which the whole request must have ended.
        dress: Adds our headers to a backend's before they go to the client.
    """

    endpoint: str
    stream: bool
    strip_usage: bool
    timeouts: Timeouts
    deadline: float
    dress: Callable[[Headers, Backend], Headers]


class Trial:
    """One attempt in progress; :meth:`run` may be cancelled at any moment and leaves a true account.

    Attributes:
        started: Monotonic seconds at which the attempt began.
        reading: What was read of the answer.
        held: An answer that was not passed on.
        event_stream: Whether the answer is a stream of events.
    """

    __slots__ = (
        "_client", "_plan", "_request", "_span_id", "backend", "error", "event_stream", "held", "phase",
        "reading", "started", "status",
    )  # fmt: skip

    def __init__(
        self, plan: Plan, backend: Backend, request: UpstreamRequest, client: Client, span_id: str
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
        self.reading = Reading()
        self.held: Answer | None = None
        self.event_stream = False

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
        )

    async def run(self, upstream: Upstream) -> None:
        """Make the attempt; afterwards :attr:`error` is empty if the client has its whole answer."""
        timeouts = self._plan.timeouts
        first_byte = timeouts.first_byte if self._plan.stream else timeouts.total
        loop = asyncio.get_running_loop()
        left = self._plan.deadline - self.started
        try:
            async with asyncio.timeout_at(loop.time() + min(first_byte, left)) as limit:
                response = await upstream.send(self._request, timeouts.connect)
                self.phase = "headers"
                self.status = response.status
                try:
                    await self._take(response, limit)
                finally:
                    await response.close()
        except TimeoutError:
            self.error = self._which_timeout()
        except UpstreamError as error:
            if self.phase == "connect":
                self.phase = error.phase
            self.error = error.error

    def _which_timeout(self) -> str:
        if self.phase == "connect":  # connecting has a limit of its own, so the request went out
            self.phase = "sent"
        if clock.monotonic() >= self._plan.deadline:
            return "timeout:total"
        return "timeout:idle" if self.phase == "first_byte" else "timeout:first_byte"

    async def _take(self, response: UpstreamResponse, limit: asyncio.Timeout) -> None:
        content_type = names.first(response.headers, b"content-type") or b""
        if response.status >= 400:
            self.held = Answer(response.status, response.headers, await self._whole(response, limit))
            self.error = f"status:{response.status}"
        elif content_type.startswith(b"text/event-stream"):
            await self._stream(response, limit)
        elif content_type.startswith(b"application/json"):
            await self._document(response, limit)
        else:
            await self._flow(response, limit)

    def _arrived(self, limit: asyncio.Timeout) -> float:
        """Note that bytes arrived, set the idle limit anew, and return the time."""
        now = clock.monotonic()
        self.phase = "first_byte"
        left = self._plan.deadline - now
        limit.reschedule(asyncio.get_running_loop().time() + min(self._plan.timeouts.idle, left))
        return now

    async def _whole(self, response: UpstreamResponse, limit: asyncio.Timeout) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for chunk in response.body():
            self._arrived(limit)
            size += len(chunk)
            if size > ANSWER_LIMIT:
                raise UpstreamError("first_byte", "too_large", f"more than {ANSWER_LIMIT} bytes")
            parts.append(chunk)
        return b"".join(parts)

    async def _document(self, response: UpstreamResponse, limit: asyncio.Timeout) -> None:
        """Pass on a JSON answer whole, so that until its end another backend can still give it."""
        body = await self._whole(response, limit)
        if (read := decode(body)) is not None:
            self.reading.take(read)
        self._complete()
        await self._client.answer(response.status, self._dressed(response), body)

    async def _flow(self, response: UpstreamResponse, limit: asyncio.Timeout) -> None:
        """Pass on any other answer as it comes."""
        async for chunk in response.body():
            self._arrived(limit)
            if not self._client.started:
                await self._client.start(response.status, self._dressed(response))
            await self._client.write(chunk)
        self._complete()
        if self._client.started:
            await self._client.finish()
        else:
            await self._client.answer(response.status, self._dressed(response), b"")

    async def _stream(self, response: UpstreamResponse, limit: asyncio.Timeout) -> None:
        """Pass on server-sent events as they come."""
        self.event_stream = True
        tap = StreamTap(strip_usage=self._plan.strip_usage)
        self.reading = tap.reading
        client = self._client
        async for chunk in response.body():
            data = tap.feed(chunk, self._arrived(limit))
            if not client.started:
                if tap.reading.error and not tap.reading.events:
                    self.held = Answer(response.status, response.headers, data)
                    self.error = tap.reading.error
                    return
                await client.start(response.status, self._dressed(response))
            if data:
                await client.write(data)
        if tail := tap.end():
            await client.write(tail)
        if not client.started or (
            self._plan.endpoint in ENDS_WITH_DONE
            and not (tap.done or tap.reading.error or tap.reading.finish_reason)
        ):
            self.error = "ended_early"
            return
        self._complete()
        self.error = tap.reading.error
        await client.finish()

    def _complete(self) -> None:
        self.phase = "done"
        self.error = ""

    def _dressed(self, response: UpstreamResponse) -> Headers:
        return self._plan.dress(response.headers, self.backend)
