"""What holds of every decision, whatever the fleet, the policy and the draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gateway.core import predict, reasons
from gateway.core.breaker import Breaker
from gateway.core.classify import Classification
from gateway.core.curve import affine
from gateway.core.decide import Decision, Draw, NoCandidate, decide
from gateway.core.filters import incapable, unavailable
from gateway.core.fleet import Guide
from gateway.core.plan import Limits
from gateway.core.policy import AUTO, CANARY, Learning, Route, Selector, WeightedScorer
from gateway.core.predict import SAMPLED, Cell, ServerModel
from gateway.core.scorers import Costing, seconds
from gateway.core.selectors import selects
from gateway.core.standing import Standing
from tests.factories import ANY, TARGET, classification, features, load, policy, route, snapshot, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NOW = 100.0
UNIT = st.floats(0.0, 1.0, exclude_max=True)
DRAWS = st.builds(Draw, UNIT, UNIT)
LOADS = st.none() | st.builds(
    load, running=st.integers(0, 20), waiting=st.integers(0, 9), at=st.floats(NOW - 20.0, NOW)
)
BREAKERS = st.sampled_from([
    *(Breaker(),) * 6, Breaker("trial_failed", until=NOW + 9.0), Breaker("trial_failed", until=NOW),
    Breaker(since=NOW - 4.0, warm_at=NOW + 4.0),
])  # fmt: skip
STATES = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["none", "mtp", "eagle3"]),
        "in_flight": st.integers(0, 8),
        "max_in_flight": st.just(8),
        "healthy": st.sampled_from([True, True, True, False]),
        "breaker": BREAKERS,
        "retry_at": st.sampled_from([*(0.0,) * 6, NOW + 3.0]),
        "load": LOADS,
        "refuses": st.sampled_from([frozenset(), frozenset({"min_p"})]),
        "target": st.sampled_from(["org/Tiny"] * 5 + ["org/Other"]),
    }
)
SELECTORS = st.sampled_from([ANY, *map(Selector, "abcdef"), Selector(method="mtp"), Selector(method="none")])
ROUTES = st.builds(
    route,
    prefer=st.lists(SELECTORS, min_size=1, max_size=4).map(tuple),
    scorers=st.lists(
        st.builds(
            WeightedScorer, st.sampled_from(["preference", "load"]), st.sampled_from([0.0, 0.5, 1.0, 4.0])
        ),
        min_size=1,
        max_size=2,
    ).map(tuple),
    baseline_share=st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0]),
    max_attempts=st.integers(1, 4),
)
REQUESTS = st.fixed_dictionaries(
    {
        "parameters": st.sampled_from([frozenset(), frozenset({"min_p"})]),
        "model": st.sampled_from(["tiny", "tiny", "org/Tiny", "", "unknown"]),
        "backend": st.sampled_from([None, None, None, "a", "z"]),
    }
)


@st.composite
def fleets(draw: st.DrawFn, min_size: int = 0) -> tuple[BackendState, ...]:
    given: list[dict[str, Any]] = draw(st.lists(STATES, min_size=min_size, max_size=6))
    return tuple(state(name, **fields) for name, fields in zip("abcdef", given, strict=False))


def ask(states: tuple[BackendState, ...], by: Route, draw: Draw, **request: Any) -> Decision | NoCandidate:
    return decide(features(**request), classification(), snapshot(*states), policy(by), draw, NOW)


def planned(decision: Decision | NoCandidate) -> Decision:
    """Only cases in which somebody can take the request count."""
    assume(isinstance(decision, Decision))
    assert isinstance(decision, Decision)
    return decision


def order(decision: Decision) -> list[str]:
    return [one.backend for one in decision.candidates]


@given(fleets(), ROUTES, DRAWS, REQUESTS)
def test_the_same_inputs_give_the_same_decision(
    states: tuple[BackendState, ...], by: Route, draw: Draw, request: dict[str, Any]
) -> None:
    assert ask(states, by, draw, **request) == ask(states, by, draw, **request)


@given(fleets(), ROUTES, DRAWS, REQUESTS)
def test_a_plan_holds_only_available_backends_of_the_target_each_once(
    states: tuple[BackendState, ...], by: Route, draw: Draw, request: dict[str, Any]
) -> None:
    decision = planned(ask(states, by, draw, **request))
    known = {one.backend.name: one for one in states}
    names = order(decision)
    assert names
    assert len(set(names)) == len(names)
    assert all(known[name].available(NOW) for name in names)
    if decision.target:
        assert {known[name].backend.target for name in names} == {decision.target}
    assert decision.reason in reasons.CHOICES
    assert 0.0 < decision.propensity <= 1.0


@given(fleets())
def test_what_is_not_available_says_why(states: tuple[BackendState, ...]) -> None:
    for one in states:
        why = unavailable(one, NOW)
        assert (why is None) is one.available(NOW)
        assert why is None or why[0] in reasons.REJECTIONS


@given(fleets(), ROUTES, DRAWS, REQUESTS)
def test_every_backend_of_the_target_is_in_the_plan_or_rejected(
    states: tuple[BackendState, ...], by: Route, draw: Draw, request: dict[str, Any]
) -> None:
    decision = ask(states, by, draw, **request)
    if isinstance(decision, NoCandidate):
        assert decision.kind in reasons.REFUSALS
        assume(decision.kind == reasons.ALL_REJECTED)
        names: list[str] = []
    else:
        names = order(decision)
    target = {"": None, "tiny": "org/Tiny"}.get(request["model"], request["model"])
    pool = {one.backend.name for one in states if target in (None, one.backend.target)}
    rejected = [one.backend for one in decision.rejected]
    assert len(set(rejected)) == len(rejected)
    assert {*names, *rejected} == pool
    assert {one.reason for one in decision.rejected} <= set(reasons.REJECTIONS)
    if isinstance(decision, NoCandidate) or decision.reason not in (reasons.NONE_CAPABLE, reasons.PINNED):
        assert not set(names) & set(rejected)


@given(fleets(min_size=2), ROUTES, DRAWS, REQUESTS)
def test_a_capable_backend_always_precedes_an_incapable_one(
    states: tuple[BackendState, ...], by: Route, draw: Draw, request: dict[str, Any]
) -> None:
    decision = planned(ask(states, by, draw, **request))
    asked = features(**request)
    known = {one.backend.name: one for one in states}
    able = [incapable(known[name], asked, NOW) is None for name in order(decision)]
    assert able == sorted(able, reverse=True)
    usable = [
        one.backend.name
        for one in states
        if request["backend"] is None
        and decision.target in ("", one.backend.target)
        and any(selects(selector, one.backend) for selector in by.prefer)
        and unavailable(one, NOW) is None
        and incapable(one, asked, NOW) is None
    ]
    assert not usable or able[0]
    assert set(usable) <= set(order(decision))


def place(name: str, states: tuple[BackendState, ...], by: Route, draw: Draw) -> float:
    """Place of a backend in the plan, 0 first; infinite where it is not in it."""
    decision = ask(states, by, draw)
    names = order(decision) if isinstance(decision, Decision) else []
    return names.index(name) if name in names else float("inf")


@given(fleets(min_size=1), ROUTES, DRAWS, REQUESTS)
def test_ranks_have_no_gaps_and_do_not_depend_on_servers_of_other_targets(
    states: tuple[BackendState, ...], by: Route, draw: Draw, request: dict[str, Any]
) -> None:
    by = replace(by, scorers=(WeightedScorer("preference", 1.0),), baseline_share=0.0)
    fit = tuple(replace(one, in_flight=0, healthy=True, breaker=Breaker(), retry_at=0.0) for one in states)
    decision = planned(ask(fit, by, draw, model=request["model"]))
    ranks = [one.cost for one in decision.candidates]
    assert {*ranks} == {float(one) for one in range(len({*ranks}))}
    pool = tuple(one for one in states if decision.target in ("", one.backend.target))
    assert ask(pool, by, draw, **request) == ask(states, by, draw, **request)


@settings(max_examples=600)  # most differences that are drawn change no place
@given(fleets(min_size=2), ROUTES, DRAWS, st.data())
def test_less_load_or_better_health_never_lowers_a_place(
    states: tuple[BackendState, ...], by: Route, draw: Draw, data: st.DataObject
) -> None:
    by = replace(by, baseline_share=0.0)
    at = data.draw(st.integers(0, len(states) - 1))
    one = states[at]
    better = replace(
        one,
        in_flight=data.draw(st.integers(0, one.in_flight)),
        healthy=True,
        retry_at=0.0,
        breaker=data.draw(st.sampled_from([one.breaker, Breaker()])),
    )
    if one.load is not None:
        fewer = replace(
            one.load,
            running=data.draw(st.integers(0, one.load.running)),
            waiting=data.draw(st.integers(0, one.load.waiting)),
        )
        better = replace(better, load=fewer)
    name = one.backend.name
    improved = (*states[:at], better, *states[at + 1 :])
    assert place(name, improved, by, draw) <= place(name, states, by, draw)


@given(fleets(min_size=2), ROUTES, DRAWS, st.data())
def test_a_better_rank_never_lowers_a_place(
    states: tuple[BackendState, ...], by: Route, draw: Draw, data: st.DataObject
) -> None:
    by = replace(by, baseline_share=0.0, prefer=(*map(Selector, data.draw(st.permutations("abcdef"))),))
    at = data.draw(st.integers(0, len(by.prefer) - 1))
    chosen = by.prefer[at]
    others = (*by.prefer[:at], *by.prefer[at + 1 :])
    to = data.draw(st.integers(0, at))
    better = replace(by, prefer=(*others[:to], chosen, *others[to:]))
    name = chosen.name or ""
    assert place(name, states, better, draw) <= place(name, states, by, draw)


@given(fleets(min_size=2), ROUTES, DRAWS, st.data())
def test_the_share_of_the_baseline_only_moves_baselines_forward(
    states: tuple[BackendState, ...], by: Route, draw: Draw, data: st.DataObject
) -> None:
    by = replace(by, baseline_share=data.draw(st.sampled_from([0.05, 0.5, 1.0])))
    draw = replace(draw, explore=0.0)
    explored = planned(ask(states, by, draw))
    assume(explored.reason == reasons.BASELINE_SHARE)
    usual = planned(ask(states, replace(by, baseline_share=0.0), draw))
    baselines = {one.backend.name for one in states if one.backend.is_baseline}
    assert order(explored)[0] in baselines
    assert [x for x in order(explored) if x not in baselines] == [
        x for x in order(usual) if x not in baselines
    ]


LENGTHS = ({"math": 100.0}, {"math": 400.0, "code": 50.0})
ACCEPTS: tuple[dict[Cell, float], ...] = (
    {},
    {Cell("math", 0, SAMPLED): 0.3},
    {Cell("code", 0, SAMPLED): 0.5},
)
MODELS = st.builds(
    ServerModel,
    fingerprint=st.sampled_from("xyz"),
    steps_per_token=st.sampled_from(ACCEPTS),
    other_steps_per_token=st.sampled_from([0.4, 1.0]),
    step_seconds=st.sampled_from([affine(0.02, 1.0), affine(0.01, 3.0)]),
    output_tokens=st.sampled_from(LENGTHS),
    spread=st.just({"math": 0.3}),
    measured=st.sampled_from([0.0, 100.0]),
)
LIKELY = Classification("math", 0.7, "model:m", {"math": 0.7, "code": 0.3})


@given(st.lists(st.tuples(MODELS, st.integers(0, 9)), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_what_a_server_is_predicted_to_take_does_not_depend_on_the_others(
    servers: list[tuple[ServerModel, int]], at_home: bool, limited: bool
) -> None:
    states = [
        state(name, model=model, in_flight=busy)
        for name, (model, busy) in zip("abcdef", servers, strict=False)
    ]
    standings = [Standing(one, NOW, 15.0) for one in states]
    request = predict.ask(features(prompt_chars=4000), LIKELY)
    home = predict.Home(states[-1].backend.name, 300.0) if at_home else None
    limits = Limits(ttft=0.05, tpot=0.01) if limited else None
    together = seconds(Costing(standings, [0] * len(standings), request, home, limits))
    assert together == [seconds(Costing([one], [0], request, home, limits))[0] for one in standings]


CHANGES = st.lists(st.none() | STATES, min_size=3, max_size=3)
"""What becomes of each of three servers; None where it stays as it was."""


@given(
    st.lists(st.tuples(CHANGES, DRAWS, st.floats(0.0, 20.0)), min_size=1, max_size=4), ROUTES,
    st.sampled_from([Learning(), Learning(CANARY, 0.5), Learning(AUTO, 1.0, explore=0.4)]),
    st.lists(MODELS, min_size=3, max_size=3),
)  # fmt: skip
def test_what_earlier_decisions_have_seen_changes_none(
    steps: list[tuple[list[dict[str, Any] | None], Draw, float]],
    by: Route,
    learning: Learning,
    models: list[ServerModel],
) -> None:
    methods = ("none", "mtp", "mtp")
    states = [
        state(name, method=how, model=one) for name, how, one in zip("abc", methods, models, strict=True)
    ]
    first = snapshot(*states, guide=Guide(explorable=frozenset({(TARGET, "math")})))
    rules, now = policy(by, learning=learning), NOW
    for changes, draw, later in ([[None] * 3, Draw(0.5, 0.5), 0.0], *steps):
        for at, change in enumerate(changes):
            if change is not None:
                model = states[at].model
                states[at] = state(
                    "abc"[at], model=model, **change | {"method": methods[at], "target": TARGET}
                )
        now += later
        seen, fresh = replace(first, states=tuple(states)), snapshot(*states, guide=first.guide)
        found, anew = (decide(features(), LIKELY, one, rules, draw, now) for one in (seen, fresh))
        assert found == anew


STEPS = 60
"""Draws a side: a multiple of every number of equal backends and of the denominators of the shares."""


@settings(max_examples=30)
@given(fleets(min_size=1), ROUTES)
@example(
    (state("a"), state("b", method="mtp"), state("c", method="mtp")),
    route(scorers=(WeightedScorer("load", 1.0),), baseline_share=0.5),
)
def test_propensities_are_the_shares_that_are_seen(states: tuple[BackendState, ...], by: Route) -> None:
    first: Counter[str] = Counter()
    said: dict[str, float] = {}
    for explore in range(0, STEPS, 3):
        for tie in range(STEPS):
            decision = planned(ask(states, by, Draw((explore + 0.5) / STEPS, (tie + 0.5) / STEPS)))
            name = order(decision)[0]
            first[name] += 1
            assert said.setdefault(name, decision.propensity) == decision.propensity
    assert said == pytest.approx({name: count / first.total() for name, count in first.items()})
