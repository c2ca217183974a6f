"""Notices that what was learnt no longer holds: a two-sided cumulative sum of residuals (Page, 1954)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Final

SLACK: Final = 0.75
"""Standard deviations by which a residual may be off without counting."""

ALARM: Final = 8.0
"""Sum of what exceeds the slack, in standard deviations, that raises the alarm."""

_MOST: Final = 6.0
"""Standard deviations that one residual counts at most: one outlier is no change."""

_ADAPT: Final = 0.02
"""Share of each new residual in the estimate of their spread."""

_LEAST: Final = 0.03
"""Smallest spread that is believed in, so that perfect agreement does not make every ripple an alarm."""

_REMEMBERED: Final = 256
"""Latest residuals that tell the size of a change. A sum just above zero may stay there for ever."""


@dataclass(slots=True)
class _Side:
    """Residuals in one direction since their sum was last zero."""

    sum: float = 0.0
    seen: deque[float] = field(default_factory=partial(deque, maxlen=_REMEMBERED))

    def add(self, excess: float, residual: float) -> bool:
        self.sum = max(0.0, self.sum + excess)
        if self.sum:
            self.seen.append(residual)
        else:
            self.seen.clear()
        return self.sum > ALARM


@dataclass(slots=True)
class Drift:
    """Residuals of one quantity, in logarithms.

    Attributes:
        spread: Their standard deviation when all is as before.
    """

    spread: float
    _high: _Side = field(default_factory=_Side)
    _low: _Side = field(default_factory=_Side)

    def step(self, residual: float) -> float | None:
        """Take in a residual.

        Returns:
            The size of the change, once there is an alarm; the count starts anew then.
        """
        scaled = max(-_MOST, min(_MOST, residual / self.spread))
        sides = (self._high, scaled), (self._low, -scaled)
        alarmed = [side for side, off in sides if side.add(off - SLACK, residual)]
        if alarmed:
            # Some of them are from before the change; the larger half is not.
            seen = sorted(alarmed[0].seen, key=abs)
            self._high, self._low = _Side(), _Side()
            return fmean(seen[len(seen) // 2 :])
        usual = min(abs(residual), 3.0 * self.spread)
        self.spread = max(_LEAST, math.sqrt((1.0 - _ADAPT) * self.spread**2 + _ADAPT * usual**2))
        return None
