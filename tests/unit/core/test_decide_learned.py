from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core import reasons
from gateway.core.choice import FEW
from gateway.core.classes import ServiceClass
from gateway.core.decide import Decision, Draw, NoCandidate, decide
from gateway.core.fleet import Guide
from gateway.core.plan import Limits, Plan
from gateway.core.policy import AUTO, CANARY, SHADOW, Learning, WeightedScorer
from gateway.core.predict import Home, ServerModel
from tests.factories import TARGET, classification, features, policy, prefer, route, snapshot, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState
    from gateway.core.policy import Route

NOW = 100.0
FAST = ServerModel("fast", other_steps_per_token=0.25, measured=100.0)
SLOW = ServerModel("slow", other_steps_per_token=1.0, measured=100.0)
RIVAL = replace(FAST, fingerprint="rival", other_steps_per_token=0.27, spread={"math": 0.2})
BY_ROUTE = route(prefer=prefer("slow", "fast"))
FLEET = (state("fast", model=FAST, method="mtp", draft_tokens=4), state("slow", model=SLOW))
AUTOMATIC = Learning(AUTO, 1.0)


def ask(
    *states: BackendState,
    learning: Learning = AUTOMATIC,
    by: Route = BY_ROUTE,
    draw: Draw | None = None,
    guide: Guide | None = None,
    home: Home | None = None,
    service: ServiceClass | None = None,
    patience: float = 0.0,
    **given: Any,
) -> Decision | NoCandidate:
    return decide(
        features(**given),
        classification(),
        snapshot(*states, guide=guide),
        policy(by, learning=learning),
        draw or Draw(0.999, 0.0),
        NOW,
        home,
        service,
        patience=patience,
    )


def names(decision: Decision | NoCandidate) -> list[str]:
    assert isinstance(decision, Decision)
    return [one.backend for one in decision.candidates]


def test_a_static_policy_decides_by_its_routes() -> None:
    decision = ask(*FLEET, learning=Learning())
    assert names(decision) == ["slow", "fast"]
    assert isinstance(decision, Decision)
    assert (decision.shadow, decision.service) == ("", "default")


def test_an_automatic_one_by_predicted_seconds() -> None:
    decision = ask(*FLEET)
    assert names(decision) == ["fast", "slow"]
    assert isinstance(decision, Decision)
    assert decision.candidates[0].parts[0].scorer == "seconds"
    assert (decision.propensity, decision.shadow) == (1.0, "")


def test_a_shadow_notes_what_it_would_do() -> None:
    decision = ask(*FLEET, learning=Learning(SHADOW, 0.0))
    assert names(decision) == ["slow", "fast"]
    assert isinstance(decision, Decision)
    assert (decision.shadow, decision.propensity) == ("fast", 1.0)


def test_a_canary_decides_for_its_share_and_the_rest_say_what_it_would_do() -> None:
    learning = Learning(CANARY, 0.1)
    found: Counter[tuple[str, str, float]] = Counter()
    for at in range(2000):
        decision = ask(*FLEET, learning=learning, draw=Draw(0.5, at / 2003))
        assert isinstance(decision, Decision)
        found[decision.candidates[0].backend, decision.shadow, round(decision.propensity, 6)] += 1
    assert set(found) == {("fast", "", 0.1), ("slow", "fast", 0.9)}
    assert found["fast", "", 0.1] == pytest.approx(200, rel=0.2)


def test_the_baseline_keeps_its_share() -> None:
    by = replace(BY_ROUTE, baseline_share=0.05)
    decision = ask(*FLEET, by=by, draw=Draw(0.01, 0.0))
    assert names(decision)[0] == "slow"
    assert isinstance(decision, Decision)
    assert (decision.reason, decision.propensity) == (reasons.BASELINE_SHARE, 0.05)
    assert decision.lost == 0.0, "it did not go there to explore"


