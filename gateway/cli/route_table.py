"""What was routed where, how fast and with what gain: records added up and shown as a table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway.core.decide import Decision
from gateway.core.gain import MIN_REQUESTS, Cell, Gain, Speedup, Sums, TooFew, compare, decode_sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.outcome import Record


WIDTH = 132
"""Columns that a table needs."""

NOTES = (
    f"too few: less than {MIN_REQUESTS} requests' worth of decoding on one of the two sides",
    "tokens/s: of all streams together, over the whole run",
    "a second choice takes what the first has no room for, so it is less loaded and may look faster",
)

_NUMBERS = (
    "\nrequests", "\nshare", "TTFT p50\nms", "p99\nms", "TPOT\nms", "output\ntokens/s",
    "accepted\nlength", "acceptance\nrate", "speed-up over\nbaseline (95 %)",
)  # fmt: skip


class Routes:
    """Records of a stretch of traffic by (target, workload, backend)."""

    def __init__(self) -> None:
        self._gain = Gain()
        self._ttft: dict[Cell, list[float]] = defaultdict(list)
        self._started = float("inf")
        self._ended = 0.0

    def add(self, record: Record) -> None:
        """Count a request that came to a backend."""
        if not isinstance(record.decision, Decision) or not record.backend:
            return
        target, workload = record.decision.target, record.classification.label
        self._gain.add(record, target, workload, decode_sample(record))
        if record.outcome.ttft is not None:
            self._ttft[Cell(target, workload, record.backend)].append(record.outcome.ttft)
        self._started = min(self._started, record.started)
        self._ended = max(self._ended, record.ended)

    def tables(self) -> list[Table]:
        """For each target a table with a row for each workload and backend; baselines are dimmed."""
        cells = dict(self._gain.cells())
        return [
            self._table(target, {cell: sums for cell, sums in cells.items() if cell.target == target})
            for target in sorted({cell.target for cell in cells})
        ]

    def _table(self, target: str, cells: Mapping[Cell, Sums]) -> Table:
        table = Table(
            title=target,
            title_justify="left",
            title_style="bold",
            header_style="",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        for heading in ("\nworkload", "\nbackend"):
            table.add_column(heading, no_wrap=True)
        for heading in _NUMBERS:
            table.add_column(heading, justify="right", no_wrap=True)
        shown = ""
        for cell in sorted(cells, key=lambda cell: (cell.workload, -cells[cell].requests)):
            if shown and cell.workload != shown:
                table.add_section()
            style = "dim" if self._gain.is_baseline(cell) else ""
            head = "" if cell.workload == shown else cell.workload
            table.add_row(head, *self._row(cell, cells), style=style)
            shown = cell.workload
        return table

    def _row(self, cell: Cell, cells: Mapping[Cell, Sums]) -> list[str]:
        sums = cells[cell]
        group = sum(one.requests for other, one in cells.items() if other.workload == cell.workload)
        ttft = np.percentile(self._ttft[cell], (50, 99)) if self._ttft[cell] else (None, None)
        rate = sums.rate
        return [
            cell.backend,
            str(sums.requests),
            f"{sums.requests / group:.0%}",
            *(_number(None if value is None else value * 1e3, ".0f") for value in ttft),
            _number(1e3 / rate if rate else None, ".1f"),
            _number(sums.output_tokens / (self._ended - self._started), ".0f"),
            _number(sums.mean_accepted_length, ".2f"),
            _number(sums.acceptance_rate, ".0%"),
            "baseline" if self._gain.is_baseline(cell) else _speedup(self._gain.speedup(cell)),
        ]

    def totals(self) -> list[str]:
        """For each target, what its routed requests gained over its baseline, in words.

        A policy's baseline share is drawn at random from the same requests, so both sides saw the same mix.
        """
        lines = []
        cells = dict(self._gain.cells())
        for target in sorted({cell.target for cell in cells}):
            sides = {True: Sums(), False: Sums()}
            for cell, sums in cells.items():
                if cell.target == target:
                    side = self._gain.is_baseline(cell)
                    sides[side] = sides[side].plus(sums)
            told = compare(sides[False], sides[True])
            counts = f"{sides[False].requests} requests with a draft, {sides[True].requests} on the baseline"
            said = (
                f"a stream with a draft decodes {_speedup(told)} times as fast"
                if isinstance(told, Speedup)
                else f"too few to compare ({told})"
            )
            lines.append(f"{target}: {counts}; {said}")
        return lines


def _number(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def _speedup(told: Speedup | TooFew) -> str:
    if isinstance(told, Speedup):
        return f"{told.ratio:.2f} ({told.low:.2f}–{told.high:.2f})"
    return "too few"
