"""How many requests each backend had, for as long as anybody may ask."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

REMEMBERED: Final = 600.0
"""Seconds for which it is known; longer than almost all answers take."""

MOST: Final = 8192
"""Changes that are remembered of a backend at most."""


def _numbers() -> array[float]:
    return array("d")


@dataclass(slots=True)
class _History:
    """Times at which the number changed, the number since then, and the request-seconds before."""

    times: array[float] = field(default_factory=_numbers)
    counts: array[float] = field(default_factory=_numbers)
    areas: array[float] = field(default_factory=_numbers)

    def change(self, count: float, now: float) -> None:
        times, counts, areas = self.times, self.counts, self.areas
        areas.append(areas[-1] + counts[-1] * (now - times[-1]) if times else 0.0)
        times.append(now)
        counts.append(count)
        half = len(times) // 2
        if times[half] < now - REMEMBERED or len(times) > MOST:
            del times[:half], counts[:half], areas[:half]

    def place(self, at: float) -> int:
        return bisect_right(self.times, at) - 1

    def area(self, at: float) -> float:
        place = self.place(at)
        if place < 0:
            return self.areas[0] if self.areas else 0.0
        return self.areas[place] + self.counts[place] * (at - self.times[place])


class Occupancy:
    """In-flight counts by backend. One event loop owns it."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}

    def change(self, backend: str, count: float, now: float) -> None:
        """A backend has another number of requests from now on."""
        history = self._histories.get(backend)
        if history is None:
            history = self._histories[backend] = _History()
        history.change(count, now)

    def forget(self, backend: str) -> None:
        """A backend is gone."""
        self._histories.pop(backend, None)

    def mean(self, backend: str, since: float, until: float) -> float:
        """Mean number in a time, at least 1: whoever asks was there."""
        history = self._histories.get(backend)
        if history is None or until <= since:
            return 1.0
        return max(1.0, (history.area(until) - history.area(since)) / (until - since))
