"""Speed-ups of late: sums since the start less what they were an hour, or a day, ago."""

from __future__ import annotations

import operator
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from gateway.core.gain import Speedup, Sums, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gateway.core.gain import Cell, Gain

_WINDOWS: Final = (3600.0, 86_400.0)
"""Seconds. A busy route is judged by the first, one with too few requests in it by the second."""

_COPIES: Final = 12
"""Copies kept of a window's sums: it is so much longer at most than it should be."""

_FRESH: Final = 1.0
"""Seconds for which what was worked out is taken again: each collection asks three times."""


class Recent:
    """What speculation gains of late. Its copies are taken as it is read, so that requests pay nothing.

    Args:
        gain: Sums since the start; others feed it.
        now: Monotonic seconds.
    """

    def __init__(self, gain: Gain, now: Callable[[], float]) -> None:
        self._gain = gain
        self._now = now
        self._windows = [_Window(seconds) for seconds in _WINDOWS]
        self._lock = threading.Lock()  # Prometheus and the OTLP exporter read in threads of their own
        self._found: tuple[tuple[Cell, Speedup], ...] = ()
        self._found_at = float("-inf")

    def speedups(self) -> tuple[tuple[Cell, Speedup], ...]:
        """Every speed-up over a baseline that can be told, baselines themselves left out."""
        with self._lock:
            now = self._now()
            if now - self._found_at >= _FRESH:
                self._found, self._found_at = tuple(self._work_out(now)), now
            return self._found

    def _work_out(self, now: float) -> Iterator[tuple[Cell, Speedup]]:
        total = dict(self._gain.cells())
        recent = [window.less(total, now) for window in self._windows]
        baselines = [cell for cell in total if self._gain.is_baseline(cell)]
        for cell in total.keys() - set(baselines):
            for sums in recent:
                baseline = Sums()
                for other in baselines:
                    if (other.target, other.workload) == (cell.target, cell.workload):
                        baseline = baseline.plus(sums[other])
                found = compare(sums[cell], baseline)
                if isinstance(found, Speedup):
                    yield cell, found
                    break


class _Window:
    """Sums as they were, to be taken off those of now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._copies: deque[tuple[float, Mapping[Cell, Sums]]] = deque()

    def less(self, total: Mapping[Cell, Sums], now: float) -> dict[Cell, Sums]:
        """The sums of the window that ends now; of all there is while it is younger than that."""
        copies = self._copies
        if not copies or now - copies[-1][0] >= self._seconds / _COPIES:
            copies.append((now, total))
        while len(copies) > 1 and now - copies[1][0] >= self._seconds:
            copies.popleft()
        at, before = copies[0]
        if now - at < self._seconds:
            return dict(total)
        return {cell: _grown(sums, before.get(cell)) for cell, sums in total.items()}


def _grown(now: Sums, before: Sums | None) -> Sums:
    """What came since; all where the sums were begun anew, as those of a server are that was."""
    if before is None:
        return now
    grown = Sums(*map(operator.sub, now, before))
    return now if min(grown) < 0 else grown
