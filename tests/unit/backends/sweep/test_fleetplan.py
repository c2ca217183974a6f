"""The fleet that is planned from a sweep, simulated beside the best others; all of them: ``tests/bench/fleet_plan.py``."""

from __future__ import annotations

import pytest

from backends.sweep.plan import Settings
from tests.bench.fleet_plan import Bench, swept

SERVERS, LOAD = 4, 32
QUICK = Settings(rounds=4)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", ["Qwen/Qwen3.6-27B", "MiniMaxAI/MiniMax-M3-MXFP8"])
def test_the_planned_fleet_is_near_the_best_and_not_below_one_configuration(target: str) -> None:
    bench = Bench(target, swept(target, (LOAD,), QUICK), window=60.0, seeds=2, contenders=4)
    case = bench.case("equal", LOAD, SERVERS)
    assert case.of_single.value >= 0.99, case
    assert case.of_best.value >= 0.98, case
