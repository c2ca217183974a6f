"""Runs an engine on the clock of the event loop and hands its tokens to those who wait for them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from backends.sim.engine import Acceptance, Engine, Job, Step
    from backends.sim.measures import Measures

_CATCH_UP: Final = 0.25
"""Seconds that the loop may be late before the lost time is given up instead of made good."""


@dataclass(slots=True)
class Timing:
    """When things happened to a job, in seconds of the loop's clock; 0 for not yet."""

    arrived: float
    scheduled: float = 0.0
    first: float = 0.0
    last: float = 0.0


@dataclass(slots=True)
class Share:
    """What a job got since it was last looked at.

    Attributes:
        index: Which of the request's choices it belongs to.
        tokens: New output tokens.
        finished: Whether these are the last.
    """

    index: int
    tokens: int
    finished: bool


class Inbox:
    """Where the tokens of one request's jobs arrive. Shares not yet taken are merged, as vLLM merges them."""

    __slots__ = ("_closed", "_shares", "_waiter")

    def __init__(self) -> None:
        self._shares: dict[int, Share] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, index: int, tokens: int, *, finished: bool) -> None:
        """Add tokens of a choice and wake whoever waits."""
        share = self._shares.get(index)
        if share is None:
            self._shares[index] = Share(index, tokens, finished)
        else:
            share.tokens += tokens
            share.finished = finished
        self._wake()

    def close(self) -> None:
        """Nothing more will come: :meth:`take` returns nothing from now on."""
        self._closed = True
        self._shares.clear()
        self._wake()

    async def take(self) -> list[Share]:
        """Wait for tokens; an empty list once the inbox is closed."""
        while not self._shares and not self._closed:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        shares = list(self._shares.values())
        self._shares.clear()
        return shares

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@dataclass(slots=True)
class Flow:
    """A job on its way.

    Attributes:
        accepted: Accepted drafts of each step that had drafts; what ``detailed`` metrics list.
        drafted: Proposed drafts of the same steps.
        acceptance: Totals, once it is finished.
    """

    job: Job
    index: int
    inbox: Inbox
    timing: Timing
    accepted: list[int]
    drafted: list[int]
    acceptance: Acceptance | None = None


class Realtime:
    """An engine whose steps take their time.

    Args:
        engine: The state machine; this is the only one that may call it.
        measures: Told of every step and emission.
        speed: Engine seconds that pass in a second of the loop's clock.
    """

    def __init__(self, engine: Engine, measures: Measures, *, speed: float = 1.0) -> None:
        self.engine = engine
        self._measures = measures
        self._speed = speed
        self._flows: dict[str, Flow] = {}
        self._queued: dict[str, Flow] = {}
        self._pending: asyncio.Handle | None = None
        self._due = 0.0
        self.closed = False
        self.stalled = False

    def submit(self, job: Job, index: int, inbox: Inbox) -> Flow:
        """Queue a job; its tokens arrive in ``inbox`` under ``index``."""
        loop = asyncio.get_running_loop()
        self.engine.submit(job)
        flow = Flow(job, index, inbox, Timing(loop.time()), [], [])
        self._flows[job.id] = self._queued[job.id] = flow
        if self._pending is None and not self.stalled:
            self._due = loop.time()
            # Not at once: the jobs of one request, and of one burst, share the first step.
            self._pending = loop.call_soon(self._begin)
        return flow

    def cancel(self, job_id: str) -> bool:
        """Drop a job and free its slot; says whether it was still there."""
        self._queued.pop(job_id, None)
        return self._flows.pop(job_id, None) is not None and self.engine.cancel(job_id)

    def stall(self) -> None:
        """Stop as an engine that hangs: no step runs any more, and every request waits."""
        self.stalled = True
        if self._pending is not None:
            self._pending.cancel()

    def close(self) -> None:
        """Stop as an engine that died: no step runs any more, and every request ends without its answer."""
        self.stall()
        self.closed = True
        for flow in list(self._flows.values()):
            self.cancel(flow.job.id)
            flow.inbox.close()

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        step = self.engine.begin()
        if step is None:
            self._pending = None
            return
        while len(self._queued) > self.engine.waiting:  # the engine admits in the order of submission
            self._queued.pop(next(iter(self._queued))).timing.scheduled = now
        start = self._due if now - self._due < _CATCH_UP else now
        self._due = start + step.duration / self._speed
        self._pending = loop.call_at(self._due, self._finish, step)

    def _finish(self, step: Step) -> None:
        now = asyncio.get_running_loop().time()
        total = step.prefill_tokens
        for emission in self.engine.finish(step):
            flow = self._flows[emission.job_id]
            timing = flow.timing
            total += emission.tokens
            if emission.drafted:
                flow.accepted.append(emission.accepted)
                flow.drafted.append(emission.drafted)
            since = now - timing.last if timing.first else None
            timing.first = timing.first or now
            timing.last = now
            if emission.finished:
                flow.acceptance = emission.acceptance
                del self._flows[emission.job_id]
            self._measures.emission(timing, since)
            flow.inbox.put(flow.index, emission.tokens, finished=emission.finished)
        self._measures.step(total)
        self._begin()
