from __future__ import annotations

import pytest

from gateway.core.demand import Demand, together
from gateway.core.plan import Limits, Wanted

LIMITS = {"chat": Limits(tpot=0.02), "bulk": Limits()}


def test_rates_are_those_of_late_by_workload() -> None:
    demand = Demand()
    for tick in range(1200):
        demand.arrived("chat", {"code": 0.75, "math": 0.25}, tick * 0.1)
    (chat,) = demand.wanted(LIMITS, 120.0)
    assert chat.service == "chat"
    assert chat.limits is LIMITS["chat"]
    assert chat.rates == {"code": pytest.approx(7.5, rel=0.05), "math": pytest.approx(2.5, rel=0.05)}
    assert chat.in_flight == 1200.0


def test_in_the_first_seconds_only_what_has_passed_counts() -> None:
    demand = Demand()
    for tick in range(20):
        demand.arrived("chat", {"code": 1.0}, 50.0 + tick * 0.1)
    (chat,) = demand.wanted(LIMITS, 52.0)
    assert chat.rates["code"] == pytest.approx(10.0, rel=0.1)


def test_what_is_over_is_not_under_way() -> None:
    demand = Demand()
    demand.arrived("bulk", {"code": 1.0}, 0.0)
    demand.ended("bulk", 0.5)
    demand.ended("bulk", 0.5)
    (bulk,) = demand.wanted(LIMITS, 1.0)
    assert bulk.in_flight == 0.0


def test_old_demand_and_unknown_classes_are_left_out() -> None:
    demand = Demand()
    demand.arrived("bulk", {"code": 1.0}, 0.0)
    demand.arrived("other", {"code": 1.0}, 999.0)
    assert demand.wanted(LIMITS, 1000.0) == ()
    assert demand.wanted(LIMITS, 1000.0) == ()


def test_the_share_of_answers_that_kept_their_limits_is_told_once_there_are_enough() -> None:
    demand = Demand()
    for tick in range(40):
        demand.arrived("chat", {"code": 1.0}, float(tick) / 10)
        demand.ended("chat", float(tick) / 10, kept=tick % 4 != 0)
        (chat,) = demand.wanted(LIMITS, float(tick) / 10)
        assert (chat.kept is None) == (chat.answers < 20.0)
    assert chat.kept == pytest.approx(0.75, abs=0.02)
    assert chat.answers == pytest.approx(40.0, rel=0.1)


def test_answers_to_requests_from_before_a_change_of_roles_tell_nothing_of_the_new_ones() -> None:
    demand = Demand()

    def ended(since: int, *, kept: bool) -> float | None:
        for at in range(since, since + 50):
            demand.arrived("chat", {"code": 1.0}, float(at))
            demand.ended("chat", float(at), kept=kept)
        return demand.wanted(LIMITS, since + 50.0)[0].kept

    assert ended(0, kept=False) == 0.0
    demand.planned(50.0)
    assert ended(25, kept=False) is None
    assert ended(100, kept=True) == 1.0
    demand.planned(50.0)
    assert ended(150, kept=True) == 1.0, "the roles are the same"


def test_what_several_ask_for_adds_up_by_class() -> None:
    chat, bulk = Limits(tpot=0.02), Limits()
    parts = [
        (Wanted("chat", chat, {"code": 2.0}, 8.0, 0.9, 30.0), Wanted("bulk", bulk, {"math": 1.0}, 1.0)),
        (Wanted("chat", chat, {"code": 1.0, "math": 3.0}, 4.0, 0.6, 60.0),),
        (Wanted("chat", chat, {}, 1.0, None, 5.0),),
    ]
    assert together(parts) == (
        Wanted("chat", chat, {"code": 3.0, "math": 3.0}, 13.0, pytest.approx(0.7), 90.0),
        Wanted("bulk", bulk, {"math": 1.0}, 1.0),
    )
    assert together([]) == ()
