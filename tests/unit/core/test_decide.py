from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core import reasons
from gateway.core.breaker import Breaker
from gateway.core.decide import CostPart, Decision, Draw, NoCandidate, Rejected, decide
from gateway.core.policy import Match, Policy, Selector, WeightedScorer
from tests.factories import (
    ANY,
    TARGET,
    UNDRAWN,
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
    from gateway.core.fleet import BackendState
    from gateway.core.policy import Route

NOW = 100.0
BY_LOAD = (WeightedScorer("load", 1.0),)
REFUSES = frozenset({"min_p"})
ASKS = frozenset({"min_p"})
"""Parameters of a request that a backend with :data:`REFUSES` cannot take."""


def ask(
    *states: BackendState,
    by: Route | Policy | None = None,
    draw: Draw = UNDRAWN,
    label: str = "math",
    **request: Any,
) -> Decision | NoCandidate:
    rules = by if isinstance(by, Policy) else policy(by or route())
    return decide(features(**request), classification(label), snapshot(*states), rules, draw, NOW)


def chosen(*states: BackendState, **given: Any) -> Decision:
    decision = ask(*states, **given)
    assert isinstance(decision, Decision), decision
    return decision


def refused(*states: BackendState, **given: Any) -> NoCandidate:
    decision = ask(*states, **given)
    assert isinstance(decision, NoCandidate), decision
    return decision


def order(decision: Decision) -> list[str]:
    return [one.backend for one in decision.candidates]


def spec(name: str, **given: Any) -> BackendState:
    return state(name, method="mtp", draft_tokens=4, **given)


# Where it goes


def test_the_cheapest_backend_comes_first_and_the_others_follow_in_order() -> None:
    states = [state("a", in_flight=128), state("b", in_flight=0), state("c", in_flight=64)]
    decision = chosen(*states)
    assert order(decision) == ["b", "c", "a"]
    assert decision.reason == reasons.LOWEST_COST
    assert decision.propensity == 1.0
    assert decision.rejected == ()


def test_a_decision_says_what_it_was_made_of() -> None:
    decision = chosen(state(), by=replace(policy(route("only", max_attempts=7)), revision="p-7"))
    assert (decision.route, decision.target, decision.max_attempts) == ("only", TARGET, 7)
    assert (decision.policy_revision, decision.fleet_revision) == ("p-7", "fleet-1")


def test_the_cost_is_the_weighted_sum_of_its_parts() -> None:
    by = route(
        prefer=prefer("z", "a"), scorers=(WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0))
    )
    _, candidate = chosen(state("z"), state("a", in_flight=2, max_in_flight=8), by=by).candidates
    assert candidate.parts == (CostPart("preference", 1.0, 1.0), CostPart("load", 0.25, 4.0))
    assert candidate.cost == 2.0


def test_preference_and_load_are_weighed_against_each_other() -> None:
    by = route(prefer=prefer("first", "second"))
    assert order(chosen(state("first", in_flight=63), state("second"), by=by)) == ["first", "second"]
    assert order(chosen(state("first", in_flight=65), state("second"), by=by)) == ["second", "first"]


def test_preferences_that_name_only_servers_of_another_target_do_not_count() -> None:
    by = route(prefer=prefer("first", "other", "elsewhere", "second"))
    others = [state("other", target="org/Other"), state("elsewhere", target="org/Other")]
    for in_flight, expected in ((63, "first"), (65, "second")):
        states = [state("first", in_flight=in_flight), state("second"), *others]
        assert order(chosen(*states, by=by))[0] == expected


def test_ranks_do_not_move_with_health() -> None:
    by = route(prefer=prefer("first", "second"), scorers=(WeightedScorer("preference", 1.0),))
    for out in ({"healthy": False}, {"in_flight": 256}, {"refuses": REFUSES}):
        (candidate,) = chosen(state("first", **out), state("second"), by=by, parameters=ASKS).candidates
        assert (candidate.backend, candidate.cost) == ("second", 1.0)


def test_scraped_load_counts_while_it_is_fresh() -> None:
    rules = policy(stale_after=15.0)
    for age, first in ((15.0, "b"), (15.1, "a")):
        loaded = state("a", load=load(running=40, at=NOW - age))
        assert order(chosen(loaded, state("b", in_flight=1), by=rules))[0] == first


