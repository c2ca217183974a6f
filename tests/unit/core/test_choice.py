from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.choice import FEW, Draw, learned
from gateway.core.explore import Way, exploring
from gateway.core.plan import Limits
from gateway.core.predict import SAMPLED, Ask, Cell, ServerModel
from gateway.core.scorers import Costing
from gateway.core.standing import Standing
from tests.factories import UNDRAWN, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

ASK = Ask(((Cell("code", 0, SAMPLED), 1.0),), 100, 0, None)
SURE = ServerModel("sure", other_steps_per_token=0.3, measured=1e6)
RIVAL = replace(SURE, fingerprint="rival", other_steps_per_token=0.33, spread={"code": 0.2})
HOPELESS = replace(RIVAL, fingerprint="hopeless", other_steps_per_token=1.0)


def costing(*states: BackendState) -> Costing:
    return Costing([Standing(one, 0.0, 15.0) for one in states], [0] * len(states), ASK)


FLEET = costing(state("best", model=SURE), state("rival", model=RIVAL), state("worst", model=HOPELESS))


def way(explore: float, fleet: Costing = FLEET) -> Way:
    return exploring(learned(fleet, UNDRAWN, 3), fleet, 1.0, explore)


def first(explore: float, roll: float, fleet: Costing = FLEET) -> tuple[str, float, bool]:
    of = way(explore, fleet)
    found = of.order(roll)
    return found.first.name, of.chance(found.first), found.explored


def test_without_exploration_the_best_comes_first() -> None:
    found = way(0.0).order(0.0)
    assert [one.backend for one in found.candidates] == ["best", "rival", "worst"]
    assert way(0.0).chance(FLEET.servers[0]) == 1.0
    assert [part.scorer for part in found.candidates[0].parts] == ["seconds"]


def test_a_share_goes_to_those_that_may_be_the_best() -> None:
    assert first(0.04, 0.03) == ("rival", pytest.approx(0.04), True)
    assert first(0.04, 0.05) == ("best", pytest.approx(0.96), False)


def test_who_explores_can_still_fall_back_to_all() -> None:
    assert [one.backend for one in way(0.04).order(0.0).candidates] == ["rival", "best", "worst"]


def test_there_is_nothing_to_explore_among_those_that_are_known() -> None:
    known = costing(state("best", model=SURE), state("worst", model=replace(HOPELESS, spread={})))
    assert first(0.04, 0.0, known) == ("best", 1.0, False)


def test_one_answer_may_have_waited_for_the_server_to_get_warm() -> None:
    slow = replace(SURE, fingerprint="cold", other_steps_per_token=0.55)
    cold = costing(state("best", model=SURE), state("cold", model=replace(slow, measured=1.0)))
    assert first(0.04, 0.0, cold)[0] == "cold"
    warm = costing(state("best", model=SURE), state("cold", model=replace(slow, measured=20.0)))
    assert first(0.04, 0.0, warm)[0] == "best"


def test_who_must_keep_limits_explores_less_far() -> None:
    dear = replace(SURE, fingerprint="dear", other_steps_per_token=0.8, spread={"code": 1.0})
    fleet = costing(state("best", model=SURE), state("dear", model=dear))
    assert first(0.04, 0.0, fleet)[0] == "dear"
    assert first(0.04, 0.0, replace(fleet, limits=Limits(tpot=1.0)))[0] == "best"


def test_of_what_nothing_is_known_something_may_be_the_best() -> None:
    fleet = costing(state("a", in_flight=2), state("b", in_flight=3))
    assert first(0.04, 0.0, fleet)[0] == "b"


def test_of_many_replicas_a_few_are_drawn_and_the_rare_are_kept() -> None:
    many = [state(f"r{at}", model=SURE, in_flight=at % 3) for at in range(100)]
    fleet = costing(*many, state("rare", model=RIVAL), state("new", method="mtp"))
    found = learned(fleet, Draw(0.5, 0.123456789), 3)
    names = [one.backend for one in found.candidates]
    assert len(names) <= 5
    assert {"rare", "new"} <= set(names)
    drawn = Counter(learned(fleet, Draw(0.5, at / 1009), 2).candidates[0].backend for at in range(1009))
    assert len(drawn) > 90, "each has its turn"
    idle = sum(count for name, count in drawn.items() if int(name[1:]) % 3 == 0)
    assert idle > 0.5 * 1009, "of two, the less loaded one"


def test_few_replicas_are_all_compared() -> None:
    fleet = costing(*(state(f"r{at}", model=SURE, in_flight=FEW - at) for at in range(FEW)))
    assert len(learned(fleet, UNDRAWN, 1).candidates) == FEW


def test_further_numbers_of_a_draw_are_uniform_and_differ() -> None:
    numbers = [Draw(0.0, at / 997).another(place) for at in range(997) for place in range(3)]
    assert all(0.0 <= one < 1.0 for one in numbers)
    assert sum(numbers) / len(numbers) == pytest.approx(0.5, abs=0.02)
    assert Draw(0.0, 0.3).another(0) != Draw(0.0, 0.3).another(1)
