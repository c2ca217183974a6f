from __future__ import annotations

import math
import random

import numpy as np
import pytest

from gateway.core.curve import MOST, Curve, Pool, affine, crowding, falls, rising

PRIOR = affine(0.02, 1.0)


def taught(true: list[float], batches: range | list[int], times: int = 40, noise: float = 0.1) -> Curve:
    draws = random.Random(3)  # noqa: S311 - no secret
    curve = Curve(PRIOR)
    for _ in range(times):
        for batch in batches:
            seen = true[batch] * math.exp(draws.gauss(0.0, noise))
            curve.add(batch, math.log(seen / curve.expected(batch)), 1.0)
    return curve


def pool(*curves):
    found = Pool()
    for curve in curves:
        found.add(curve)
    return found


def test_an_affine_table_has_grown_as_said_at_64() -> None:
    assert len(PRIOR) == MOST + 1
    assert (PRIOR[0], PRIOR[1], PRIOR[64]) == (0.02, 0.02, pytest.approx(0.04))


def test_without_evidence_the_prior_is_believed() -> None:
    assert Curve(PRIOR).table() == pytest.approx(np.array(PRIOR))
    assert Curve(PRIOR).evidence == 0.0


def test_a_wrong_level_is_corrected_everywhere_by_a_few_requests() -> None:
    true = [2.0 * one for one in PRIOR]
    table = taught(true, [8], times=6, noise=0.0).table()
    assert table[8] == pytest.approx(true[8], rel=0.06)
    assert table[64] == pytest.approx(true[64], rel=0.15)


def test_a_wrong_slope_is_found_where_batches_differ() -> None:
    true = list(affine(0.02, 4.0))
    table = taught(true, [1, 4, 16, 64, 128]).table()
    for batch in (1, 4, 16, 64, 128):
        assert table[batch] == pytest.approx(true[batch], rel=0.06)


def test_a_cliff_is_found_where_there_is_evidence() -> None:
    true = [one * (1.6 if batch > 32 else 1.0) for batch, one in enumerate(PRIOR)]
    table = taught(true, range(20, 60), times=60).table()
    assert table[28] == pytest.approx(true[28], rel=0.1)
    assert table[40] == pytest.approx(true[40], rel=0.06)


def test_batches_outside_the_table_count_at_its_ends() -> None:
    curve = Curve(PRIOR)
    curve.add(0.0, 0.1, 1.0)
    assert curve.weight[0] == 1.0
    curve.add(10_000.0, 0.1, 1.0)
    assert curve.weight[-1] == pytest.approx(1.0)


def test_what_was_seen_at_other_batches_is_forgotten_too() -> None:
    true = [1.25 * one for one in PRIOR]
    early = [0.9 * one for one in true]
    curve = taught(early, [16], times=20, noise=0.0)
    for _ in range(2400):
        curve.add(64.0, math.log(true[64] / curve.expected(64.0)), 1.0)
    assert curve.table()[16] == pytest.approx(true[16], rel=0.02)
    assert curve.expected(10_000.0) == PRIOR[-1]


def test_a_jump_moves_everything_and_takes_most_of_the_evidence() -> None:
    curve = taught(list(PRIOR), [8])
    before, evidence = curve.table(), curve.evidence
    curve.shifted(math.log(2.5), 0.2)
    assert curve.table() == pytest.approx(2.5 * before, rel=0.05)
    assert curve.evidence == pytest.approx(0.2 * evidence)


def test_replicas_lend_what_they_have_seen_but_own_evidence_wins() -> None:
    slow = taught([3.0 * one for one in PRIOR], [8, 16])
    fresh, own = Curve(PRIOR), taught(list(PRIOR), [8, 16])
    assert fresh.table(pool(slow, fresh))[8] == pytest.approx(3.0 * PRIOR[8], rel=0.3)
    assert own.table(pool(slow, own))[8] == pytest.approx(PRIOR[8], rel=0.2)
    assert fresh.table(pool(fresh)) == pytest.approx(np.array(PRIOR))
    assert own.table(pool(own)) == pytest.approx(own.table())


def test_a_replica_that_got_slow_lends_what_it_saw_all_the_same() -> None:
    moved, fresh = taught(list(PRIOR), [8, 16]), Curve(PRIOR)
    moved.shifted(math.log(2.0), 1.0)
    assert fresh.table(pool(moved, fresh))[8] == pytest.approx(2.0 * PRIOR[8], rel=0.2)
    assert moved.table(pool(moved, fresh)) == pytest.approx(moved.table())


def test_small_dips_are_noise_and_a_large_drop_is_the_engines() -> None:
    assert rising([1.0, 2.0, 1.9, 2.1, 1.0, 0.95, 1.1]) == (1.0, 2.0, 2.0, 2.1, 1.0, 1.0, 1.1)


