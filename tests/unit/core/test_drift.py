from __future__ import annotations

import random

import pytest

from gateway.core.drift import ALARM, Drift


def alarms(drift: Drift, *residuals: float) -> list[float]:
    return [jump for one in residuals if (jump := drift.step(one)) is not None]


def test_noise_raises_no_alarm() -> None:
    noise = random.Random(1)  # noqa: S311 - no secret
    assert alarms(Drift(0.15), *(noise.gauss(0.0, 0.15) for _ in range(2000))) == []


@pytest.mark.parametrize("jump", [0.9, -0.7])
def test_a_jump_is_noticed_within_a_few_residuals_and_its_size_told(jump: float) -> None:
    noise = random.Random(2)  # noqa: S311 - no secret
    drift = Drift(0.15)
    assert alarms(drift, *(noise.gauss(0.0, 0.15) for _ in range(50))) == []
    (found, *_) = alarms(drift, *(noise.gauss(jump, 0.15) for _ in range(4)))
    assert found == pytest.approx(jump, abs=0.2)


def test_the_count_starts_anew_after_an_alarm() -> None:
    drift = Drift(0.1)
    assert len(alarms(drift, 1.0, 1.0)) == 1
    assert alarms(drift, 0.0, 0.0, 0.0) == []


def test_noise_that_is_less_than_was_thought_makes_smaller_jumps_count() -> None:
    noise = random.Random(3)  # noqa: S311 - no secret
    drift = Drift(0.6)
    assert alarms(drift, *(noise.gauss(0.0, 0.1) for _ in range(1000))) == []
    assert alarms(drift, *(noise.gauss(0.5, 0.1) for _ in range(6)))
    assert not alarms(Drift(0.6), *(noise.gauss(0.5, 0.1) for _ in range(6)))


def test_one_outlier_is_no_change() -> None:
    assert alarms(Drift(0.1), 0.0, 5.0, 0.0, 0.0, 0.0) == []


def test_perfect_agreement_does_not_make_every_ripple_an_alarm() -> None:
    drift = Drift(0.15)
    assert alarms(drift, *[0.0] * 1000) == []
    assert alarms(drift, *[0.02] * 1000) == []


def test_a_sum_that_never_comes_back_to_zero_does_not_grow_in_memory() -> None:
    drift = Drift(1.0)
    for _ in range(3000):
        drift._high.add(1e-6, 0.75)
    assert 0.0 < drift._high.sum < ALARM
    assert len(drift._high.seen) < 1000
