from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.core.scorers import SCORERS, Costing
from tests.factories import load, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NOW, STALE_AFTER = 100.0, 15.0


def costing(one: BackendState, rank: int = 0) -> Costing:
    return Costing(one, rank, NOW, STALE_AFTER)


@pytest.mark.parametrize("rank", [0, 1, 7])
def test_preference_costs_its_position(rank: int) -> None:
    assert SCORERS["preference"](costing(state(), rank)) == rank


@pytest.mark.parametrize(("in_flight", "cost"), [(0, 0.0), (4, 0.5), (8, 1.0)])
def test_load_costs_the_share_of_the_limit(in_flight: int, cost: float) -> None:
    assert SCORERS["load"](costing(state(in_flight=in_flight, max_in_flight=8))) == cost


def test_load_passes_one_where_others_use_the_server_too() -> None:
    busy = state(max_in_flight=8, load=load(running=10, waiting=6, at=NOW))
    assert SCORERS["load"](costing(busy)) == 2.0


def test_old_load_is_not_counted() -> None:
    busy = state(max_in_flight=8, in_flight=2, load=load(running=16, at=NOW - STALE_AFTER - 1))
    assert SCORERS["load"](costing(busy)) == 0.25
