from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from gateway.core.agreement import ALARM, BLOCK, REFERENCE, Share, Watch, standard_errors

if TYPE_CHECKING:
    from numpy.random import Generator


def fed(watch: Watch, agreed: int, answers: int) -> Watch:
    """So many answers more, the agreeing ones first."""
    for number in range(answers):
        watch = watch.after(agreed=number < agreed)
    return watch


def drawn(watch: Watch, rate: float, answers: int, generator: Generator) -> Watch:
    for _ in range(answers):
        watch = watch.after(agreed=bool(generator.random() < rate))
    return watch


USUAL = fed(Watch(), 450, REFERENCE)


def test_the_first_answers_are_the_reference_and_no_alarm() -> None:
    watch = fed(Watch(), 10, REFERENCE - 1)
    assert (watch.reference, watch.last.rate, watch.fall, watch.drifted) == (
        Share(REFERENCE - 1, 10), None, 0.0, False,
    )  # fmt: skip
    assert Watch().reference.rate is None
    assert not Watch().drifted


def test_a_block_counts_once_it_is_full() -> None:
    watch = fed(USUAL, 0, BLOCK - 1)
    assert (watch.block, watch.drifted) == (Share(BLOCK - 1, 0), False)
    watch = watch.after(agreed=False)
    assert (watch.block, watch.last, watch.drifted) == (Share(), Share(BLOCK, 0), True)
    assert watch.reference == USUAL.reference


def test_an_alarm_ends_with_a_block_that_agrees_again() -> None:
    fallen = fed(USUAL, 120, BLOCK)
    assert fallen.drifted
    assert not fed(fallen, 175, BLOCK).drifted


def test_a_rise_and_a_small_fall_are_none() -> None:
    assert not fed(USUAL, BLOCK, BLOCK).drifted
    certain = Watch(Share(10**7, 9 * 10**6), last=Share(10**7, 87 * 10**5))
    assert certain.fall > ALARM
    assert not certain.drifted


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (Share(500, 450), Share(200, 180), 0.0),
        (Share(500, 500), Share(200, 200), 0.0),
        (Share(400, 360), Share(100, 80), 2.7524),  # 0.1 / sqrt(0.88 · 0.12 · (1/400 + 1/100))
        (Share(200, 100), Share(200, 120), -2.0101),
    ],
)
def test_the_fall_in_standard_errors(before: Share, now: Share, expected: float) -> None:
    assert standard_errors(before, now) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_where_nothing_changes_there_is_no_alarm(rate: float) -> None:
    generator = np.random.default_rng(1)
    alarms = 0
    for _ in range(20):
        watch = drawn(Watch(), rate, REFERENCE, generator)
        for _ in range(20):
            watch = drawn(watch, rate, BLOCK, generator)
            alarms += watch.drifted
    assert alarms == 0


@pytest.mark.parametrize(("before", "now"), [(0.95, 0.8), (0.8, 0.55)])
def test_a_change_is_noticed_by_the_first_full_block_nearly_always(before: float, now: float) -> None:
    generator = np.random.default_rng(1)
    noticed = sum(
        drawn(drawn(Watch(), before, REFERENCE, generator), now, BLOCK, generator).drifted for _ in range(50)
    )
    assert noticed >= 45


def test_slow_drift_is_noticed_too() -> None:
    generator = np.random.default_rng(1)
    watch = drawn(Watch(), 0.9, REFERENCE, generator)
    for step in range(20):
        watch = drawn(watch, 0.9 - 0.01 * step, BLOCK, generator)
    assert watch.drifted
