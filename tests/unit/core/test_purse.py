from __future__ import annotations

import random

from gateway.core.purse import BURST, DEBT, Purse

MATH, CHAT = ("model", "math"), ("model", "chat")


def spend(
    purse: Purse, *, explored: bool = False, baseline: bool = False, pays: bool = True, **given: float
) -> None:
    cost, lost = given.get("cost", 5.0), given.get("lost", 0.0)
    share, floor = given.get("share", 0.03), given.get("floor", 0.0)
    purse.decided(MATH, share, floor, explored=explored, baseline=baseline, pays=pays, cost=cost, lost=lost)


def test_budget_is_earned_by_requests_and_saved_up_to_a_limit() -> None:
    purse = Purse()
    assert purse.explorable() == frozenset()
    for _ in range(35):
        spend(purse)
    assert purse.explorable() == {MATH}
    for _ in range(1000):
        spend(purse)
    explored = 0
    while MATH in purse.explorable():
        spend(purse, explored=True)
        explored += 1
    assert explored <= BURST + 1
    assert (purse.explored, purse.requests) == (explored, 1035 + explored)


def test_in_any_stretch_the_share_holds() -> None:
    purse, draws = Purse(), random.Random(3)  # noqa: S311 - no secret
    history = []
    for _ in range(3000):
        explores = MATH in purse.explorable() and draws.random() < 0.5
        spend(purse, explored=explores)
        history.append(explores)
    for length in (50, 200, 1000):
        for start in range(0, 3000 - length, 37):
            assert sum(history[start : start + length]) <= 0.03 * length + BURST


def test_what_exploration_loses_is_bounded_too() -> None:
    purse = Purse()
    for _ in range(200):
        spend(purse)
    assert purse.explorable() == {MATH}
    spend(purse, explored=True, lost=100.0)
    assert purse.explorable() == frozenset()
    for _ in range(3000):
        spend(purse)
    assert purse.explorable() == {MATH}


def test_what_was_not_lost_after_all_may_be_lost_again() -> None:
    purse = Purse()
    for _ in range(200):
        spend(purse)
    spend(purse, explored=True, lost=100.0)
    assert purse.explorable() == frozenset()
    purse.save(MATH, 99.0)
    assert purse.explorable() == {MATH}


def test_no_workload_pays_for_another() -> None:
    purse = Purse()
    for _ in range(200):
        spend(purse)
        purse.decided(CHAT, 0.03, 0.0, explored=False, baseline=False, pays=True, cost=5.0, lost=0.0)
    purse.decided(CHAT, 0.03, 0.0, explored=True, baseline=False, pays=True, cost=5.0, lost=1000.0)
    assert purse.explorable() == {MATH}


def test_a_baseline_is_due_when_its_floor_is_missed() -> None:
    purse = Purse()
    for _ in range(int(DEBT / 0.01) + 1):
        spend(purse, floor=0.01)
    assert purse.due() == {MATH}
    spend(purse, floor=0.01, baseline=True)
    assert purse.due() == frozenset()


def test_what_was_not_paid_for_long_is_not_paid_at_once() -> None:
    purse = Purse()
    for _ in range(10_000):
        spend(purse, floor=0.01)
    paid = 0
    for _ in range(1000):
        due = MATH in purse.due()
        spend(purse, floor=0.01, baseline=due)
        paid += due
    assert 10 <= paid <= 10 + DEBT


def test_who_cannot_pay_owes_nothing() -> None:
    purse = Purse()
    for _ in range(10_000):
        spend(purse, floor=0.01, pays=False)
        spend(purse, floor=0.01, pays=False, baseline=True)
    assert purse.due() == frozenset()
    for _ in range(int(DEBT / 0.01) + 1):
        spend(purse, floor=0.01)
    assert purse.due() == {MATH}


def test_no_target_pays_for_another() -> None:
    purse, other = Purse(), ("other model", "math")
    for _ in range(1000):
        spend(purse, floor=0.01, baseline=True)
        purse.decided(other, 0.0, 0.01, explored=False, baseline=False, pays=True, cost=1.0, lost=0.0)
    assert purse.due() == {other}
    assert purse.explorable() == {MATH}
