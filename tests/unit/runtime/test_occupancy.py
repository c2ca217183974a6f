from __future__ import annotations

import pytest

from gateway.runtime.occupancy import MOST, REMEMBERED, Occupancy


def test_the_mean_is_over_time() -> None:
    occupancy = Occupancy()
    for count, at in ((1, 0.0), (3, 1.0), (2, 3.0)):
        occupancy.change("a", count, at)
    assert occupancy.mean("a", 0.0, 4.0) == pytest.approx((1 + 6 + 2) / 4)
    assert occupancy.mean("a", 1.5, 2.5) == 3.0


def test_who_asks_was_there() -> None:
    occupancy = Occupancy()
    assert occupancy.mean("a", 0.0, 1.0) == 1.0
    occupancy.change("a", 0, 0.0)
    assert occupancy.mean("a", 0.0, 1.0) == 1.0
    assert occupancy.mean("a", 1.0, 1.0) == 1.0


def test_old_changes_are_forgotten() -> None:
    occupancy = Occupancy()
    for at in range(5000):
        occupancy.change("a", at % 2, float(at))
    assert len(occupancy._histories["a"].times) < 2 * REMEMBERED + 10
    assert occupancy.mean("a", 4990.0, 4998.0) == 1.0
    occupancy.change("b", 3, 0.0)
    assert occupancy.mean("b", -5.0, 1.0) == 1.0
    occupancy.forget("a")
    assert "a" not in occupancy._histories


def test_many_changes_in_a_short_time_do_not_pile_up() -> None:
    occupancy = Occupancy()
    for number in range(3 * MOST):
        occupancy.change("a", 2.0, number / 1000)
        assert len(occupancy._histories["a"].times) <= MOST
    assert occupancy.mean("a", 3 * MOST / 1000 - 1.0, 3 * MOST / 1000) == pytest.approx(2.0)
