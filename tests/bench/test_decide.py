"""What a decision costs, by the number of backends; ``python -m pytest tests/bench``."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from gateway.core.classes import ServiceClass
from gateway.core.classify import Classification
from gateway.core.curve import affine
from gateway.core.decide import Decision, Draw, decide
from gateway.core.features import WORKLOADS
from gateway.core.fleet import Guide
from gateway.core.plan import Limits, Plan
from gateway.core.policy import AUTO, Learning, Selector
from gateway.core.predict import STRATA, Cell, ServerModel
from tests.factories import (
    ANY,
    TARGET,
    classification,
    features,
    load,
    policy,
    prefer,
    route,
    snapshot,
    state,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from gateway.core.fleet import Snapshot
    from gateway.core.policy import Route

NOW = 100.0
METHODS = ("none", "mtp", "eagle3", "dflash", "dspark")
BY_METHOD = (*(Selector(method=method) for method in ("dflash", "dspark", "mtp", "eagle3")), ANY)

pytestmark = pytest.mark.benchmark(timer=time.process_time, disable_gc=False)


@pytest.fixture(autouse=True)
def _like_a_process_in_service() -> Iterator[None]:
    """What tests have left behind is not collected again and again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def fleet(backends: int) -> Snapshot:
    """Servers of every method, each with a fresh scrape and something to do."""
    return snapshot(
        *(
            state(
                f"b{number}",
                method=METHODS[number % len(METHODS)],
                draft_tokens=4 if number % len(METHODS) else 0,
                max_model_len=32768,
                in_flight=number % 7,
                load=load(running=number % 9, at=NOW - 1.0),
            )
            for number in range(backends)
        )
    )


@pytest.mark.parametrize("backends", [8, 100, 1000])
@pytest.mark.parametrize(
    ("by", "explore"),
    [
        pytest.param(route(prefer=BY_METHOD, baseline_share=0.05), 0.5, id="usual"),
        pytest.param(route(prefer=BY_METHOD, baseline_share=0.05), 0.01, id="baseline-share"),
        pytest.param(route(prefer=prefer("b1", "b2", "b3")), 0.5, id="most-not-named"),
    ],
)
def test_decide(benchmark: BenchmarkFixture, backends: int, by: Route, explore: float) -> None:
    seen, rules, request, label = fleet(backends), policy(by), features(), classification()
    found = benchmark(decide, request, label, seen, rules, Draw(explore, 0.5), NOW)
    assert isinstance(found, Decision)


LEARNT = ServerModel(
    steps_per_token={
        Cell(label, bin_, how): 0.3 for label in WORKLOADS for bin_ in range(4) for how in STRATA
    },
    step_seconds=affine(0.02, 1.0),
    output_tokens=dict.fromkeys(WORKLOADS, 300.0),
    measured=100.0,
)
INTERACTIVE = ServiceClass("interactive", limits=Limits(tpot=0.05))
LIKELY = Classification(
    "math", 0.6, "model:m", dict.fromkeys(WORKLOADS, 0.02) | {"math": 0.6, "code": 0.22, "chat": 0.1}
)


def learnt(backends: int, *, roles: bool) -> Snapshot:
    """The same servers, with what was learnt of each configuration, and maybe with roles."""
    states = [
        replace(one, model=replace(LEARNT, fingerprint=one.backend.method)) for one in fleet(backends).states
    ]
    names = [one.backend.name for one in states]
    kept = frozenset(names[: len(names) // 4])
    plan = Plan({"interactive": kept, "default": frozenset(names) - kept}, dict.fromkeys(kept, 20))
    return snapshot(*states, guide=Guide(plan={TARGET: plan}) if roles else None)


@pytest.mark.parametrize("backends", [8, 100, 1000])
@pytest.mark.parametrize("roles", [pytest.param(False, id="alone"), pytest.param(True, id="roles")])
def test_decide_by_what_was_learnt(benchmark: BenchmarkFixture, backends: int, roles: bool) -> None:
    seen = learnt(backends, roles=roles)
    rules = policy(route(prefer=(ANY,)), learning=Learning(AUTO, 1.0, explore=0.03))
    service = INTERACTIVE if roles else None
    found = benchmark(decide, features(), LIKELY, seen, rules, Draw(0.5, 0.5), NOW, None, service)
    assert isinstance(found, Decision)


def in_service(first: Snapshot) -> Iterator[Snapshot]:
    """Each time one server has got a request more, and another has answered one."""
    states, fleets = list(first.states), []
    for number in range(256):
        for at, change in ((number, 1), (number + len(states) // 2, -1)):
            one = states[at % len(states)]
            states[at % len(states)] = one.counted(
                max(0, one.in_flight + change), one.since_load, one.breaker
            )
        fleets.append(replace(first, states=tuple(states)))
    return cycle(fleets)


@pytest.mark.parametrize("backends", [8, 100, 1000])
@pytest.mark.parametrize("roles", [pytest.param(False, id="alone"), pytest.param(True, id="roles")])
def test_decide_by_what_was_learnt_in_service(
    benchmark: BenchmarkFixture, backends: int, roles: bool
) -> None:
    seen, request = in_service(learnt(backends, roles=roles)), features()
    rules = policy(route(prefer=(ANY,)), learning=Learning(AUTO, 1.0, explore=0.03))
    service = INTERACTIVE if roles else None
    found = benchmark(lambda: decide(request, LIKELY, next(seen), rules, Draw(0.5, 0.5), NOW, None, service))
    assert isinstance(found, Decision)


@pytest.mark.parametrize("backends", [8, 100, 1000])
@pytest.mark.parametrize(
    "by",
    [
        pytest.param(route(prefer=BY_METHOD, baseline_share=0.05), id="usual"),
        pytest.param(route(prefer=prefer("b1", "b2", "b3")), id="most-not-named"),
    ],
)
def test_decide_in_service(benchmark: BenchmarkFixture, backends: int, by: Route) -> None:
    seen, rules, request, label = in_service(fleet(backends)), policy(by), features(), classification()
    found = benchmark(lambda: decide(request, label, next(seen), rules, Draw(0.5, 0.5), NOW))
    assert isinstance(found, Decision)


@pytest.mark.parametrize("backends", [8, 1000])
def test_the_first_decision_after_a_reload(benchmark: BenchmarkFixture, backends: int) -> None:
    states, rules = fleet(backends).states, policy(route(prefer=BY_METHOD))
    request, label = features(), classification()

    def first() -> object:
        return decide(request, label, snapshot(*states), rules, Draw(0.5, 0.5), NOW)

    assert isinstance(benchmark(first), Decision)