def test_the_first_route_that_takes_the_request_decides() -> None:
    rules = policy(
        route("code", match=Match(workloads=frozenset({"code"})), prefer=prefer("a")),
        route("math", match=Match(workloads=frozenset({"math"})), prefer=prefer("b")),
        route("rest", prefer=prefer("c")),
    )
    states = [state("a"), state("b"), state("c")]
    found = [
        (one.route, order(one))
        for one in (chosen(*states, by=rules, label=x) for x in ("code", "math", "chat"))
    ]
    assert found == [("code", ["a"]), ("math", ["b"]), ("rest", ["c"])]


def test_only_servers_of_the_target_take_part_and_the_others_are_not_even_rejected() -> None:
    decision = chosen(state("a"), state("other", target="org/Other"))
    assert order(decision) == ["a"]
    assert decision.rejected == ()
    assert decision.reason == reasons.ONLY_CANDIDATE


def test_a_target_may_be_named_itself() -> None:
    assert chosen(state(), model=TARGET).target == TARGET


def test_a_request_without_a_model_may_go_to_any_target() -> None:
    decision = chosen(state("a"), state("other", target="org/Other", in_flight=9), model="")
    assert order(decision) == ["a", "other"]
    assert decision.target == ""


# Equal costs


def test_equal_costs_take_turns() -> None:
    states = [state(name) for name in "abc"]
    found = [chosen(*states, draw=Draw(0.9, tie)) for tie in (0.0, 0.34, 0.67, 0.999)]
    assert [order(one) for one in found] == [list("abc"), list("bca"), list("cab"), list("cab")]
    assert {one.propensity for one in found} == {1 / 3}


def test_costlier_ones_stay_behind_those_that_take_turns() -> None:
    states = [state("x", in_flight=2), state("a"), state("y", in_flight=1), state("b")]
    assert order(chosen(*states, draw=Draw(0.9, 0.5))) == ["b", "a", "y", "x"]


def test_a_tie_behind_the_first_changes_no_probability() -> None:
    decision = chosen(state("a"), state("b", in_flight=1), state("c", in_flight=1), draw=Draw(0.9, 0.9))
    assert order(decision) == ["a", "b", "c"]
    assert decision.propensity == 1.0


# Who is out


def test_unavailable_backends_are_out_and_say_why() -> None:
    states = [
        state("down", healthy=False, reason="/metrics: ConnectError"),
        state("full", in_flight=4, max_in_flight=4),
        state("up", in_flight=200),
    ]
    decision = chosen(*states)
    assert order(decision) == ["up"]
    assert decision.rejected == (
        Rejected("down", reasons.UNHEALTHY, "/metrics: ConnectError"),
        Rejected("full", reasons.FULL, "4 requests in flight, its limit"),
    )


def test_a_backend_that_the_route_does_not_name_is_out_whatever_else_it_is() -> None:
    states = [state("a"), state("b"), state("down", healthy=False), spec("refusing", refuses=REFUSES)]
    decision = chosen(*states, by=route(prefer=prefer("a")), parameters=ASKS)
    assert {one.backend: one.reason for one in decision.rejected} == dict.fromkeys(
        ["b", "down", "refusing"], reasons.NOT_PREFERRED
    )
    assert {one.detail for one in decision.rejected} == {"route all does not name it"}


def test_a_capable_backend_is_taken_before_a_preferred_one_that_would_refuse() -> None:
    states = [spec("fast", refuses=REFUSES), state("plain", in_flight=255)]
    decision = chosen(*states, by=route(prefer=prefer("fast", "plain")), parameters=ASKS)
    assert order(decision) == ["plain"]
    assert decision.reason == reasons.ONLY_CANDIDATE
    assert decision.rejected == (Rejected("fast", reasons.REFUSES_PARAMETER, "refuses min_p"),)


def test_where_nobody_is_capable_the_server_answers_for_itself() -> None:
    states = [spec("a", refuses=REFUSES, in_flight=1), spec("b", refuses=REFUSES), state("c", healthy=False)]
    decision = chosen(*states, parameters=ASKS)
    assert order(decision) == ["b", "a"]
    assert decision.reason == reasons.NONE_CAPABLE
    assert {one.backend: one.reason for one in decision.rejected} == {
        "a": reasons.REFUSES_PARAMETER, "b": reasons.REFUSES_PARAMETER, "c": reasons.UNHEALTHY,
    }  # fmt: skip


def test_an_incapable_backend_that_the_route_does_not_name_does_not_answer() -> None:
    no = refused(spec("a", refuses=REFUSES), by=route(prefer=prefer("b")), parameters=ASKS)
    assert no.kind == reasons.ALL_REJECTED


