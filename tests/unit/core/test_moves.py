import pytest

from gateway.core.moves import NOWHERE, Moves, Reading, compare, sent
from gateway.core.policy import Selector, WeightedScorer
from tests.factories import classification, features, policy, route, snapshot, state

FLEET = snapshot(state("a"), state("b", method="mtp", draft_tokens=2))
REQUESTS = [Reading(features(), classification("chat")) for _ in range(12)]
LEAST = policy(route(scorers=(WeightedScorer("load", 1.0),)))
TO_A = policy(route(prefer=(Selector(name="a"),)))


def test_one_at_a_time_every_request_finds_the_fleet_idle():
    rule = route(
        prefer=(Selector(name="b"), Selector()),
        scorers=(WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0)),
    )
    assert sent(REQUESTS, FLEET, policy(rule), 1) == ["b"] * 12


def test_with_many_open_each_server_gets_its_share():
    went = sent(REQUESTS, FLEET, LEAST, 4)
    assert went.count("a") == went.count("b") == 6


def test_no_more_are_open_than_was_said():
    full = snapshot(state("a", max_in_flight=3))
    assert sent(REQUESTS, full, TO_A, 3) == ["a"] * 12
    assert sent(REQUESTS, full, TO_A, 4)[3] == NOWHERE


def test_moves_by_label():
    found = compare(["math", "chat", "math", "math"], ["a", "a", "b", "a"], ["b", "a", "b", NOWHERE])
    assert list(found) == ["chat", "math"]
    assert found["chat"] == Moves(1, {"a": 1.0}, {"a": 1.0}, 0.0)
    assert found["math"].were == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert found["math"].become == pytest.approx({"b": 2 / 3, NOWHERE: 1 / 3})
    assert found["math"].moved == pytest.approx(2 / 3)


def test_requests_that_change_places_do_not_count_as_moved():
    assert Moves.of(["a", "b"], ["b", "a"]).moved == 0.0