def test_how_a_table_changes_with_load_does_not_depend_on_its_level() -> None:
    curve = Curve((1.0, 1.0))
    assert curve.relative() == pytest.approx(1.0)
    curve.add(4.0, math.log(0.5), 0.1)
    assert curve.relative()[4] == pytest.approx(1.0)
    for _ in range(300):
        curve.add(4.0, math.log(0.5), 1.0)
        curve.add(64.0, math.log(1.0), 1.0)
    assert curve.relative()[64] / curve.relative()[4] == pytest.approx(2.0, rel=0.05)


def test_where_steps_grow_evenly_the_others_lose_what_one_more_adds() -> None:
    table = affine(0.02, 1.0)
    costs = crowding(table)
    assert costs[1:4] == pytest.approx([batch * (table[2] - table[1]) for batch in (1, 2, 3)], rel=0.1)
    assert costs[100] == pytest.approx(100 * (table[101] - table[100]), rel=0.02)


def test_where_steps_are_a_staircase_the_others_lose_something_at_each_batch_and_nowhere_all() -> None:
    table = [9.0 + batch // 8 for batch in range(129)]
    costs = crowding(table)
    jump = 63 * (table[64] - table[63])
    assert all(0.0 < cost < 0.4 * jump for cost in costs[60:68])
    assert sum(costs[60:68]) / 8 == pytest.approx(jump / 8, rel=0.1)


def test_before_steps_get_shorter_one_more_is_welcome() -> None:
    table = [2.0] * 100 + [1.0] * 100
    assert falls(table) == (100,)
    assert max(crowding(table)[92:108]) < 0.0 == pytest.approx(crowding(table)[50])


def test_crossing_a_cliff_costs_much() -> None:
    table = [seconds * (1.4 if batch > 64 else 1.0) for batch, seconds in enumerate(affine(0.02, 1.0))]
    assert crowding(table)[64] == pytest.approx(4.0 * table[65])


def test_below_a_cliff_places_have_a_price_that_rises_to_a_step_for_the_last_one() -> None:
    smooth = affine(0.02, 0.1)
    table = [seconds * (1.4 if batch > 64 else 1.0) for batch, seconds in enumerate(smooth)]
    costs, without = crowding(table), crowding(smooth)
    assert costs[63] == pytest.approx(table[64])
    assert list(costs[:64]) == sorted(costs[:64])
    assert costs[0] < 0.1 * table[1]
    assert all(cost >= other for cost, other in zip(costs[:55], without[:55], strict=True))


def test_below_a_cliff_the_others_still_count_where_they_lose_more_than_a_place_is_worth() -> None:
    smooth = affine(0.02, 100.0)
    table = [seconds * (1.4 if batch > 64 else 1.0) for batch, seconds in enumerate(smooth)]
    costs, without = crowding(table), crowding(smooth)
    assert costs[20:40] == pytest.approx(without[20:40])


def test_below_each_cliff_that_leads_further_up_places_have_a_price() -> None:
    table = [1.0] * 17 + [1.5] * 112 + [3.0] * 64
    costs = crowding(table)
    assert (costs[15], costs[127]) == pytest.approx((1.0, 1.5))


def test_beyond_a_cliff_one_more_costs_what_going_back_brings_until_as_much_gets_done() -> None:
    table = [1.0 + (0.4 if batch > 64 else 0.0) + batch / 1000 for batch in range(129)]
    done = [batch / seconds for batch, seconds in enumerate(table)]
    costs = crowding(table)
    again = next(batch for batch in range(66, 129) if done[batch] >= done[64])
    for now in range(65, again - 1):
        gain = (done[64] - done[now + 1]) / max(1, now - 64)
        assert costs[now] == pytest.approx(table[now + 1] * min(4.0, 1.0 + gain * table[now + 1]))
    assert costs[65] == pytest.approx(4.0 * table[66])
    assert costs[again - 2] == pytest.approx(table[again - 1], rel=0.1)
    assert all(cost < 0.5 * seconds for cost, seconds in zip(costs[again - 1 :], table[again:], strict=True))


def test_small_steps_down_after_a_cliff_are_none() -> None:
    table = [1.0 + (1.0 if batch > 8 else 0.0) + 0.01 * (batch // 32) for batch in range(129)]
    assert all(cost < seconds for cost, seconds in zip(crowding(table)[17:], table[18:], strict=False))


def test_a_second_cliff_right_after_one_is_a_cliff_too() -> None:
    table = [1.0] * 65 + [2.0] + [4.0] * 63
    costs = crowding(table)
    assert costs[64:66] == (8.0, 16.0)


def test_a_small_cliff_costs_what_going_back_brings() -> None:
    table = [1.0, 1.0, 1.0, 2.0]
    assert crowding(table)[2] == pytest.approx(2.0 * (1.0 + (2.0 / 1.0 - 3.0 / 2.0) * 2.0))


def test_a_table_that_never_gets_shorter_does_not_fall() -> None:
    assert falls(affine(0.02, 1.0)) == ()
    assert falls([1.0, 0.95, 1.0]) == ()
