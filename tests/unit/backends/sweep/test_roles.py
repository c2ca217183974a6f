from __future__ import annotations

import pytest

from backends.sweep.model import BASELINE
from backends.sweep.roles import Limit, Role, roles
from gateway.policy.evidence import Evidence, Range
from tests.unit.backends.sweep.test_choose import BASE, DFLASH, MTP, cell, evidence


def timed() -> Evidence:
    """Time per token grows with the load; MTP is the faster one alone, DFlash under load."""
    times = {
        BASELINE: {1: 0.020, 8: 0.022, 32: 0.030},
        MTP: {1: 0.008, 8: 0.012, 32: 0.040},
        DFLASH: {1: 0.010, 8: 0.011, 32: 0.015},
    }
    return evidence(
        *(
            cell(
                who,
                "chat",
                level * 200 / (200 * seconds) / BASE[level],
                level=level,
                tpot=Range(value=seconds),
            )
            for who, by in times.items()
            for level, seconds in by.items()
        )
    )


def test_the_configuration_that_needs_the_fewest_servers_is_kept_for_a_limit() -> None:
    (one,) = roles(timed(), [Limit("chat", 0.014, 20.0)])
    assert one.candidate == DFLASH
    # At batch n the limit still holds with 1.28 standard deviations more in flight.
    assert one.batch == 20
    assert one.each == pytest.approx(20 / 0.0130 / 200, rel=0.06)
    assert one.servers == 3


def test_a_tight_limit_takes_the_fastest_one_and_few_at_a_time() -> None:
    (one,) = roles(timed(), [Limit("chat", 0.009, 5.0)])
    assert (one.candidate, one.batch) == (MTP, 1)
    assert one.servers == 9


def test_a_limit_that_nothing_keeps_is_said_to_be_so() -> None:
    limits = [Limit("chat", 0.001, 1.0), Limit("poetry", 1.0, 1.0)]
    assert roles(timed(), limits) == [Role(limit, None, 0, 0, 0.0) for limit in limits]


def test_what_is_excluded_is_not_used() -> None:
    (one,) = roles(timed(), [Limit("chat", 0.014, 1.0)], {DFLASH})
    assert one.candidate == MTP
