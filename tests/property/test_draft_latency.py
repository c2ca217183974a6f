"""Whatever servers count, an estimate of their drafts is a number in its interval, or none."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.counters import Counters
from gateway.core.draft_latency import StepTimes, StepWindow, estimates, window

BASELINE = StepTimes()
for batch in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
    for _ in range(10):
        BASELINE.add(StepWindow(batch, 0.02 + 2e-4 * batch, 1.0, 0.0))

_COUNT = st.none() | st.floats(0.0, 1e308) | st.floats(0.0, 1e4)


@given(st.lists(st.tuples(*[_COUNT] * 6), min_size=2, max_size=40), st.floats(1e-6, 1e6))
def test_whatever_a_server_counts_an_estimate_is_a_number_or_none(
    pages: list[tuple[float | None, ...]], apart: float
) -> None:
    names = ("drafts", "drafted", "steps", "step_seconds", "iterations", "computed")
    counted = [
        Counters(place * apart, **dict(zip(names, page, strict=True))) for place, page in enumerate(pages)
    ]
    times = StepTimes()
    for before, after in pairwise(counted):
        if (found := window(before, after)) is not None:
            for _ in range(10):
                times.add(found)
    for baseline in (BASELINE, times):
        for one in estimates(times, [baseline]):
            told = [value for value in one if value is not None]
            assert all(isfinite(value) and value >= 0.0 for value in told)
            if one.seconds is not None:
                assert one.high is not None
                assert one.low <= one.seconds <= one.high
