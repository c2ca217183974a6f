from __future__ import annotations

import pytest

from backends.sweep.cost import Point, fit, late_share, length_at, most, predicted
from backends.sweep.stats import Interval


def point(tokens: int, cost: float, share: float = 0.8, *, spread: float = 1.02) -> Point:
    """Drafts of which each is accepted with the same probability, at a known cost."""
    survival = tuple(share**place for place in range(1, tokens + 1))
    value = (1 + sum(survival)) / cost
    return Point(tokens, survival, Interval(value, value / spread, value * spread))


def test_the_cost_of_a_step_is_length_over_speed_up() -> None:
    one = point(3, 1.5)
    assert one.cost == pytest.approx(1.5)
    assert one.least_cost == pytest.approx(1.5 / 1.02)
    assert Point(1, (0.8,), Interval(1.2)).least_cost == pytest.approx(1.5)
    blind = Point(3, (), Interval(2.0, 1.9, 2.1))
    assert (blind.length, blind.cost, blind.least_cost) == (None, None, 0.95)


def test_two_lengths_show_how_cost_grows() -> None:
    assert fit([point(3, 1.5)]) is None
    assert fit([point(3, 1.5), Point(5, (), Interval(2.0))]) is None
    line = fit([point(3, 1.5), point(7, 2.5)])
    assert line is not None
    assert (line.fixed, line.each) == pytest.approx((0.75, 0.25))
    assert line(5) == pytest.approx(2.0)


def test_a_length_between_is_predicted_from_the_longer_survival_and_the_line() -> None:
    known = [point(3, 1.5), point(7, 2.5)]
    assert length_at(known, 5) == pytest.approx(1 + sum(0.8**place for place in range(1, 6)))
    assert predicted(known, 5) == pytest.approx(length_at(known, 5) / 2.0)
    assert length_at(known, 9) == pytest.approx(1 + sum(0.8**place for place in range(1, 10)))
    assert length_at([], 5) is None
    assert predicted([point(3, 1.5)], 5) is None


@pytest.mark.parametrize("tokens", [1, 2, 4, 5, 7, 11, 15])
@pytest.mark.parametrize("share", [0.4, 0.8, 0.95])
def test_no_length_does_better_than_the_most_it_can(tokens: int, share: float) -> None:
    known = [point(3, 1.0 + 3 * 0.15, share), point(6, 1.0 + 6 * 0.15, share)]
    truth = point(tokens, 1.0 + tokens * 0.15, share).speedup.value
    bound = most(known, tokens)
    assert bound is not None
    assert truth <= bound


def test_the_most_falls_once_later_drafts_bring_nothing() -> None:
    known = [point(3, 1.6, 0.3), point(5, 2.1, 0.3)]
    bounds = [most(known, tokens) for tokens in (7, 11, 15)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] is not None
    assert bounds[-1] < 0.6
    assert most([], 3) is None
    assert most([Point(3, (), Interval(2.0))], 5) is None


def test_drafts_that_are_never_accepted_add_nothing() -> None:
    dead = Point(3, (0.5, 0.0, 0.0), Interval(1.2, 1.1, 1.3))
    assert length_at([dead], 9) == 1.5


def test_late_positions_have_a_share_of_the_tokens() -> None:
    assert late_share((0.5, 0.25, 0.25), 2) == pytest.approx(0.25)
    assert late_share((0.5,), 4) == 0.0
