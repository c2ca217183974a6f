"""The requests of one engine that decode: how far each has come, and when each will end."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from backends.fleetsim.view import Progress

if TYPE_CHECKING:
    from backends.fleetsim.draws import Draws, Table
    from backends.fleetsim.model import Model
    from backends.fleetsim.request import Request


class Batch:
    """Sequences that decode, counted in steps of their engine; time is the engine's business.

    Args:
        model: What the engine runs.
        draws: Acceptance.

    Attributes:
        model: What the engine runs.
        step: Steps taken so far.
        kv_rate: Tokens by which the KV cache fills in a step.
    """

    __slots__ = ("_draws", "_ends", "_kv_base", "_regime", "_tables", "kv_rate", "model", "step")

    def __init__(self, model: Model, draws: Draws) -> None:
        self.model = model
        self.step = 0
        self.kv_rate = 0.0
        self._draws = draws
        self._regime = 0
        self._kv_base = 0.0
        self._ends: list[tuple[int, int, Request]] = []
        self._tables: dict[str, list[Table | bool | None]] = {}

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def requests(self) -> list[Request]:
        """Those in it, in no order."""
        return [request for _, _, request in self._ends]

    @property
    def steps_to_end(self) -> int:
        """Steps until the first of them has all its tokens; there must be one."""
        return self._ends[0][0] - self.step

    def join(self, request: Request) -> None:
        """Let a request decode from this step on until it has the tokens it needs."""
        request.table = self._table(request.workload, request.level)
        self._start(request)
        heappush(self._ends, (request.end, request.serial, request))

    def advance(self, steps: int) -> list[Request]:
        """Take so many steps, at most until the first ends.

        Returns:
            Requests that have all their tokens now.
        """
        step = self.step = self.step + steps
        ends = self._ends
        done: list[Request] = []
        while ends and ends[0][0] <= step:
            request = heappop(ends)[2]
            self._stop(request)
            request.produced = request.output_tokens
            done.append(request)
        if not ends:
            self._kv_base = self.kv_rate = 0.0  # rounding must not add up
        return done

    def follow_load(self) -> None:
        """Go over to the regime of an engine that adapts to its load."""
        at = self.model.regime_at
        if at and at[len(self._ends)] != self._regime:
            self.run(self.model)

    def run(self, model: Model) -> None:
        """Go on under another engine, or another regime of the same."""
        kept = self.requests
        for request in kept:
            self._pause(request)
        self._ends.clear()
        self._tables.clear()
        self.model = model
        self._regime = model.regime_at[len(kept)] if model.regime_at else 0
        for request in kept:
            request.table = self._table(request.workload, request.level)
            self._start(request)
            self._ends.append((request.end, request.serial, request))
        heapify(self._ends)

    def leave_youngest(self) -> Request:
        """Take out the request that came last, with what it has got."""
        youngest = max(self._ends, key=lambda entry: entry[1])
        self._ends.remove(youngest)
        heapify(self._ends)
        self._pause(youngest[2])
        return youngest[2]

    def clear(self) -> None:
        """Lose all of them."""
        self._ends.clear()
        self._kv_base = self.kv_rate = 0.0

    def held(self, steps: int = 0) -> float:
        """Tokens in the KV cache after so many further steps."""
        return self._kv_base + self.kv_rate * (self.step + steps)

    def progress(self, steps: int, at: float) -> list[Progress]:
        """How far each will be after so many further steps, the last of which ends at a time."""
        found = []
        for _, _, request in self._ends:
            taken = self.step + steps - request.started
            gained = min(request.need, self._draws.tokens(request.table, request.place, taken))
            drafted = request.drafted + taken * self.model.regimes[self._regime].draft_tokens
            found.append(Progress(request, at, request.steps + taken, request.produced - 1 + gained, drafted))
        return found

    def _start(self, request: Request) -> None:
        steps = self._draws.steps(request.table, request.place, request.need)
        request.started = self.step
        request.end = self.step + steps
        request.rate = request.need / steps
        self.kv_rate += request.rate
        self._kv_base += request.prompt_tokens + request.produced - request.rate * self.step

    def _stop(self, request: Request) -> int:
        """Take it out of the KV cache's books and settle its steps.

        Returns:
            Tokens that its steps gave, uncut.
        """
        self.kv_rate -= request.rate
        self._kv_base -= request.prompt_tokens + request.produced - request.rate * request.started
        steps = self.step - request.started
        gained = self._draws.tokens(request.table, request.place, steps)
        request.steps += steps
        if request.table is not None:
            request.drafted += steps * self.model.regimes[self._regime].draft_tokens
            request.accepted += gained - steps
        return gained

    def _pause(self, request: Request) -> None:
        """Settle what it has, so that it can go on under other terms."""
        gained = self._stop(request)
        request.place = (request.place + self.step - request.started) % self._draws.size
        request.produced += gained
        request.need -= gained

    def _table(self, workload: str, level: int) -> Table | None:
        tables = self._tables.get(workload)
        if tables is None:
            tables = self._tables[workload] = [True] * self._draws.levels
        found = tables[level]
        if isinstance(found, bool):
            curve = self.model.regimes[self._regime].survival[workload]
            found = tables[level] = self._draws.table(curve, self.model.spread, level)
        return found
