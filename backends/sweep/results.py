"""All that a sweep measured, by cell."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from backends.sweep.agreement import agreement
from backends.sweep.model import BASELINE, Cell
from backends.sweep.stats import Scatter, measured, scatter, speedup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backends.sweep.agreement import Agreement
    from backends.sweep.model import Round, Sample
    from backends.sweep.stats import Interval, Measured


class Results:
    """All samples of a sweep, summed up by cell when asked. Has one owner, who adds to it."""

    def __init__(self) -> None:
        self._samples: dict[Cell, list[Sample]] = defaultdict(list)
        self._rounds: dict[Cell, list[Round]] = defaultdict(list)
        self._measured: dict[Cell, Measured] = {}
        self._scatter: dict[Cell, Scatter] = {}
        self._drift: Scatter | None = None

    def add(self, finished: Round, samples: Iterable[Sample]) -> None:
        """Take in a round and its samples."""
        self._rounds[finished.cell].append(finished)
        self._samples[finished.cell] += samples
        self._measured.pop(finished.cell, None)
        self._scatter.pop(finished.cell, None)
        self._drift = None

    def get(self, cell: Cell) -> Measured | None:
        """A cell, None before its first round."""
        if cell not in self._rounds:
            return None
        if cell not in self._measured:
            self._measured[cell] = measured(cell, self._samples[cell], self._rounds[cell])
        return self._measured[cell]

    def baseline(self, cell: Cell) -> Measured | None:
        """The baseline under a cell's condition."""
        return self.get(Cell(BASELINE, cell.condition))

    def rate(self, cell: Cell) -> Interval | None:
        """Output tokens/s of a cell, the drift between rounds in its interval; None without a request."""
        own = self.get(cell)
        return None if own is None or own.rate is None else self._drifting(own.rate, own)

    def tpot(self, cell: Cell) -> Interval | None:
        """Seconds a token of one stream, with the same drift; None where no request is long enough."""
        own = self.get(cell)
        return None if own is None or own.tpot is None else self._drifting(own.tpot, own)

    def speedup(self, cell: Cell) -> Interval | None:
        """Speed-up of a cell, the drift between rounds in its interval; None before there is one."""
        own, baseline = self.get(cell), self.baseline(cell)
        found = None if own is None else speedup(own, baseline)
        if found is None or own is None or baseline is None or cell.candidate.is_baseline:
            return found
        return self._drifting(found, own, baseline)

    def _drifting(self, found: Interval, *cells: Measured) -> Interval:
        """What follows from cells, widened by what their rounds differ by beyond their requests' spread."""
        drift = self.drift()
        return found.widened(drift.excess * sum(1.0 / one.rounds for one in cells), drift.freedom)

    def drift(self) -> Scatter:
        """How much rounds differ, from all cells with several.

        What the requests of a round share (clocks, other programs, a server's state) is not in their spread.
        """
        if self._drift is not None:
            return self._drift
        total = Scatter()
        for cell, rounds in self._rounds.items():
            if len(rounds) > 1:
                if cell not in self._scatter:
                    self._scatter[cell] = scatter(self._samples[cell])
                total = total.plus(self._scatter[cell])
        self._drift = total
        return total

    def agreement(self, cell: Cell) -> Agreement | None:
        """Whether a cell's greedy texts are the baseline's; None before there is one."""
        own = self.get(cell)
        return None if own is None else agreement(own, self.baseline(cell))

    def cells(self) -> tuple[Measured, ...]:
        """All cells that were measured."""
        found = (self.get(cell) for cell in tuple(self._rounds))
        return tuple(one for one in found if one is not None)

    def rounds(self, cell: Cell) -> int:
        """Rounds that a cell has."""
        return len(self._rounds.get(cell, ()))

    def next_number(self, cell: Cell) -> int:
        """What its next round is called: one more than the last, for some may have been lost."""
        return max((one.number for one in self._rounds.get(cell, ())), default=-1) + 1

    @property
    def total_rounds(self) -> int:
        """Rounds of all cells."""
        return sum(map(len, self._rounds.values()))

    @property
    def requests(self) -> int:
        """Requests made, those that do not count included."""
        return sum(map(len, self._samples.values()))

    @property
    def seconds(self) -> float:
        """Time that the rounds took."""
        return sum(one.seconds for rounds in self._rounds.values() for one in rounds)