# Nobody


def test_when_all_are_full_the_client_may_try_again() -> None:
    no = refused(state("a", in_flight=1, max_in_flight=1), state("b", healthy=False, reason="reset"))
    assert no.kind == reasons.ALL_REJECTED
    assert no.busy
    assert no.route == "all"
    assert no.detail == "a: 1 requests in flight, its limit; b: reset"
    assert [one.reason for one in no.rejected] == [reasons.FULL, reasons.UNHEALTHY]
    assert (no.policy_revision, no.fleet_revision) == ("policy-1", "fleet-1")


def test_when_all_are_down_it_is_not_busy() -> None:
    no = refused(state("a", healthy=False, reason="reset"))
    assert (no.kind, no.busy) == (reasons.ALL_REJECTED, False)


def test_when_all_are_left_alone_for_a_time_the_client_is_told_how_long() -> None:
    asked = replace(state("a"), retry_at=NOW + 9.0)
    no = refused(asked, state("b", healthy=False, reason="reset"))
    assert (no.busy, no.back_in) == (True, 9.0)
    broken = replace(state("a"), breaker=Breaker("trial_failed", until=NOW + 7.0))
    no = refused(broken)
    assert (no.busy, no.back_in, no.rejected[0].reason) == (False, 7.0, reasons.BREAKER_OPEN)


def test_a_server_that_is_back_takes_what_it_may_so_far() -> None:
    warming = replace(
        state("a", in_flight=1, max_in_flight=8), breaker=Breaker(since=NOW, warm_at=NOW + 10.0)
    )
    no = refused(warming)
    assert (no.busy, no.back_in, no.rejected[0].reason) == (True, None, reasons.WARMING_UP)


FLIPS = route(
    prefer=(Selector("low", max_in_flight=11), Selector("high"), Selector("low")),
    scorers=(WeightedScorer("preference", 1.0),),
)


@pytest.mark.parametrize(("low", "first"), [(0, "low"), (10, "low"), (11, "high"), (40, "high")])
def test_who_is_preferred_may_change_with_its_load(low: int, first: str) -> None:
    decision = chosen(state("low", in_flight=low), state("high", in_flight=3), by=FLIPS)
    assert decision.candidates[0].backend == first
    assert len(decision.candidates) == 2


def test_requests_that_others_sent_count_too() -> None:
    seen = state("low", load=load(running=11, at=NOW - 1.0))
    assert chosen(seen, state("high"), by=FLIPS).candidates[0].backend == "high"
    old = state("low", load=load(running=11, at=NOW - 60.0))
    assert chosen(old, state("high"), by=FLIPS).candidates[0].backend == "low"


def test_a_route_may_let_a_server_have_only_so_many() -> None:
    most = route(prefer=(Selector("low", max_in_flight=2),))
    assert chosen(state("low", in_flight=1), by=most).candidates[0].backend == "low"
    no = refused(state("low", in_flight=2), by=most)
    assert (no.kind, no.busy) == (reasons.ALL_REJECTED, True)
    said = "2 requests in flight, more than route all lets it have"
    assert no.rejected == (Rejected("low", reasons.FULL, said),)


def test_who_is_pinned_counts_whatever_its_load() -> None:
    most = route(prefer=(Selector("low", max_in_flight=2),))
    assert chosen(state("low", in_flight=9), by=most, backend="low").candidates[0].backend == "low"


def test_a_full_backend_that_the_route_does_not_name_is_no_hope() -> None:
    full = state("full", in_flight=1, max_in_flight=1)
    no = refused(state("a", healthy=False, reason="reset"), full, by=route(prefer=prefer("a")))
    assert not no.busy


def test_an_unknown_model_is_answered_with_those_there_are() -> None:
    no = refused(state("a"), state("b", target="org/Other"), model="gpt")
    assert no.kind == reasons.UNKNOWN_MODEL
    assert no.detail == "The model `gpt` does not exist; there are: org/Other, org/Tiny, tiny"
    assert (no.busy, no.rejected) == (False, ())


def test_an_alias_without_servers_is_an_empty_pool() -> None:
    no = refused(state("a", target="org/Other"))
    assert (no.kind, no.detail) == (reasons.EMPTY_POOL, "no backend serves `tiny`")


