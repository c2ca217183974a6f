"""One engine in event time: steps in which nothing changes are taken all at once."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from backends.fleetsim.view import Progress

if TYPE_CHECKING:
    from collections.abc import Hashable

    from backends.fleetsim.draws import Draws, Table
    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request

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
        busy: Seconds that it computed.
    """

    __slots__ = (
        "_begin",
        "_between",
        "_cache",
        "_cache_tokens",
        "_cached",
        "_chunks",
        "_count",
        "_draws",
        "_duration",
        "_ends",
        "_kv_base",
        "_kv_rate",
        "_kv_tokens",
        "_max_batched",
        "_model",
        "_next",
        "_prefilling",
        "_regime",
        "_slow",
        "_step",
        "_tables",
        "_waiting",
        "busy",
        "firsts",
        "preemptions",
        "up",
        "wake",
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
        self._model = model
        self._draws = draws
        self._max_batched = max_batched_tokens
        self._kv_tokens = kv_tokens
        self._cache_tokens = cache_tokens
        self._cache: OrderedDict[Hashable, int] = OrderedDict()
        self._cached = 0
        self._waiting: deque[Request] = deque()
        self._prefilling: list[Request] = []
        self._ends: list[tuple[int, int, Request]] = []
        self._chunks: list[tuple[Request, int]] = []
        self._tables: dict[str, list[Table | bool | None]] = {}
        self._next: Model | None = None
        self._regime = 0
        self._slow = 1.0
        self._step = 0
        self._count = 0
        self._begin = 0.0
        self._duration = 0.0
        self._kv_base = 0.0
        self._kv_rate = 0.0
        self._between = False
        self.wake = NEVER
        self.up = True
        self.firsts: list[Request] = []
        self.preemptions = 0
        self.busy = 0.0

    @property
    def model(self) -> Model:
        """What it runs."""
        return self._model

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._ends) + len(self._prefilling)

    @property
    def waiting(self) -> int:
        """Requests in its queue."""
        return len(self._waiting)

    def kv_usage(self, now: float) -> float:
        """Share of the KV cache that the batch holds, at most 1."""
        return min(
            1.0, self._held(self._step + self._elapsed(now)) / (self._kv_tokens or self._model.kv_tokens)
        )

    def submit(self, request: Request, now: float) -> None:
        """Put a request at the end of the queue; :attr:`wake` may move."""
        self._waiting.append(request)
        if self._between:
            return
        if self.wake == NEVER:
            self.plan(now)
        elif self.running < self._model.max_sequences:
            self._cut(now)

    def settle(self, now: float) -> list[Request]:
        """Apply the stretch that ends now.

        Returns:
            Requests whose last token has come. Before :meth:`plan` others may be submitted: they join the
            step that begins now.
        """
        self._between = True
        count = self._count
        step = self._step = self._step + count
        self.busy += count * self._duration
        ends = self._ends
        done: list[Request] = []
        if self.firsts:
            self.firsts = []
        while ends and ends[0][0] <= step:
            request = heappop(ends)[2]
            self._finish(request)
            done.append(request)
        if self._chunks:
            self._prefilled(now, done)
        return done

    def plan(self, now: float) -> None:
        """Admit what waits and begin the next stretch."""
        self._between = False
        ends, prefilling = self._ends, self._prefilling
        if self._next is not None:
            self._change(self._next)
        model = self._model
        decoding = len(ends)
        budget = self._max_batched
        chunks = self._chunks
        for request in prefilling:
            if not budget:
                break
            taken = min(budget, request.to_prefill)
            chunks.append((request, taken))
            budget -= taken
        waiting = self._waiting
        while waiting and budget and decoding + len(prefilling) < model.max_sequences:
            request = waiting[0]
            if self._kv_tokens is not None and not self._fits(request):
                break
            waiting.popleft()
            self._look_up(request)
            prefilling.append(request)
            taken = min(budget, request.to_prefill)
            chunks.append((request, taken))
            budget -= taken
        if model.regime_at and model.regime_at[decoding] != self._regime:
            self._go_on(model, model.regime_at[decoding])
        if chunks:
            prompt = self._max_batched - budget
            self._count = 1
            self._duration = (model.seconds[decoding] + prompt * model.prefill_seconds) * self._slow
        elif decoding:
            self._count = ends[0][0] - self._step
            self._duration = model.seconds[decoding] * self._slow
        else:
            self.wake = NEVER
            return
        if self._kv_tokens is not None:
            self._make_room()
        self._begin = now
        self.wake = now + self._count * self._duration

    def slow_down(self, factor: float, now: float) -> None:
        """Take ``factor`` times as long for everything, from the next step on; 1 for the usual speed."""
        self._slow = factor
        self._cut(now)

    def replace(self, model: Model, now: float) -> None:
        """Run something else from the next step on; what is in the batch goes on with it."""
        self._next = model
        if self.wake == NEVER:
            self._change(model)
        else:
            self._cut(now)

    def crash(self) -> list[Request]:
        """Lose everything and take nothing until :attr:`up` is set again.

        Returns:
            Requests that were on it, in no order.
        """
        lost = self.all()
        self._waiting.clear()
        self._prefilling.clear()
        self._ends.clear()
        self._chunks.clear()
        self._cache.clear()
        self._cached = 0
        self._kv_base = self._kv_rate = 0.0
        self._between = False
        self.wake = NEVER
        self.up = False
        return lost

    def progress(self, now: float) -> list[Progress]:
        """How far the requests that decode have come."""
        step = self._step + self._elapsed(now)
        found = []
        for _, _, request in self._ends:
            steps = step - request.started
            gained = min(request.need, self._draws.tokens(request.table, request.place, steps))
            found.append(Progress(request, request.steps + steps, request.produced - 1 + gained))
        return found

    def all(self) -> list[Request]:
        """Requests on it, in no order."""
        return [*self._waiting, *self._prefilling, *(request for _, _, request in self._ends)]

    def emitted(self, now: float, sources: int) -> list[int]:
        """Output tokens that the requests on it have got so far, by source."""
        step = self._step + self._elapsed(now)
        made = [0] * sources
        for request in (*self._waiting, *self._prefilling):
            made[request.source] += request.produced
        for _, _, request in self._ends:
            gained = self._draws.tokens(request.table, request.place, step - request.started)
            made[request.source] += request.produced + min(request.need, gained)
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
            if self._cache_tokens and request.prefix is not None:
                self._remember(request.prefix, request.prompt_tokens)
            if request.need <= 0:
                done.append(request)
                if self._cache_tokens and request.prefix is not None:
                    self._remember(request.prefix, request.prompt_tokens + request.output_tokens)
                continue
            request.table = self._table(request.workload, request.level)
            self._start(request)
            heappush(self._ends, (request.end, request.serial, request))
        self._chunks.clear()

    def _start(self, request: Request) -> None:
        """Let it decode from this step on until it has the tokens it needs."""
        steps = self._draws.steps(request.table, request.place, request.need)
        request.started = self._step
        request.end = self._step + steps
        request.rate = request.need / steps
        self._kv_rate += request.rate
        self._kv_base += request.prompt_tokens + request.produced - request.rate * self._step

    def _stop(self, request: Request) -> int:
        """Take it out of the KV cache's books and settle its steps.

        Returns:
            Tokens that its steps gave, uncut.
        """
        self._kv_rate -= request.rate
        self._kv_base -= request.prompt_tokens + request.produced - request.rate * request.started
        steps = self._step - request.started
        gained = self._draws.tokens(request.table, request.place, steps)
        request.steps += steps
        if request.table is not None:
            request.drafted += steps * self._model.regimes[self._regime].draft_tokens
            request.accepted += gained - steps
        return gained

    def _finish(self, request: Request) -> None:
        self._stop(request)
        request.produced = request.output_tokens
        request.last_step = self._duration
        if not self._ends:
            self._kv_base = self._kv_rate = 0.0  # rounding must not add up
        if self._cache_tokens and request.prefix is not None:
            self._remember(request.prefix, request.prompt_tokens + request.output_tokens)

    def _pause(self, request: Request) -> None:
        """Settle what it has, so that it can go on under other terms."""
        gained = self._stop(request)
        request.place = (request.place + self._step - request.started) % self._draws.size
        request.produced += gained
        request.need -= gained

    def _go_on(self, model: Model, regime: int) -> None:
        """Let all that decode go on under other terms."""
        kept = [request for _, _, request in self._ends]
        for request in kept:
            self._pause(request)
        self._ends.clear()
        self._tables.clear()
        self._model, self._regime = model, regime
        for request in kept:
            request.table = self._table(request.workload, request.level)
            self._start(request)
            self._ends.append((request.end, request.serial, request))
        heapify(self._ends)

    def _change(self, model: Model) -> None:
        self._next = None
        self._go_on(model, model.regime_at[len(self._ends)] if model.regime_at else 0)

    def _table(self, workload: str, level: int) -> Table | None:
        tables = self._tables.get(workload)
        if tables is None:
            tables = self._tables[workload] = [True] * self._draws.levels
        found = tables[level]
        if isinstance(found, bool):
            model = self._model
            curve = model.regimes[self._regime].survival[workload]
            found = tables[level] = self._draws.table(curve, model.spread, level)
        return found

    def _held(self, step: int) -> float:
        """Tokens in the KV cache at a step."""
        prompts = sum(
            request.prompt_tokens + request.produced - request.to_prefill for request in self._prefilling
        )
        return self._kv_base + self._kv_rate * step + prompts

    def _fits(self, request: Request) -> bool:
        """Whether the whole prompt has room beside what is held; an empty server takes anything."""
        limit = self._kv_tokens
        if limit is None or not (self._ends or self._prefilling):
            return True
        promised = sum(one.to_prefill for one in self._prefilling)
        return self._held(self._step) + promised + request.prompt_tokens + request.produced <= limit

    def _make_room(self) -> None:
        """End the stretch where the KV cache is full, and preempt the youngest where it is full now."""
        limit = self._kv_tokens
        if limit is None or not self._kv_rate:
            return
        room = limit - self._held(self._step)
        if room < self._kv_rate and len(self._ends) > 1:
            youngest = max(self._ends, key=lambda entry: entry[1])
            self._ends.remove(youngest)
            heapify(self._ends)
            request = youngest[2]
            self._pause(request)
            request.to_prefill = request.prompt_tokens + request.produced
            self._waiting.appendleft(request)
            self.preemptions += 1
            self._count = 1
        else:
            self._count = max(1, min(self._count, int(room / self._kv_rate)))

    def _look_up(self, request: Request) -> None:
        """Set what is left to compute of the prompt; the last token always is."""
        cached = 0
        if self._cache_tokens and request.prefix is not None and request.prefix in self._cache:
            self._cache.move_to_end(request.prefix)
            cached = min(request.shared_tokens, self._cache[request.prefix], request.prompt_tokens - 1)
        request.cached_tokens = cached
        request.to_prefill = request.prompt_tokens + request.produced - cached

    def _remember(self, prefix: Hashable, tokens: int) -> None:
        """Keep a prefix, and forget those that were not used for longest where there is no room."""
        before = self._cache.pop(prefix, 0)
        self._cache[prefix] = max(before, tokens)
        self._cached += self._cache[prefix] - before
        while self._cached > self._cache_tokens and len(self._cache) > 1:
            self._cached -= self._cache.popitem(last=False)[1]