BASE = replace(FAST, fingerprint="base", other_steps_per_token=0.26, measured=1.0)
SPEC: dict[str, Any] = {"method": "mtp", "draft_tokens": 4}
THREE = (state("fast", model=FAST, **SPEC), state("rival", model=RIVAL, **SPEC), state("base", model=BASE))
BUSY = (replace(THREE[0], in_flight=2), *THREE[1:])
EXPLORABLE = frozenset({(TARGET, "math")})
TIGHT = ServiceClass("tight", limits=Limits(tpot=0.05))
PLANS = {TARGET: Plan({"tight": frozenset({"fast"}), "default": frozenset({"rival", "base"})}, {"fast": 4})}
REPLICAS = tuple(state(f"r{at}", model=FAST, **SPEC) for at in range(12))


@pytest.mark.parametrize("states", [THREE, BUSY, REPLICAS, (*REPLICAS, *THREE[1:])], ids=len)
@pytest.mark.parametrize(
    "learning",
    [replace(AUTOMATIC, explore=0.25), Learning(CANARY, 0.3, explore=0.25), Learning(SHADOW, 0.0)],
    ids=lambda one: one.mode,
)
@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("due", [frozenset[str](), EXPLORABLE], ids=["paid", "due"])
@pytest.mark.parametrize("plan", [{}, PLANS], ids=["alone", "roles"])
@pytest.mark.parametrize(
    "who", [{}, {"service": TIGHT}, {"home": Home("rival", 100.0)}], ids=["any", "tight", "home"]
)
def test_the_propensity_is_the_probability(
    states: tuple[BackendState, ...],
    learning: Learning,
    share: float,
    due: frozenset[str],
    plan: Any,
    who: Any,
) -> None:
    seen = snapshot(*states, guide=Guide(plan=plan, explorable=EXPLORABLE, due=due))
    rules = policy(route(baseline_share=share), learning=learning)
    request, label = features(), classification()
    came, said = Counter[str](), dict[str, set[float]]()
    total = 600
    for number in range(total):
        found = decide(request, label, seen, rules, Draw.nth(number), NOW, **who)
        assert isinstance(found, Decision)
        came[found.candidates[0].backend] += 1
        said.setdefault(found.candidates[0].backend, set()).add(round(found.propensity, 9))
    for name, count in came.items():
        assert all(one == pytest.approx(count / total, abs=0.03) for one in said[name]), name
    if len(states) <= FEW:  # of more, replicas are drawn, and the others are taken for such as those
        assert {len(ones) for ones in said.values()} == {1}, "the draw makes no difference"
        assert sum(one for (one,) in said.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("explore", [0.0, 0.999])
def test_what_may_come_first_by_seconds_and_by_the_share_has_both_chances(explore: float) -> None:
    alike = (state("base"), state("mtp", method="mtp", draft_tokens=4))
    decision = ask(*alike, by=route(baseline_share=0.5), draw=Draw(explore, 0.0))
    assert names(decision) == ["base", "mtp"]
    assert isinstance(decision, Decision)
    assert decision.propensity == 0.5 + 0.5 * 0.5


EXPLORING = Learning(AUTO, 1.0, 0.04)
RIVALS = (state("fast", model=FAST), state("rival", model=RIVAL))
MAY = Guide(explorable=frozenset({(TARGET, "math")}))


def test_a_small_share_goes_to_what_may_be_better() -> None:
    by = route(baseline_share=0.02)
    drawn = Draw(0.03, 0.0)
    decision = ask(*RIVALS, learning=EXPLORING, by=by, draw=drawn, guide=MAY)
    assert isinstance(decision, Decision)
    assert decision.candidates[0].backend == "rival"
    assert decision.reason == reasons.EXPLORES
    assert decision.propensity == pytest.approx(0.98 * 0.04, rel=0.05)
    assert decision.lost == pytest.approx(decision.candidates[0].cost - decision.candidates[1].cost)
    assert decision.lost > 0.0


@pytest.mark.parametrize(
    "kept_from",
    [
        {"guide": Guide()},
        {"last_role": "tool"},
        {"home": Home("fast", 10.0)},
        {"learning": AUTOMATIC},
    ],
)
def test_none_explores_without_budget_in_a_loop_or_in_a_conversation(kept_from: dict[str, Any]) -> None:
    may: dict[str, Any] = {"by": route(), "learning": EXPLORING, "draw": Draw(0.0, 0.0), "guide": MAY}
    assert names(ask(*RIVALS, **may))[0] == "rival"
    assert names(ask(*RIVALS, **may | kept_from))[0] == "fast"


@pytest.mark.parametrize(("tpot", "first"), [(0.33, "rival"), (0.26, "fast")])
def test_with_limits_only_servers_predicted_to_keep_them_are_explored(tpot: float, first: str) -> None:
    chat = ServiceClass("chat", limits=Limits(tpot=tpot * FAST.step(1.0)))
    may: dict[str, Any] = {"by": route(), "learning": EXPLORING, "draw": Draw(0.0, 0.0), "guide": MAY}
    decision = ask(*RIVALS, **may, service=chat)
    assert names(decision)[0] == first


DUE = Guide(due=frozenset({(TARGET, "math")}))


def test_a_baseline_that_is_due_gets_the_next_request() -> None:
    decision = ask(*FLEET, guide=DUE)
    assert names(decision) == ["slow", "fast"]
    assert isinstance(decision, Decision)
    assert (decision.reason, decision.propensity) == (reasons.BASELINE_SHARE, 1.0)


CANNOT_PAY = pytest.mark.parametrize(
    "kept_from",
    [
        {"by": route(prefer=prefer("fast"))},
        {"home": Home("fast", 1.0)},
        {"last_role": "tool"},
        {"service": ServiceClass("chat", limits=Limits(tpot=1.0))},
        {"guide": Guide(due=frozenset({("another model", "math")}))},
    ],
)


@CANNOT_PAY
def test_but_none_that_the_route_does_not_name_or_from_a_conversation(kept_from: dict[str, Any]) -> None:
    assert names(ask(*FLEET, **{"guide": DUE} | kept_from))[0] == "fast"


@CANNOT_PAY
def test_who_could_not_go_to_a_baseline_that_is_due_says_so(kept_from: dict[str, Any]) -> None:
    floored = replace(AUTOMATIC, floor=0.01)
    free = ask(*FLEET, learning=floored)
    kept = ask(*FLEET, **{"learning": floored} | kept_from)
    down = ask(FLEET[0], replace(FLEET[1], healthy=False), learning=floored)
    assert isinstance(free, Decision)
    assert isinstance(kept, Decision)
    assert isinstance(down, Decision)
    assert (free.pays, down.pays) == (True, False)
    assert kept.pays == ("guide" in kept_from), "another model's debt is none of ours"


def test_only_who_goes_by_predicted_seconds_says_how_many() -> None:
    by = route(scorers=(WeightedScorer("load", 1000.0),), baseline_share=0.05)
    learnt, by_share = (ask(*FLEET, by=by, draw=Draw(explore, 0.0)) for explore in (0.5, 0.01))
    by_route = ask(*FLEET, by=by, learning=Learning(SHADOW, 0.0), draw=Draw(0.5, 0.0))
    assert isinstance(learnt, Decision)
    assert isinstance(by_share, Decision)
    assert isinstance(by_route, Decision)
    assert learnt.seconds == learnt.candidates[0].cost > 0.0
    assert by_share.seconds == by_route.seconds == 0.0


CHAT = ServiceClass("chat", limits=Limits(tpot=1.0))
BULK = ServiceClass("bulk")
ROLES = Guide(plan={TARGET: Plan({"chat": frozenset({"a"}), "bulk": frozenset({"b", "c"})}, caps={"a": 2})})
WIDE = Guide(plan={TARGET: replace(ROLES.plan[TARGET], caps={"a": 9})})


def roles(
    service: ServiceClass, learning: Learning = AUTOMATIC, patience: float = 0.0, **busy: int
) -> Decision | NoCandidate:
    states = [state(name, model=FAST, in_flight=count) for name, count in busy.items()]
    return ask(*states, by=route(), guide=ROLES, service=service, learning=learning, patience=patience)


def test_a_class_with_limits_goes_to_its_servers_and_may_fall_back_to_others() -> None:
    decision = roles(CHAT, a=1, b=0, c=0)
    assert names(decision)[0] == "a"
    assert sorted(names(decision)) == ["a", "b", "c"]
    assert isinstance(decision, Decision)
    assert decision.service == "chat"


@pytest.mark.parametrize(
    ("explore", "first", "chance"), [(0.03, "rival", 0.04), (0.05, "fast", 0.96), (0.999, "fast", 0.96)]
)
def test_it_explores_among_its_servers_and_says_so(explore: float, first: str, chance: float) -> None:
    plan = Plan({"chat": frozenset({"fast", "rival"})})
    others = (state("spare", model=replace(RIVAL, spread={"math": 0.5})), state("worse", model=SLOW))
    guide = replace(MAY, plan={TARGET: plan})
    decision = ask(
        *RIVALS, *others, learning=EXPLORING, by=route(), draw=Draw(explore, 0.0), guide=guide, service=CHAT
    )
    assert isinstance(decision, Decision)
    assert names(decision)[0] == first
    assert names(decision)[2:] == ["spare", "worse"], "others last, by cost"
    assert (decision.reason == reasons.EXPLORES) == (first == "rival")
    assert decision.propensity == pytest.approx(chance)


def test_it_spills_over_when_its_servers_are_full() -> None:
    assert names(roles(CHAT, a=2, b=1, c=0))[0] == "c"


def test_before_that_it_waits_for_them_while_it_may() -> None:
    refused = roles(CHAT, a=2, b=1, c=0, patience=0.1)
    assert isinstance(refused, NoCandidate)
    assert (refused.kind, refused.busy, refused.back_in) == (reasons.ALL_REJECTED, True, None)
    assert {one.reason for one in refused.rejected} == {reasons.KEPT_FOR_OTHERS}
    assert names(roles(CHAT, a=1, b=1, c=0, patience=0.1))[0] == "a", "one has come free"


@pytest.mark.parametrize("learning", [Learning(), Learning(SHADOW, 0.0), Learning(CANARY, 0.0)])
def test_who_goes_by_the_routes_score_does_not_wait_for_them(learning: Learning) -> None:
    assert len(names(roles(CHAT, learning, a=2, b=1, c=0, patience=0.1))) == 3


def test_a_class_without_limits_stays_on_its_own() -> None:
    assert names(roles(BULK, a=1, b=5, c=6)) == ["b", "c"]


def test_it_takes_no_room_of_others_where_its_own_have_all_the_requests_they_may_have() -> None:
    own = [state(name, model=FAST, in_flight=4, max_in_flight=4) for name in "bc"]
    other = state("a", model=FAST, in_flight=1)
    refused = ask(*own, other, by=route(), guide=WIDE, service=BULK, learning=AUTOMATIC)
    assert isinstance(refused, NoCandidate)
    assert refused.busy
    assert names(ask(*own, other, by=route(), guide=WIDE, service=CHAT, learning=AUTOMATIC)) == ["a"]


def test_it_waits_where_others_have_no_room_for_it() -> None:
    refused = roles(BULK, a=2)
    assert isinstance(refused, NoCandidate)
    assert (refused.kind, refused.busy, refused.back_in) == (reasons.ALL_REJECTED, True, None)
    assert [(one.backend, one.reason) for one in refused.rejected] == [("a", reasons.KEPT_FOR_OTHERS)]


def test_roles_bind_only_who_goes_by_the_learnt_score() -> None:
    decision = roles(BULK, Learning(SHADOW, 0.0), a=2)
    assert names(decision) == ["a"]
