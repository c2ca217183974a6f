"""One engine in event time: steps in which nothing changes are taken all at once."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

from backends.fleetsim.batch import Batch
from backends.fleetsim.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from backends.fleetsim.draws import Draws
    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request
    from backends.fleetsim.view import Progress

NEVER: Final = math.inf


class Server:
    """Batches requests as :class:`backends.sim.engine.Engine` does, a stretch of equal steps at a time.

    Between an admission and the next answer's end the batch does not change, so all steps take equally
    long, and which answer ends first is known from its draws. The caller owns time: at :attr:`wake` it
    calls :meth:`settle`, submits what follows from that, and calls :meth:`plan`. An arrival in between
    shortens the stretch to the end of the step under way.

    Args:
        model: What it runs.
        draws: Acceptance, shared by all servers of a simulation.
        max_batched_tokens: Prompt tokens computed in one step at most.
        kv_tokens: Tokens that fit into the KV cache; beyond it the youngest request is preempted and
            computed anew. None for no limit.
        cache_tokens: Prompt tokens of earlier requests that the prefix cache keeps; 0 for no cache.

    Attributes:
        wake: When the stretch under way ends; :data:`NEVER` while it is idle.
        up: Whether it takes requests.
        firsts: Requests whose first token came with the stretch that was settled last.
        preemptions: How often a request was thrown out of the batch for want of KV cache.
    """

    __slots__ = (
        "_batch", "_begin", "_between", "_cache", "_chunks", "_count", "_duration", "_kv_tokens",
        "_max_batched", "_next", "_prefilling", "_slow", "_waiting", "firsts", "preemptions", "up", "wake",
    )  # fmt: skip

    def __init__(
        self,
        model: Model,
        draws: Draws,
        *,
        max_batched_tokens: int = 2048,
        kv_tokens: int | None = None,
        cache_tokens: int = 0,
    ) -> None:
        self._batch = Batch(model, draws)
        self._max_batched = max_batched_tokens
        self._kv_tokens = kv_tokens
        self._cache = PrefixCache(cache_tokens)
        self._waiting: deque[Request] = deque()
        self._prefilling: list[Request] = []
        self._chunks: list[tuple[Request, int]] = []
        self._next: Model | None = None
        self._slow = 1.0
        self._count = 0
        self._begin = 0.0
        self._duration = 0.0
        self._between = False
        self.wake = NEVER
        self.up = True
        self.firsts: list[Request] = []
        self.preemptions = 0

    @property
    def model(self) -> Model:
        """What it runs."""
        return self._batch.model

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._batch) + len(self._prefilling)

    @property
    def waiting(self) -> int:
        """Requests in its queue."""
        return len(self._waiting)

    def kv_usage(self, now: float) -> float:
        """Share of the KV cache that the batch holds, at most 1."""
        limit = self._kv_tokens or self.model.kv_tokens
        return min(1.0, self._held(self._elapsed(now)) / limit)

    def submit(self, request: Request, now: float) -> None:
        """Put a request at the end of the queue; :attr:`wake` may move."""
        self._waiting.append(request)
        if self._between:
            return
        if self.wake == NEVER:
            self.plan(now)
        elif self.running < self.model.max_sequences:
            self._cut(now)

    def settle(self, now: float) -> list[Request]:
        """Apply the stretch that ends now.

        Returns:
            Requests whose last token has come. Before :meth:`plan` others may be submitted: they join the
            step that begins now.
        """
        self._between = True
        done = self._batch.advance(self._count)
        for request in done:
            request.last_step = self._duration
            self._cache.keep(request, request.prompt_tokens + request.output_tokens)
        if self.firsts:
            self.firsts = []
        if self._chunks:
            self._prefilled(now, done)
        return done

    def plan(self, now: float) -> None:
        """Admit what waits and begin the next stretch."""
        self._between = False
        batch = self._batch
        if self._next is not None:
            batch.run(self._next)
            self._next = None
        batch.follow_load()
        prompts = self._fill_step()
        model, decoding = batch.model, len(batch)
        if self._chunks:
            self._count = 1
            self._duration = (model.seconds[decoding] + prompts * model.prefill_seconds) * self._slow
        elif decoding:
            self._count = batch.steps_to_end
            self._duration = model.seconds[decoding] * self._slow
        else:
            self.wake = NEVER
            return
        if self._kv_tokens is not None:
            self._make_room(self._kv_tokens)
        self._begin = now
        self.wake = now + self._count * self._duration

    def slow_down(self, factor: float, now: float) -> None:
        """Take ``factor`` times as long for everything, from the next step on; 1 for the usual speed."""
        self._slow = factor
        self._cut(now)

    def replace(self, model: Model, now: float) -> None:
        """Run something else from the next step on; what is in the batch goes on with it."""
        if self.wake == NEVER:
            self._batch.run(model)
        else:
            self._next = model
            self._cut(now)

    def crash(self) -> list[Request]:
        """Lose everything and take nothing until :attr:`up` is set again.

        Returns:
            Requests that were on it, in no order.
        """
        lost = self.requests()
        self._waiting.clear()
        self._prefilling.clear()
        self._batch.clear()
        self._chunks.clear()
        self._cache.clear()
        self._between = False
        self.wake = NEVER
        self.up = False
        return lost

    def requests(self) -> list[Request]:
        """Those on it, in no order."""
        return [*self._waiting, *self._prefilling, *self._batch.requests]

    def progress(self, now: float) -> list[Progress]:
        """How far the requests that decode have come."""
        steps = self._elapsed(now)
        return self._batch.progress(steps, self._begin + steps * self._duration)

    def emitted(self, now: float, sources: int) -> list[int]:
        """Output tokens that the requests on it have got so far, by source."""
        made = [0] * sources
        for request in (*self._waiting, *self._prefilling):
            made[request.source] += request.produced
        for one in self.progress(now):
            made[one.request.source] += one.tokens + 1
        return made

    def _elapsed(self, now: float) -> int:
        """Whole steps of the stretch under way that are over."""
        if self.wake == NEVER or self._chunks or self._between:
            return 0
        return min(self._count, int((now - self._begin) / self._duration))

    def _cut(self, now: float) -> None:
        """End the stretch with the step under way."""
        if self.wake == NEVER or self._count == 1:
            return
        steps = max(1, math.ceil((now - self._begin) / self._duration))
        if steps < self._count:
            self._count = steps
            self.wake = self._begin + steps * self._duration

    def _fill_step(self) -> int:
        """Choose the chunks of prompts for a step, first come, first served.

        Returns:
            Their tokens.
        """
        budget, prefilling, waiting = self._max_batched, self._prefilling, self._waiting
        for request in prefilling:
            if not budget:
                break
            budget -= self._take(request, budget)
        room = self.model.max_sequences - len(self._batch)
        while waiting and budget and len(prefilling) < room:
            request = waiting[0]
            if self._kv_tokens is not None and not self._fits(request, self._kv_tokens):
                break
            waiting.popleft()
            request.cached_tokens = self._cache.found(request)
            request.to_prefill = request.prompt_tokens + request.produced - request.cached_tokens
            prefilling.append(request)
            budget -= self._take(request, budget)
        return self._max_batched - budget

    def _take(self, request: Request, budget: int) -> int:
        taken = min(budget, request.to_prefill)
        self._chunks.append((request, taken))
        return taken

    def _prefilled(self, now: float, done: list[Request]) -> None:
        """Apply the chunks of the step: whose prompt is computed gets a token and decodes from now on."""
        for request, tokens in self._chunks:
            request.to_prefill -= tokens
            if request.to_prefill:
                continue
            self._prefilling.remove(request)
            if request.first < 0.0:
                request.first = now
                self.firsts.append(request)
            request.produced += 1
            request.need = request.output_tokens - request.produced
            self._cache.keep(request, request.prompt_tokens + request.produced)
            if request.need > 0:
                self._batch.join(request)
            else:
                done.append(request)
        self._chunks.clear()

    def _held(self, steps: int = 0) -> float:
        """Tokens in the KV cache after so many further steps."""
        prompts = sum(one.prompt_tokens + one.produced - one.to_prefill for one in self._prefilling)
        return self._batch.held(steps) + prompts

    def _fits(self, request: Request, limit: int) -> bool:
        """Whether the whole prompt has room beside what is held; an empty server takes anything."""
        if not self.running:
            return True
        promised = sum(one.to_prefill for one in self._prefilling)
        return self._held() + promised + request.prompt_tokens + request.produced <= limit

    def _make_room(self, limit: int) -> None:
        """End the stretch where the KV cache is full, and preempt the youngest where it is full now."""
        batch = self._batch
        if not batch.kv_rate:
            return
        room = limit - self._held()
        if room < batch.kv_rate and len(batch) > 1:
            request = batch.leave_youngest()
            request.to_prefill = request.prompt_tokens + request.produced
            self._waiting.appendleft(request)
            self.preemptions += 1
            self._count = 1
        else:
            self._count = max(1, min(self._count, int(room / batch.kv_rate)))