def test_an_empty_fleet_is_an_empty_pool() -> None:
    assert refused(model="").kind == reasons.EMPTY_POOL
    assert refused(model="").detail == "the fleet is empty"
    assert refused().kind == reasons.EMPTY_POOL


def test_a_request_that_no_route_takes_is_refused() -> None:
    no = refused(state(), by=route(match=Match(stream=False)))
    assert (no.kind, no.route) == (reasons.NO_ROUTE, None)
    assert no.detail == "no route of the policy takes this request"


# The caller's choice


def test_the_caller_may_choose_a_backend_that_no_route_prefers() -> None:
    states = [state("a"), state("b", in_flight=200)]
    decision = chosen(*states, by=route(prefer=prefer("a")), backend="b")
    assert order(decision) == ["b"]
    assert (decision.reason, decision.propensity) == (reasons.PINNED, 1.0)
    assert decision.rejected == (Rejected("a", reasons.NOT_PINNED, "the caller chose b"),)
    assert decision.candidates[0].parts[0] == CostPart("preference", 0.0, 1.0)


def test_a_chosen_backend_that_is_not_capable_answers_for_itself() -> None:
    decision = chosen(state("a"), spec("b", refuses=REFUSES), backend="b", parameters=ASKS)
    assert order(decision) == ["b"]
    assert decision.reason == reasons.PINNED


@pytest.mark.parametrize(
    ("given", "busy"), [({"healthy": False, "reason": "reset"}, False), ({"in_flight": 256}, True)]
)
def test_a_chosen_backend_that_is_out_is_not_replaced(given: dict[str, Any], busy: bool) -> None:
    no = refused(state("a"), state("b", **given), backend="b")
    assert (no.kind, no.busy) == (reasons.ALL_REJECTED, busy)


def test_what_a_server_holds_goes_to_it_even_where_callers_may_not_choose() -> None:
    rules = policy(route(prefer=prefer("a"), baseline_share=0.5), allow_pin=False)
    decision = chosen(state("a"), state("b", in_flight=200), by=rules, backend="b", held=True)
    assert order(decision) == ["b"]
    assert (decision.reason, decision.propensity) == (reasons.HOLDER, 1.0)
    assert decision.rejected == (Rejected("a", reasons.NOT_HOLDER, "b holds the response that is asked for"),)


def test_what_a_server_holds_that_is_out_nobody_else_is_asked_for() -> None:
    no = refused(state("a"), state("b", healthy=False, reason="reset"), backend="b", held=True)
    assert (no.kind, no.busy) == (reasons.ALL_REJECTED, False)
    assert no.detail.endswith("no other holds the response that is asked for")


def test_a_policy_may_forbid_the_choice() -> None:
    no = refused(state("a"), by=policy(allow_pin=False), backend="a")
    assert no.kind == reasons.PIN_NOT_ALLOWED
    assert no.route == "all"


def test_only_a_backend_of_the_model_can_be_chosen() -> None:
    no = refused(state("a"), state("b"), state("x", target="org/Other"), backend="x")
    assert (no.kind, no.busy) == (reasons.UNKNOWN_BACKEND, False)
    assert no.detail == "no backend of this model has the name asked for; there are: a, b"


# The baseline's share

EXPLORE = Draw(explore=0.05, tie=0.0)
SHARED = route(prefer=(Selector(method="mtp"), ANY), baseline_share=0.1)


def test_a_share_of_the_requests_goes_to_the_baseline() -> None:
    decision = chosen(spec("fast"), state("plain", in_flight=9), by=SHARED, draw=EXPLORE)
    assert order(decision) == ["plain", "fast"]
    assert (decision.reason, decision.propensity) == (reasons.BASELINE_SHARE, 0.1)


@pytest.mark.parametrize("explore", [0.1, 0.5, 0.999])
def test_the_others_go_where_they_would_and_know_their_chance(explore: float) -> None:
    decision = chosen(spec("fast"), state("plain", in_flight=9), by=SHARED, draw=Draw(explore, 0.0))
    assert order(decision) == ["fast", "plain"]
    assert (decision.reason, decision.propensity) == (reasons.LOWEST_COST, 0.9)


