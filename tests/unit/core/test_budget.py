from __future__ import annotations

from gateway.core.budget import Budget, BudgetSettings

SETTINGS = BudgetSettings(share=0.2, per_second=2.0, burst=10)


def test_time_fills_it() -> None:
    assert Budget(0.0, at=5.0).filled(SETTINGS, 8.0) == Budget(6.0, at=8.0)


def test_requests_fill_it() -> None:
    assert Budget(1.0, at=5.0).filled(SETTINGS, 5.0, requests=5) == Budget(2.0, at=5.0)


def test_it_holds_no_more_than_its_burst() -> None:
    assert Budget(9.0, at=5.0).filled(SETTINGS, 50.0, requests=50) == Budget(10.0, at=50.0)


def test_an_attempt_takes_one() -> None:
    assert Budget(1.0, at=5.0).spent() == Budget(0.0, at=5.0)


def test_a_part_of_one_is_not_enough() -> None:
    assert Budget(1.0, at=0.0).allows
    assert not Budget(0.999, at=0.0).allows
