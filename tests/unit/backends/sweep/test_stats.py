from __future__ import annotations

import math

import numpy as np
import pytest

from backends.sweep.agreement import Agreement, agreement
from backends.sweep.model import BASELINE, Cell, Condition, Round
from backends.sweep.results import Results
from backends.sweep.stats import Interval, measured, percentile, ratio
from tests.unit.backends.sweep.making import CODE, MTP2, measured_round, results, sample

FAST = Cell(MTP2, CODE)
SLOW = Cell(BASELINE, CODE)


def test_the_rate_of_a_closed_loop_is_that_of_all_its_clients() -> None:
    found = results(measured_round(rate=50.0)).get(SLOW)
    assert found is not None
    rate = found.rate
    assert rate is not None
    assert rate.value == pytest.approx(8 * 50.0)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 8 * 50.0 < rate.high


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        lengths = rng.lognormal(5, 0.5, 24)
        speeds = rng.normal(1.0, 0.2, 24)
        one = [
            sample(SLOW, place, tokens=max(20, round(length)), seconds=length / (50.0 * max(0.3, speed)))
            for place, (length, speed) in enumerate(zip(lengths, speeds, strict=True))
        ]
        rate = measured(SLOW, one).rate
        assert rate is not None
        assert rate.low is not None
        assert rate.high is not None
        true = 8 * 50.0 / np.mean(1.0 / np.maximum(0.3, rng.normal(1.0, 0.2, 20_000)))
        covered += rate.low <= true <= rate.high
    assert 0.90 <= covered / 400 <= 0.99


def test_the_width_of_an_interval_is_that_of_its_logarithm() -> None:
    assert Interval(2.0, 1.0, 4.0).half_width == pytest.approx(math.log(2.0))
    for unknown in (Interval(2.0), Interval(2.0, 0.0, 4.0), Interval(2.0, 1.0)):
        assert math.isinf(unknown.half_width)


def test_a_speed_up_is_over_the_baseline_of_the_same_condition() -> None:
    found = results(
        measured_round(rate=50.0),
        measured_round(MTP2, rate=100.0),
        measured_round(condition=Condition("chat", 8), rate=10.0),
    )
    speedup = found.speedup(FAST)
    assert speedup is not None
    assert speedup.value == pytest.approx(2.0)
    assert speedup.low is not None
    assert speedup.low < 2.0
    assert found.speedup(SLOW) == Interval(1.0, 1.0, 1.0)
    assert results(measured_round(MTP2)).speedup(FAST) is None
    assert Results().speedup(FAST) is None


def test_what_the_requests_of_a_round_share_widens_the_interval() -> None:
    steady = results(measured_round(), measured_round(number=1), measured_round(MTP2, rate=100.0))
    moody = results(
        measured_round(rate=45.0), measured_round(rate=55.0, number=1), measured_round(MTP2, rate=100.0)
    )
    assert steady.drift().excess == 0.0
    between = np.var(np.log([45.0, 55.0]), ddof=1)
    assert moody.drift().excess == pytest.approx(between, rel=0.05)
    calm, wide = steady.speedup(FAST), moody.speedup(FAST)
    assert calm is not None
    assert wide is not None
    # One round of it and two of the baseline: 1.96 standard deviations of a round and a half.
    assert wide.half_width > 1.9 * np.sqrt(1.5 * between)
    assert calm.half_width < 0.05
    assert moody.speedup(SLOW) == Interval(1.0, 1.0, 1.0)
    assert results(measured_round(rate=45.0)).drift().excess == 0.0


def test_too_few_requests_give_a_value_without_bounds() -> None:
    found = results(measured_round(requests=3), measured_round(MTP2, rate=100.0, requests=3))
    speedup = found.speedup(FAST)
    assert speedup is not None
    assert (round(speedup.value, 6), speedup.low, speedup.high) == (2.0, None, None)
    assert math.isinf(speedup.half_width)
    cell = found.get(FAST)
    assert cell is not None
    assert cell.rate is not None
    assert cell.rate.low is None


def test_only_requests_that_count_and_went_well_are_in_the_rate() -> None:
    finished, samples = measured_round(rate=50.0)
    samples.append(sample(SLOW, 90, seconds=900.0, measured=False))
    samples.append(sample(SLOW, 91, seconds=900.0, error="status 500: "))
    found = results((finished, samples)).get(SLOW)
    assert found is not None
    assert (found.requests, found.failures) == (16, {"status 500: ": 1})
    assert found.failure_share == pytest.approx(1 / 17)
    assert found.rate is not None
    assert found.rate.value == pytest.approx(400.0)


