from __future__ import annotations

import pytest

from backends.sim.configuration import Curve
from backends.sim.profiles import configuration

DENSE = Curve(seconds=0.02, concurrency=32, growth=0.0, linear_share=0.25)
SPARSE = Curve(seconds=0.02, concurrency=32, growth=0.2, linear_share=0.25)


def test_a_pass_at_the_calibration_point_takes_the_calibrated_time() -> None:
    assert DENSE(32) == pytest.approx(0.02)
    assert SPARSE(32) == pytest.approx(0.02)


def test_memory_bound_part_is_flat_for_a_dense_target_and_rises_for_a_sparse_one() -> None:
    assert DENSE(1) == pytest.approx(0.02 * (0.75 + 0.25 / 32))
    assert SPARSE(1) == pytest.approx(0.02 * (0.75 / 2 + 0.25 / 32))  # 32 ** 0.2 is 2


def test_one_more_token_costs_the_slope_of_the_compute_bound_part() -> None:
    assert DENSE(101) - DENSE(100) == pytest.approx(DENSE.marginal)


def test_step_is_a_pass_over_drafts_and_bonus_tokens_and_the_drafting() -> None:
    found = configuration("google/gemma-4-31B-it", "dspark", 7)
    assert found.step(16) == found.verify(8 * 16) + found.draft_time(16)
    assert found.draft_time(32) == pytest.approx(found.draft_cost * found.curve.seconds)
    assert found.draft_time(1) > found.draft_floor * found.draft_time(32)


def test_baseline_step_is_its_own_step() -> None:
    found = configuration("google/gemma-4-31B-it", "none", 0)
    assert found.step(16) == found.baseline(16)
    assert found.mean_accepted_length("chat") == 1.0


def test_published_speedup_follows_from_length_and_step_time() -> None:
    found = configuration("moonshotai/Kimi-K2.5", "dflash", 7)
    cost = found.step(16) / found.baseline(16)
    published = [cell.mean_accepted_length / cell.speedup for cell in found.cells.values()]
    assert cost == pytest.approx(sum(published) / 4, rel=0.05)
