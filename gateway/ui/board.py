"""What the page and ``specroute top`` show of the traffic, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gateway.core.gain import Speedup
from gateway.ui.samples import INTERVAL, KEPT, NOTHING, Cell, Sample, Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.core.fleet import Snapshot
    from gateway.core.gain import Cell as GainCell
    from gateway.core.gain import Gain

WINDOWS: Final = (60, 300, 900)
"""Seconds that people may ask for."""

_POINTS: Final = 90
"""Of a line over time; a narrow screen has no room for more."""

_LINES: Final = 8
"""Of a chart; more cannot be told apart."""

_RATIOS: Final = (
    ("speeds", "decode_tokens", "decode_time"),
    ("first_tokens", "first_token_time", "first_tokens"),
    ("acceptance", "accepted", "drafted"),
)
"""What is shown over time beside requests: sums of cells, one over the other."""

OTHERS: Final = "others"
"""Backends beyond those that have a line of their own."""


@dataclass(frozen=True, slots=True)
class Board:
    """Works out what is shown.

    Attributes:
        samples: Counters of the last minutes.
        gain: Sums since the start, for what all traffic gained.
        speedups: Gives those of late, as ``specroute_speedup`` has them: they need more requests than a
            minute has.
        snapshot: Gives the fleet as it is.
        open_requests: How many are open now.
        waiting: How many of them wait for a backend.
        clock: Monotonic seconds.
        unix: Seconds of the wall clock.
    """

    samples: Samples
    gain: Gain
    speedups: Callable[[], Iterable[tuple[GainCell, Speedup]]]
    snapshot: Callable[[], Snapshot]
    open_requests: Callable[[], int]
    waiting: Callable[[], int]
    clock: Callable[[], float]
    unix: Callable[[], float]

    def state(self, window: float = 300.0) -> dict[str, Any]:
        """The traffic of the last seconds.

        Args:
            window: How many; at most what samples go back.
        """
        now = self.clock()
        begin, end = self.samples.since(min(window, KEPT), now)
        seconds = max(now - begin.at, 1e-3)
        grown = {key: cell.minus(begin.cells.get(key, NOTHING)) for key, cell in end.cells.items()}
        total = _sum(grown.values())
        streams, waited = (now - then for now, then in zip(end.first_tokens, begin.first_tokens, strict=True))
        return {
            "window_seconds": round(seconds, 1),
            "totals": {
                "requests_per_second": _rounded(total.requests / seconds),
                "failed_share": _ratio(total.failed, total.requests),
                "open": self.open_requests(),
                "waiting": self.waiting(),
                "stream_speed": _ratio(total.decode_tokens, total.decode_time),
                "first_token": _ratio(total.first_token_time, total.first_tokens),
                "client_first_token": _ratio(waited, streams),
                "output_tokens_per_second": _rounded(total.output_tokens / seconds),
                "acceptance_rate": _ratio(total.accepted, total.drafted),
                **self._gains(),
            },
            "cells": self._cells(grown),
            "positions": self._positions(grown, begin.positions, end.positions),
        }

    def over_time(self) -> dict[str, Any]:
        """Each backend over the last minutes: requests/s, and the ratios of :data:`_RATIOS`.

        A ratio is None where no such request ended.
        """
        kept = self.samples.all()
        step = max(1, -(-len(kept) // _POINTS))
        kept = kept[::-step][::-1]
        offset = self.unix() - self.clock()
        names = [state.backend.name for state in self.snapshot().states]
        sums = [_by_backend(each, names) for each in kept]
        if len(names) > _LINES:
            requests = {name: sums[-1][name].requests - sums[0][name].requests for name in names}
            busiest = sorted(names, key=lambda name: -requests[name])[: _LINES - 1]
            for each in sums:
                each[OTHERS] = _sum(cell for name, cell in each.items() if name not in busiest)
            names = [*(name for name in names if name in busiest), OTHERS]
        spans = [max(later.at - sooner.at, 1e-3) for sooner, later in pairwise(kept)]
        grown = {name: [now[name].minus(then[name]) for then, now in pairwise(sums)] for name in names}
        return {
            "times": [round(each.at + offset, 1) for each in kept[1:]],
            "interval_seconds": INTERVAL * step,
            "backends": {
                name: [
                    _rounded(max(0.0, cell.requests) / span) for cell, span in zip(cells, spans, strict=True)
                ]
                for name, cells in grown.items()
            },
            **{
                shown: {
                    name: [_ratio(getattr(cell, over), getattr(cell, under)) for cell in cells]
                    for name, cells in grown.items()
                }
                for shown, over, under in _RATIOS
            },
        }

    def _cells(self, grown: dict[tuple[str, ...], Cell]) -> list[dict[str, Any]]:
        speedups = {(cell.workload, cell.backend): found for cell, found in self.speedups()}
        baselines = {
            (cell.workload, cell.backend) for cell, _ in self.gain.cells() if self.gain.is_baseline(cell)
        }
        cells = []
        for (workload, backend, method), cell in sorted(grown.items()):
            if not backend:
                continue
            place = (workload, backend)
            speedup = Speedup(1.0, 1.0, 1.0) if place in baselines else speedups.get(place)
            cells.append(
                {
                    "workload": workload,
                    "backend": backend,
                    "method": method,
                    "requests": int(cell.requests),
                    "failed": int(cell.failed),
                    "speed": _ratio(cell.decode_tokens, cell.decode_time),
                    "first_token": _ratio(cell.first_token_time, cell.first_tokens),
                    "speedup": _rounded(speedup.ratio) if speedup else None,
                    "speedup_low": _rounded(speedup.low) if speedup else None,
                    "speedup_high": _rounded(speedup.high) if speedup else None,
                    "acceptance_rate": _ratio(cell.accepted, cell.drafted),
                    "mean_accepted_length": _rounded(1.0 + cell.accepted / cell.steps)
                    if cell.steps
                    else None,
                }
            )
        return cells

    def _positions(
        self,
        grown: dict[tuple[str, ...], Cell],
        before: dict[tuple[str, int], float],
        after: dict[tuple[str, int], float],
    ) -> list[dict[str, Any]]:
        steps: dict[str, float] = {}
        for (_, name, _), cell in grown.items():
            steps[name] = steps.get(name, 0.0) + cell.steps
        shown = set(
            sorted((name for name in steps if steps[name] > 0), key=lambda name: -steps[name])[:_LINES]
        )
        rows = []
        for backend in (state.backend for state in self.snapshot().states):
            if backend.name not in shown:
                continue
            places = [(backend.name, at) for at in range(backend.draft_tokens)]
            accepted = [after.get(place, 0.0) - before.get(place, 0.0) for place in places]
            rows.append(
                {
                    "backend": backend.name,
                    "method": backend.method,
                    "draft_tokens": backend.draft_tokens,
                    "shares": [_rounded(count / steps[backend.name]) for count in accepted],
                }
            )
        return rows

    def _gains(self) -> dict[str, float | None]:
        """How much faster all traffic decoded than its baselines, and than each group's fastest backend.

        Groups without a measured baseline, or with one backend alone, are left out of either.
        """
        rated = [(cell, sums) for cell, sums in self.gain.cells() if sums.rate]
        plain: dict[tuple[str, str], float] = {}
        best: dict[tuple[str, str], float] = {}
        for cell, sums in rated:
            group, rate = (cell.target, cell.workload), sums.rate or 0.0
            if self.gain.is_baseline(cell):
                plain[group] = max(rate, plain.get(group, 0.0))
            if sums.effective >= _SURE:
                best[group] = max(rate, best.get(group, 0.0))

        def against(rates: dict[tuple[str, str], float]) -> float | None:
            took = would = 0.0
            for cell, sums in rated:
                if rate := rates.get((cell.target, cell.workload)):
                    took += sums.decode_seconds
                    would += sums.decode_tokens / rate
            return _ratio(would, took)

        return {"gain_over_baseline": against(plain), "gain_over_best": against(best)}


_SURE: Final = 5.0
"""Effective requests from which on a backend may be called the fastest."""


def _by_backend(sample: Sample, names: Iterable[str]) -> dict[str, Cell]:
    """The sums of each backend, over all its workloads."""
    found = dict.fromkeys(names, NOTHING)
    for (_, backend, _), cell in sample.cells.items():
        if backend in found:
            found[backend] = found[backend].plus(cell)
    return found


def _sum(cells: Iterable[Cell]) -> Cell:
    total = NOTHING
    for cell in cells:
        total = total.plus(cell)
    return total


def _ratio(over: float, under: float) -> float | None:
    return _rounded(over / under) if under > 0 else None


def _rounded(value: float) -> float:
    return round(value, 4)