def test_time_per_token_is_over_the_tokens_after_the_first() -> None:
    found = results(measured_round(rate=50.0, spread=0.0)).get(SLOW)
    assert found is not None
    assert found.tpot is not None
    assert found.tpot.value == pytest.approx(1.9 / 99)
    assert percentile(found.ttft, 0.5) == pytest.approx(0.1)


def test_acceptance_is_summed_over_steps_by_position() -> None:
    found = results(measured_round(MTP2, accepted=(10, 10, 20))).get(FAST)
    assert found is not None
    assert found.survival == pytest.approx((0.75, 0.5))
    assert found.mean_accepted_length == pytest.approx(2.25)
    assert found.acceptance_rate == pytest.approx(50 / 80)


def test_the_servers_counters_stand_in_where_answers_tell_nothing() -> None:
    finished, samples = measured_round(MTP2)
    counted = Round(finished.cell, 0, 1.0, drafts=100.0, drafted=200.0, by_position=(80.0, 40.0), memory=7.0)
    found = results((counted, samples)).get(FAST)
    assert found is not None
    assert found.survival == pytest.approx((0.8, 0.4))
    assert found.mean_accepted_length == pytest.approx(2.2)
    assert found.memory == 7.0
    nothing = results((finished, samples)).get(FAST)
    assert nothing is not None
    assert (nothing.survival, nothing.mean_accepted_length, nothing.acceptance_rate) == ((), None, None)


def test_counters_that_tell_fewer_positions_after_a_restart_are_summed_all_the_same() -> None:
    rounds = [
        Round(FAST, 0, 1.0, drafts=100.0, drafted=200.0, by_position=(80.0, 40.0)),
        Round(FAST, 1, 1.0, drafts=100.0, drafted=200.0, by_position=(60.0,)),
        Round(FAST, 2, 1.0, drafts=100.0, drafted=200.0),
    ]
    assert measured(FAST, [sample(FAST)], rounds).by_position == (140.0, 40.0)


def test_greedy_texts_are_compared_where_the_baseline_agrees_with_itself() -> None:
    base = measured_round(), measured_round(number=1)
    base[1][1][3] = sample(SLOW, 3, digest="another", round=1)
    fast = measured_round(MTP2)
    fast[1][5] = sample(FAST, 5, digest="wrong")
    found = results(*base, fast)
    assert found.agreement(FAST) == Agreement(compared=15, different=1, unstable=1)
    assert Results().agreement(FAST) is None


def test_a_draft_that_changes_every_other_answer_is_not_hidden_by_asking_often() -> None:
    fast = [
        sample(FAST, place, digest=f"text {place}" if time % 2 else "wrong", round=time)
        for place in range(16)
        for time in range(4)
    ]
    found = results(measured_round(), (Round(FAST, 0, 1.0), fast)).agreement(FAST)
    assert found == Agreement(compared=16, different=8, unstable=0)
    once = results(measured_round(), (Round(FAST, 0, 1.0), fast[1:])).agreement(FAST)
    assert once is not None
    assert once.different == 8


def test_a_few_differences_are_not_yet_sure() -> None:
    assert Agreement(15, 1, 0).surely_different < 0.02
    assert Agreement(20, 20, 0).surely_different > 0.8
    assert Agreement(0, 0, 0).surely_different == 0.0
    fast = measured(FAST, [sample(FAST)])
    assert agreement(fast, None) == Agreement(0, 0, 0)


def test_percentiles_lie_between_the_values() -> None:
    assert percentile((), 0.5) is None
    assert percentile((1.0, 2.0), 0.5) == 1.5
    assert percentile((1.0, 2.0, 4.0), 1.0) == 4.0


def test_a_round_that_was_lost_does_not_give_its_successor_the_number_of_another() -> None:
    found = results(measured_round(), measured_round(number=2))
    assert (found.rounds(SLOW), found.next_number(SLOW), found.next_number(FAST)) == (2, 3, 0)


def test_nothing_has_no_rate() -> None:
    assert ratio([]).rate is None
    assert measured(SLOW, []).rate is None
    assert measured(SLOW, []).tpot is None
    assert measured(SLOW, []).failure_share == 0.0


def test_results_count_rounds_requests_and_seconds() -> None:
    found = results(measured_round(), measured_round(number=1), measured_round(MTP2))
    assert (found.rounds(SLOW), found.total_rounds, found.requests, found.seconds) == (2, 3, 48, 30.0)
    assert [one.cell for one in found.cells()] == [SLOW, FAST]
