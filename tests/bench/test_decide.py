"""What a decision costs, by the number of backends; ``python -m pytest tests/bench``."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import pytest

from gateway.core.decide import Decision, Draw, decide
from gateway.core.policy import Selector
from tests.factories import ANY, classification, features, load, policy, prefer, route, snapshot, state

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


@pytest.mark.parametrize("backends", [8, 1000])
def test_the_first_decision_after_a_reload(benchmark: BenchmarkFixture, backends: int) -> None:
    states, rules = fleet(backends).states, policy(route(prefer=BY_METHOD))
    request, label = features(), classification()

    def first() -> object:
        return decide(request, label, snapshot(*states), rules, Draw(0.5, 0.5), NOW)

    assert isinstance(benchmark(first), Decision)
