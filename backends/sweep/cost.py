"""What other draft lengths of a method can give, from those that were measured: survival and cost of a step.

A step with N drafts yields τ(N) = 1 + Σ s_i tokens, where s_i is the share of steps accepted up to position
i, and takes cost(N) steps of the baseline: speed-up = τ(N) / cost(N). How cost grows with N shows after two
lengths; before that a longer draft is at least not cheaper than a shorter one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sweep.stats import Interval

LEAST_COST: Final = 0.95
"""A step that drafts and verifies is not shorter than one of the baseline, but for noise."""

SLOPE_MARGIN: Final = 0.6
"""Share of the observed growth of the cost that is taken for granted."""

HOPE: Final = 1.02
"""Factor by which later drafts may be accepted more often than the last ones seen."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured draft length of a method under a condition.

    Attributes:
        draft_tokens: N, at least 1.
        survival: s_i by position, N values; empty where the server did not tell.
        speedup: Over the baseline, with bounds.
    """

    draft_tokens: int
    survival: tuple[float, ...]
    speedup: Interval

    @property
    def length(self) -> float | None:
        """Mean accepted length τ; None where it is not known."""
        return 1.0 + sum(self.survival) if self.survival else None

    @property
    def cost(self) -> float | None:
        """Steps of the baseline that one step takes."""
        return None if self.length is None else self.length / self.speedup.value

    @property
    def least_cost(self) -> float:
        """The lowest cost that its interval allows."""
        high = self.speedup.value if self.speedup.high is None else self.speedup.high
        return LEAST_COST if self.length is None else max(LEAST_COST, self.length / high)


@dataclass(frozen=True, slots=True)
class Fit:
    """cost(N) = fixed + each · N, by least squares."""

    fixed: float
    each: float

    def __call__(self, draft_tokens: float) -> float:
        """Cost of a step, in steps of the baseline."""
        return self.fixed + self.each * draft_tokens


def fit(points: Sequence[Point]) -> Fit | None:
    """The line through the measured costs; None from fewer than two lengths."""
    known = [(point.draft_tokens, cost) for point in points if (cost := point.cost) is not None]
    if len({tokens for tokens, _ in known}) < 2:
        return None
    tokens, costs = np.array(known).T
    each, fixed = np.polyfit(tokens, costs, 1).tolist()
    return Fit(fixed, each)


def length_at(points: Sequence[Point], draft_tokens: int) -> float | None:
    """Most likely τ of a draft length: survival of the nearest longer draft, or the last one carried on."""
    known = sorted((point for point in points if point.survival), key=lambda one: one.draft_tokens)
    if not known:
        return None
    longer = [point for point in known if point.draft_tokens >= draft_tokens]
    if longer:
        return 1.0 + sum(longer[0].survival[:draft_tokens])
    survival = known[-1].survival
    return 1.0 + sum(survival) + _tail(survival, draft_tokens - len(survival), _last_share(survival))


def predicted(points: Sequence[Point], draft_tokens: int) -> float | None:
    """Most likely speed-up of a draft length; None before two lengths are known."""
    line, length = fit(points), length_at(points, draft_tokens)
    return None if line is None or length is None else length / max(LEAST_COST, line(draft_tokens))


def most(points: Sequence[Point], draft_tokens: int) -> float | None:
    """The highest speed-up that a draft length can have by the measured ones; None if they do not tell.

    Generous on both sides: drafts as good as the best neighbours, steps as cheap as the intervals allow.
    """
    known = sorted((point for point in points if point.survival), key=lambda one: one.draft_tokens)
    if not known:
        return None
    lengths = []
    for point in known:
        if point.draft_tokens >= draft_tokens:
            lengths.append(1.0 + HOPE * sum(point.survival[:draft_tokens]))
        else:
            share = min(1.0, HOPE * _last_share(point.survival))
            more = _tail(point.survival, draft_tokens - point.draft_tokens, share)
            lengths.append(1.0 + HOPE * sum(point.survival) + more)
    shorter = [point for point in known if point.draft_tokens <= draft_tokens]
    cost = LEAST_COST
    if shorter:
        nearest = shorter[-1]
        growth = 0.0
        if (line := fit(known)) is not None:
            growth = max(0.0, SLOPE_MARGIN * line.each) * (draft_tokens - nearest.draft_tokens)
        cost = nearest.least_cost + growth
    return min(lengths) / cost


def _last_share(survival: Sequence[float]) -> float:
    """The better of the last two conditional acceptances: what later drafts may go on with."""
    before = (1.0, *survival)
    shares = [
        after / first for first, after in zip(before[-3:-1], survival[-2:], strict=False) if first > 0.0
    ]
    return max(shares, default=0.0)


def _tail(survival: Sequence[float], positions: int, share: float) -> float:
    """Σ s_i of further positions, each accepted with this share of the one before."""
    total, last = 0.0, survival[-1] if survival else 1.0
    for _ in range(positions):
        last *= share
        total += last
    return total


def late_share(survival: Sequence[float], position: int) -> float:
    """Share of all tokens that positions from this one on (counted from 1) bring."""
    return sum(survival[position - 1 :]) / (1.0 + sum(survival))
