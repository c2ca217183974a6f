from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.plan import Limits
from gateway.core.predict import SAMPLED, Ask, Cell, Home, ServerModel, predict
from gateway.core.scorers import MISSED, SCORERS, STAY, Costing
from gateway.core.standing import Standing
from tests.factories import load, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NOW, STALE_AFTER = 100.0, 15.0


def cost(scorer: str, *candidates: tuple[BackendState, int]) -> list[float]:
    return SCORERS[scorer](
        Costing([Standing(one, NOW, STALE_AFTER) for one, _ in candidates], [rank for _, rank in candidates])
    )


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


ONE = Ask(((Cell("code", 0, SAMPLED), 1.0),), 500, 0, None)
FAST = ServerModel(other_steps_per_token=0.25, step_seconds=(0.02, 0.02, 0.021, 0.022))
SLOW = ServerModel(other_steps_per_token=1.0, step_seconds=(0.02, 0.02, 0.021, 0.022))


def seconds(*states: BackendState, home: Home | None = None) -> list[float]:
    servers = [Standing(one, NOW, STALE_AFTER) for one in states]
    return SCORERS["seconds"](Costing(servers, [0] * len(servers), ONE, home))


def test_seconds_are_completion_and_harm_at_the_load_of_the_moment() -> None:
    found = predict(FAST, ONE, 2.0)
    assert seconds(state(model=FAST, in_flight=2)) == [pytest.approx(found.completion + found.harm)]
    fast, slow = seconds(state(model=FAST), state(model=SLOW))
    assert fast < slow


def test_own_dispatches_since_the_scrape_count() -> None:
    scraped = load(running=1, at=NOW)
    alone, joined = state(model=FAST, load=scraped), state(model=FAST, load=scraped, since_load=1)
    assert seconds(alone) < seconds(joined)


def test_servers_of_which_nothing_is_known_cost_alike() -> None:
    assert len(set(seconds(state("a"), state("b", method="mtp", draft_tokens=4)))) == 1


def test_a_nearly_full_cache_costs_more_and_more() -> None:
    at = [
        seconds(state(model=FAST, load=load(kv_usage=usage, at=NOW)))[0]
        for usage in (None, 0.0, 0.8, 0.9, 0.99, 1.0)
    ]
    assert at[0] == at[1] == at[2] < at[3] < at[4] < at[5]
    assert at[3] == pytest.approx(2.0 * at[0])


def test_a_conversation_stays_with_its_cache_unless_the_gain_is_clear() -> None:
    here, there = state("here", model=FAST), state("there", model=FAST)
    stay, move = seconds(here, there, home=Home("here", 400.0))
    assert stay == pytest.approx(STAY * predict(FAST, ONE, 0.0, 400.0).completion)
    assert move == pytest.approx(predict(FAST, ONE, 0.0).completion)
    assert seconds(state("here", model=SLOW), there, home=Home("here", 400.0)) > [move]


def priced(limits: Limits, *states: BackendState) -> list[float]:
    servers = [Standing(one, NOW, STALE_AFTER) for one in states]
    return SCORERS["seconds"](Costing(servers, [0] * len(servers), ONE, None, limits))


def test_an_answer_that_would_miss_its_limits_has_a_price() -> None:
    idle = state(model=FAST)
    found = predict(FAST, ONE, 0.0)
    kept = priced(Limits(ttft=9.0, tpot=1.0), idle)
    assert kept == seconds(idle)
    missed = pytest.approx(kept[0] + MISSED * found.completion)
    assert priced(Limits(tpot=0.001), idle) == [missed]
    assert priced(Limits(ttft=0.001), idle) == [missed]
    assert priced(Limits(tpot=1e9), idle) == kept
    instant = state(model=replace(FAST, step_seconds=(0.0, 0.0)))
    assert priced(Limits(tpot=1e-9), instant) == seconds(instant)


def missed(growth: float) -> float:
    """Answers that are priced as missed where a limit lies half-way between the steps of two and of three."""
    model = replace(FAST, step_seconds=[0.02 * growth**n for n in range(10)])
    found = predict(model, ONE, 2.0)
    limit = found.tpot / math.sqrt(growth)
    [cost] = priced(Limits(tpot=limit), state(model=model, in_flight=2))
    return (cost - found.completion - found.harm) / (MISSED * found.completion)


def test_so_have_those_of_others_that_it_would_push_over() -> None:
    assert missed(2.0) == pytest.approx(3.0), "its own, and both others"
    assert missed(1.0001) == pytest.approx(0.5, rel=0.1), (
        "nobody knows of its own, and the others gain nothing"
    )
    assert 0.5 < missed(1.02) < missed(1.1) < 3.0


def test_a_draft_that_keeps_a_limit_in_the_mean_is_known_to_miss_it_with_bad_luck() -> None:
    drafted = replace(FAST, request_spread=0.2)
    limits = Limits(tpot=1.1 * predict(FAST, ONE, 0.0).tpot)
    [sure], [doubtful] = (priced(limits, state(model=model)) for model in (FAST, drafted))
    kept = predict(FAST, ONE, 0.0).completion
    assert sure < 1.1 * kept
    assert 2.0 * kept < doubtful < 3.0 * kept, "three in ten miss it"
