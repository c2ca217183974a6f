"""The fleet that is planned from measurements, against what the profiles behind them say of all others."""

from __future__ import annotations

from itertools import combinations

import pytest

from backends.fleetsim import model
from backends.fleetsim.fluid import closed, problem
from backends.fleetsim.traffic import MIXES
from backends.sim import profiles
from backends.sweep.choose import choose
from backends.sweep.fleetplan import plan_fleet
from backends.sweep.model import Candidate
from gateway.policy.evidence import Evidence, Measurement, Range

SERVERS = 4
LEVELS = (1, 8, 32)
CONTENDERS = 6


def models(target: str) -> dict[Candidate, model.Model]:
    return {
        Candidate(one.method, one.draft_tokens): model.of(one)
        for one in profiles.configurations(target)
        if one.cells
    }


def optimum(
    fleet: dict[Candidate, int], of: dict[Candidate, model.Model], mix: dict[str, float], load: int
) -> float:
    servers = [of[who] for who, number in fleet.items() for _ in range(number)]
    if len(fleet) == 1:  # servers that are alike are each a part of the whole
        return len(servers) * closed(problem(servers[:1], mix), load).tokens_per_second
    return closed(problem(servers, mix), load * len(servers)).tokens_per_second


def measured(target: str) -> Evidence:
    """What a sweep without any noise would have found."""
    of, cells = models(target), []
    base: dict[tuple[str, int], float] = {}
    for who, one in of.items():
        for workload in MIXES["equal"]:
            for level in LEVELS:
                rate = closed(problem([one], {workload: 1.0}), level).tokens_per_second
                base.setdefault((workload, level), rate)
                ratio = rate / base[workload, level]
                cells.append(
                    Measurement(
                        method=who.method, draft_tokens=who.draft_tokens, workload=workload, concurrency=level,
                        requests=64, tokens_per_second=Range(value=rate),
                        speedup=Range(value=ratio, low=ratio * 0.99, high=ratio * 1.01),
                        output_tokens=profiles.lengths(workload).output,
                    )
                )  # fmt: skip
    return Evidence(version=1, source="test", target=target, measured="2026-01-01", measurements=tuple(cells))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("target", "mix", "load"),
    [
        ("google/gemma-4-31B-it", "equal", 8),
        ("google/gemma-4-31B-it", "chat70", 32),
        ("Qwen/Qwen3-8B", "equal", 32),
        ("Qwen/Qwen3.6-35B-A3B", "rag", 8),
    ],
)
def test_the_planned_fleet_is_near_the_best_and_not_below_one_configuration(
    target: str, mix: str, load: int
) -> None:
    found, of, shares = measured(target), models(target), MIXES[mix]
    choice = choose(found, shares)
    plan = plan_fleet(found, choice, SERVERS, load, shares)
    assert plan is not None
    own = optimum(dict(plan.chosen.servers), of, shares, load)
    alone = {who: optimum({who: SERVERS}, of, shares, load) for who in of}
    best = sorted(alone, key=lambda one: -alone[one])[:CONTENDERS]
    contend = list(dict.fromkeys([*best, *(one.candidate for one in choice.winners)]))[: CONTENDERS + 2]
    pairs = [
        optimum({first: number, second: SERVERS - number}, of, shares, load)
        for first, second in combinations(contend, 2)
        for number in (1, 2, 3)
    ]
    assert own >= max(alone.values()) * 0.99
    assert own >= max(*alone.values(), *pairs) * 0.98