def test_a_baseline_that_the_route_does_not_name_takes_part_in_its_share_only() -> None:
    by = replace(SHARED, prefer=prefer("fast"))
    states = [spec("fast"), state("plain"), state("other")]
    explored = chosen(*states, by=by, draw=EXPLORE)
    assert order(explored) == ["plain", "other", "fast"]
    assert explored.propensity == pytest.approx(0.05)
    assert explored.candidates[0].parts[0] == CostPart("preference", 1.0, 1.0)
    assert explored.rejected == ()
    usual = chosen(*states, by=by)
    assert order(usual) == ["fast"]
    assert (usual.reason, usual.propensity) == (reasons.ONLY_CANDIDATE, 0.9)
    assert [one.reason for one in usual.rejected] == [reasons.NOT_PREFERRED] * 2


def test_a_baseline_that_the_route_does_not_name_ranks_after_the_last_that_it_names() -> None:
    by = replace(SHARED, prefer=(*prefer("z", "fast"), Selector(method="eagle3"), Selector("slow")))
    states = [spec("fast"), state("plain"), spec("slow")]
    explored = chosen(*states, by=by, draw=EXPLORE)
    assert order(explored) == ["plain", "fast", "slow"]
    assert [one.parts[0].value for one in explored.candidates] == [2.0, 0.0, 1.0]


def test_where_the_baseline_is_best_anyway_there_is_nothing_to_share() -> None:
    decision = chosen(spec("fast", in_flight=200), state("plain"), by=SHARED, draw=EXPLORE)
    assert order(decision) == ["plain", "fast"]
    assert (decision.reason, decision.propensity) == (reasons.LOWEST_COST, 1.0)


def test_no_share_no_baseline() -> None:
    decision = chosen(
        spec("fast"), state("plain"), by=replace(SHARED, baseline_share=0.0), draw=Draw(0.0, 0.0)
    )
    assert order(decision) == ["fast", "plain"]
    assert decision.propensity == 1.0


@pytest.mark.parametrize(
    "out",
    [
        {"healthy": False},
        {"in_flight": 256},
        {"refuses": REFUSES},
        {"method": "ngram"},
        {"target": "org/Other"},
    ],
)
def test_only_a_baseline_that_can_take_the_request_gets_its_share(out: dict[str, Any]) -> None:
    decision = chosen(spec("fast"), state("plain", **out), by=SHARED, draw=EXPLORE, parameters=ASKS)
    assert order(decision)[0] == "fast"
    assert decision.propensity == 1.0


def test_the_share_is_not_taken_from_a_request_that_nobody_can_answer() -> None:
    by = replace(SHARED, prefer=prefer("fast"))
    decision = chosen(spec("fast", refuses=REFUSES), state("plain"), by=by, draw=EXPLORE, parameters=ASKS)
    assert order(decision) == ["fast"]
    assert (decision.reason, decision.propensity) == (reasons.NONE_CAPABLE, 1.0)


def test_the_callers_choice_comes_before_the_share() -> None:
    decision = chosen(spec("fast"), state("plain"), by=SHARED, draw=EXPLORE, backend="fast")
    assert order(decision) == ["fast"]
    assert (decision.reason, decision.propensity) == (reasons.PINNED, 1.0)


@pytest.mark.parametrize(
    ("by", "states"),
    [
        # A baseline and a speculating server cost the same.
        (route(scorers=BY_LOAD, baseline_share=0.2), [spec("fast"), state("plain")]),
        # Two of each cost the same; the second pair is costlier.
        (
            route(scorers=BY_LOAD, baseline_share=0.3),
            [
                spec("f1"),
                state("p1"),
                spec("f2"),
                state("p2"),
                spec("f3", in_flight=1),
                state("p3", in_flight=1),
            ],
        ),
        # A baseline that the route does not name is cheaper than the one it names.
        (
            route(scorers=BY_LOAD, prefer=prefer("fast", "p1"), baseline_share=0.25),
            [spec("fast", in_flight=1), state("p1", in_flight=1), state("p2")],
        ),
    ],
)
def test_the_propensity_is_the_probability_where_a_baseline_is_among_the_equals(
    by: Route, states: list[BackendState]
) -> None:
    steps = 60  # a multiple of every number of equals and of the denominators of the shares
    draws = [Draw((i + 0.5) / steps, (j + 0.5) / steps) for i in range(steps) for j in range(steps)]
    decisions = [chosen(*states, by=by, draw=draw) for draw in draws]
    shares = {name: n / len(draws) for name, n in Counter(order(one)[0] for one in decisions).items()}
    said = {(order(one)[0], one.propensity) for one in decisions}
    assert dict(said) == pytest.approx(shares)
    assert len({(name, round(propensity, 9)) for name, propensity in said}) == len(shares)
