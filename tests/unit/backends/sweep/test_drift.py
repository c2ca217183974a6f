"""Intervals of servers whose speed drifts from round to round, and within a round."""

from __future__ import annotations

import numpy as np
import pytest

from backends.sweep.model import BASELINE, Candidate, Cell, Condition, Round
from backends.sweep.results import Results
from tests.unit.backends.sweep.making import sample

RATE, REQUESTS, TOKENS = 50.0, 16, 100
CONDITIONS = tuple(Condition(name, level) for name in ("code", "chat") for level in (1, 8, 32))
FAST = Candidate("mtp", 2)
SPEEDUP = 1.7


def swept(seed: int, *, drift: float, wander: float) -> Results:
    """The baseline in two rounds of each condition, a candidate in one to three.

    Args:
        drift: Standard deviation of a round's log speed: what its requests share.
        wander: Of the speed's change from one request to the next within a round.
    """
    rng = np.random.default_rng(seed)
    found = Results()
    for condition in CONDITIONS:
        for who, rounds, rate in ((BASELINE, 2, RATE), (FAST, int(rng.integers(1, 4)), RATE * SPEEDUP)):
            cell = Cell(who, condition)
            for number in range(rounds):
                shared = rng.normal(0.0, drift)
                walk = np.cumsum(rng.normal(0.0, wander, REQUESTS))
                own = rng.normal(0.0, 0.05, REQUESTS)
                speeds = rate * np.exp(shared + walk - walk.mean() + own)
                found.add(
                    Round(cell, number, 10.0),
                    [
                        sample(cell, place, tokens=TOKENS, seconds=TOKENS / speed, round=number)
                        for place, speed in enumerate(speeds.tolist())
                    ],
                )
    return found


@pytest.mark.parametrize(
    ("drift", "wander"), [(0.0, 0.0), (0.02, 0.0), (0.05, 0.0), (0.1, 0.0), (0.05, 0.02)]
)
def test_intervals_cover_the_truth_although_speed_drifts(drift: float, wander: float) -> None:
    rates, speedups = [], []
    for seed in range(60):
        found = swept(seed, drift=drift, wander=wander)
        for condition in CONDITIONS:
            fast = Cell(FAST, condition)
            rate, speedup = found.rate(fast), found.speedup(fast)
            assert rate is not None
            assert speedup is not None
            assert rate.low is not None
            assert rate.high is not None
            assert speedup.low is not None
            assert speedup.high is not None
            rates.append(rate.low <= RATE * SPEEDUP * condition.concurrency <= rate.high)
            speedups.append(speedup.low <= SPEEDUP <= speedup.high)
    assert np.mean(rates) >= 0.9
    assert np.mean(speedups) >= 0.9


def test_without_drift_an_interval_is_hardly_wider_for_it() -> None:
    widths = []
    for seed in range(30):
        found = swept(seed, drift=0.0, wander=0.0)
        for one in found.cells():
            whole = found.rate(one.cell)
            assert whole is not None
            assert one.rate is not None
            widths.append(whole.half_width / one.rate.half_width)
    assert np.mean(widths) < 1.25
