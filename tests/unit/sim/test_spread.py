from __future__ import annotations

import numpy as np
import pytest

from backends.sim.spread import thresholds


def test_thresholds_are_the_curve_itself_where_requests_do_not_differ() -> None:
    assert thresholds((0.8, 0.5), 0.0) == (0.8, 0.5)
    assert thresholds((), 0.2) == ()


def test_spread_of_requests_leaves_the_mean_by_position_where_it_was() -> None:
    survival = (0.97, 0.8, 0.6, 0.45, 0.3)
    limits = np.array(thresholds(survival, 0.2))
    factors = np.maximum(0.05, np.random.default_rng(1).normal(1.0, 0.2, 200_000))
    accepted = np.minimum(1.0, factors[:, None] * limits)
    steps = 1.0 / (1.0 + accepted.sum(axis=1))
    assert (accepted * steps[:, None]).sum(axis=0) / steps.sum() == pytest.approx(survival, abs=0.002)
    assert list(limits) == sorted(limits, reverse=True)
