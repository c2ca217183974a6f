"""Which measurement comes next: climbs draft lengths, drops what cannot win, spends on close pairs.

All that a plan knows is in the results, so a sweep that was interrupted goes on where it was. A server is
started for one candidate at a time and asked for round after round until the plan has no more for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from backends.sweep.cost import Point, most, predicted
from backends.sweep.model import BASELINE, Candidate, Cell, Condition
from backends.sweep.stats import may_exceed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from backends.sweep.results import Results
    from backends.sweep.stats import Interval

DRIFT_ROUNDS: Final = 2
"""Rounds of the baseline at least: how far they differ tells how far speed drifts."""


@dataclass(frozen=True, slots=True)
class Family:
    """The draft lengths of one method.

    Attributes:
        start: N to begin with.
        lengths: N to try, ascending.
        between: N that may be tried besides, where the others say it is worth it.
    """

    method: str
    start: int
    lengths: tuple[int, ...]
    between: tuple[int, ...] = ()

    def climb(self) -> Iterator[Candidate]:
        """Its candidates: the first one, the longer ones upwards, then the shorter ones downwards."""
        for tokens in sorted(self.lengths, key=lambda one: (one < self.start, abs(one - self.start))):
            yield Candidate(self.method, tokens)


@dataclass(frozen=True, slots=True)
class Settings:
    """How exact a sweep is.

    Attributes:
        precision: Relative half-width of an interval that is narrow enough; smaller differences do not count.
        requests: Requests of a round, at least; twice the concurrency if that is more.
        rounds: Rounds of a cell at most.
    """

    precision: float = 0.03
    requests: int = 16
    rounds: int = 12

    def of_round(self, condition: Condition) -> int:
        """Requests of one round that count."""
        return max(self.requests, condition.concurrency)


@dataclass
class Plan:
    """The next measurement of a sweep. Reads results, changes nothing.

    Attributes:
        conditions: Under which candidates are compared.
        families: Methods with their draft lengths.
        results: Filled by whoever measures.
        failed: Candidates whose server cannot be had, or cells that cannot be measured.
        exhaustive: Measure everything until it is exact: the full grid, for comparison.
    """

    conditions: Sequence[Condition]
    families: Sequence[Family]
    results: Results
    settings: Settings = field(default_factory=Settings)
    failed: set[Candidate | Cell] = field(default_factory=set)
    exhaustive: bool = False

    def candidates(self) -> list[Candidate]:
        """All candidates in the order in which they are first visited."""
        climbs = [list(family.climb()) for family in self.families]
        starts = [climb[0] for climb in climbs]
        return [BASELINE, *starts, *(one for climb in climbs for one in climb[1:]), *self._worth_it()]

    def visit(self) -> Candidate | None:
        """Whose server is needed next; None when the sweep is done."""
        waiting = [one for one in self.candidates() if self.next_round(one) is not None]
        if BASELINE in waiting and not all(self.results.get(Cell(BASELINE, one)) for one in self.conditions):
            return BASELINE
        # A candidate that was never measured may end the need to look at others more closely.
        fresh = [one for one in waiting if not self._seen(one)]
        return next(iter((*fresh, *waiting)), None)

    def next_round(self, candidate: Candidate) -> Condition | None:
        """Under which condition a candidate is measured next; None when it is done for now."""
        if candidate in self.failed:
            return None
        return next((one for one in self.conditions if self.wanted(Cell(candidate, one))), None)

    def wanted(self, cell: Cell) -> bool:
        """Whether a cell is worth another round."""
        if cell in self.failed or cell.candidate in self.failed:
            return False
        measured = self.results.get(cell)
        if measured is not None and (measured.rounds >= self.settings.rounds or not measured.requests):
            return False
        baseline = self.results.baseline(cell)
        lost = BASELINE in self.failed or Cell(BASELINE, cell.condition) in self.failed
        if (baseline is None and lost) or (baseline is not None and not baseline.requests):
            return False  # without a baseline there is nothing to compare with
        if cell.candidate.is_baseline or self.exhaustive:
            return not self._exact(cell)
        if measured is None:
            return not self.hopeless(cell) or self._leads(cell.candidate, cell.condition)
        return not self._exact(cell) and self._in_question(cell)

    def hopeless(self, cell: Cell) -> bool:
        """Whether an unmeasured cell cannot win, at 95 % confidence, by its method's other lengths."""
        best = self.best(cell.condition)
        points = self.points(cell.candidate.method, cell.condition)
        bound = most(points, cell.candidate.draft_tokens)
        if best is None or best[1].low is None or bound is None:
            return False
        return bound < best[1].low

    def best(self, condition: Condition) -> tuple[Candidate, Interval] | None:
        """The fastest candidate under a condition so far, the baseline included; None without one."""
        found = [
            (candidate, interval)
            for candidate in self._measured(condition)
            if (interval := self.results.speedup(Cell(candidate, condition))) is not None
        ]
        return max(found, key=lambda one: one[1].value, default=None)

    def points(self, method: str, condition: Condition) -> list[Point]:
        """What is known of a method's draft lengths under a condition."""
        points = []
        for candidate in self._measured(condition):
            cell = Cell(candidate, condition)
            measured, speedup = self.results.get(cell), self.results.speedup(cell)
            if candidate.method == method and measured is not None and speedup is not None:
                points.append(Point(candidate.draft_tokens, measured.survival, speedup))
        return points

    def grid_rounds(self) -> float:
        """Rounds of the full grid: every cell until it is exact, by the spread of those measured."""
        needed = [self._rounds_to_exact(one.cell) for one in self.results.cells() if one.requests]
        each = sum(needed) / len(needed) if needed else 1.0
        cells = [Cell(one, condition) for one in self.candidates() for condition in self.conditions]
        possible = [cell for cell in cells if cell not in self.failed and cell.candidate not in self.failed]
        unmeasured = len(possible) - sum(self.results.get(cell) is not None for cell in possible)
        return sum(needed) + each * max(0, unmeasured)

    def _rounds_to_exact(self, cell: Cell) -> float:
        measured, speedup, rate = self.results.get(cell), self.results.speedup(cell), self.results.rate(cell)
        if measured is None or speedup is None or rate is None:
            return 1.0
        width = 2.0 * rate.half_width if cell.candidate.is_baseline else speedup.half_width
        wanted = measured.rounds * (width / self.settings.precision) ** 2
        if not math.isfinite(wanted):
            return float(self.settings.rounds)
        return float(min(self.settings.rounds, max(1, math.ceil(wanted))))

    def left_rounds(self) -> int:
        """Rounds that are surely still to come: one for each cell that now wants one."""
        return sum(
            self.wanted(Cell(one, condition)) for one in self.candidates() for condition in self.conditions
        )

    def _measured(self, condition: Condition) -> Iterable[Candidate]:
        return (one.cell.candidate for one in self.results.cells() if one.cell.condition == condition)

    def _seen(self, candidate: Candidate) -> bool:
        return any(self.results.get(Cell(candidate, one)) is not None for one in self.conditions)

    def _exact(self, cell: Cell) -> bool:
        measured = self.results.get(cell)
        if measured is None:
            return False
        if cell.candidate.is_baseline:
            # Both sides of a speed-up add to its width; the baseline is in all of them. Its rounds also tell
            # how far speed drifts between rounds, which one round alone cannot.
            rate = self.results.rate(cell)
            enough = measured.rounds >= min(DRIFT_ROUNDS, self.settings.rounds)
            return enough and rate is not None and rate.half_width <= self.settings.precision / 2.0
        found = self.results.speedup(cell)
        return found is not None and found.half_width <= self.settings.precision

    def _leads(self, candidate: Candidate, condition: Condition) -> bool:
        """Whether a candidate is the best for other work: it may be the one to serve all of it."""
        return any(
            (best := self.best(one)) is not None and best[0] == candidate
            for one in self.conditions
            if one.concurrency == condition.concurrency
        )

    def _in_question(self, cell: Cell) -> bool:
        """Whether another round of a measured cell can change the choice, by more than noise."""
        best, own = self.best(cell.condition), self.results.speedup(cell)
        if best is None or own is None:
            return True
        if best[0] != cell.candidate:
            return may_exceed(own, best[1], self.settings.precision)
        rivals = (
            self.results.speedup(Cell(one, cell.condition))
            for one in self._measured(cell.condition)
            if one != cell.candidate
        )
        return any(one is not None and may_exceed(one, own, self.settings.precision) for one in rivals)

    def _worth_it(self) -> Iterator[Candidate]:
        """Draft lengths between those of a family that promise more than noise over the best measured one."""
        margin = math.exp(self.settings.precision)
        for family in self.families:
            for tokens in family.between:
                candidate = Candidate(family.method, tokens)
                if self._seen(candidate) or any(
                    self._promises(candidate, one, margin) for one in self.conditions
                ):
                    yield candidate

    def _promises(self, candidate: Candidate, condition: Condition, margin: float) -> bool:
        best = self.best(condition)
        expected = predicted(self.points(candidate.method, condition), candidate.draft_tokens)
        return best is not None and expected is not None and expected > best[1].value * margin


def families(
    starts: Mapping[str, int], lengths: Mapping[str, Sequence[int]], legal: Mapping[str, Sequence[int]]
) -> tuple[Family, ...]:
    """The families of a sweep; what is legal and not among the lengths lies between."""
    return tuple(
        Family(
            method,
            starts[method]
            if starts[method] in tried
            else min(tried, key=lambda one: abs(one - starts[method])),
            tuple(sorted(tried)),
            tuple(
                one
                for one in sorted(legal.get(method, ()))
                if min(tried) < one < max(tried) and one not in tried
            ),
        )
        for method, tried in lengths.items()
    )
