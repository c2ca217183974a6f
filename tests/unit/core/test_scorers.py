from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.core.scorers import SCORERS, Costing
from tests.factories import load, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NOW, STALE_AFTER = 100.0, 15.0


def cost(scorer: str, *candidates: tuple[BackendState, int]) -> list[float]:
    return SCORERS[scorer](Costing(candidates, NOW, STALE_AFTER))


def load_cost(one: BackendState) -> float:
    (found,) = cost("load", (one, 0))
    return found


@pytest.mark.parametrize("scorer", SCORERS)
def test_each_candidate_has_its_cost(scorer: str) -> None:
    candidates = [(state(in_flight=at), at) for at in range(3)]
    assert cost(scorer, *candidates) == [found for one in candidates for found in cost(scorer, one)]
    assert cost(scorer) == []


def test_preference_costs_the_rank() -> None:
    assert cost("preference", (state(), 0), (state(), 7), (state(), 1)) == [0.0, 7.0, 1.0]


@pytest.mark.parametrize(("in_flight", "share"), [(0, 0.0), (4, 0.5), (8, 1.0)])
def test_load_costs_the_share_of_the_limit(in_flight: int, share: float) -> None:
    assert load_cost(state(in_flight=in_flight, max_in_flight=8)) == share


def test_load_passes_one_where_others_use_the_server_too() -> None:
    assert load_cost(state(max_in_flight=8, load=load(running=10, waiting=6, at=NOW))) == 2.0


def test_old_load_is_not_counted() -> None:
    old = load(running=16, at=NOW - STALE_AFTER - 1)
    assert load_cost(state(max_in_flight=8, in_flight=2, load=old)) == 0.25
