from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.plan import Kind, Limits, Plan, Wanted
from gateway.runtime.planner import DWELL, LOOK, URGENT, Planner, kinds_of
from tests.factories import SERVER_MODEL as MODEL
from tests.factories import TARGET, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NAMES = ("a", "b", "c", "d")
FOUR = [Kind(NAMES, MODEL)]
CHAT = Wanted("chat", Limits(tpot=0.018), {"chat": 4.0})
BUSY = replace(CHAT, rates={"chat": 40.0})
BULK = Wanted("bulk", Limits(), {"code": 1.0}, in_flight=400.0)


def test_roles_say_who_holds_what_and_caps_how_much() -> None:
    plan = Planner().plan(FOUR, [CHAT, BULK], 0.0)
    assert len(plan.roles["chat"]) == 1
    assert plan.roles["chat"] | plan.roles["bulk"] == set(NAMES)
    assert not plan.roles["chat"] & plan.roles["bulk"]
    assert set(plan.caps) == plan.roles["chat"]
    assert plan.kept == pytest.approx(1.0)
    assert plan.shares["bulk", "code"] == {"one": pytest.approx(1.0)}
    assert plan.prices["one"] > 0.0
    assert plan.tokens_per_second > 0.0


def test_who_goes_on_planning_for_another_leaves_servers_their_roles() -> None:
    there = {"chat": frozenset("b"), "bulk": frozenset("acd")}
    assert Planner().plan(FOUR, [CHAT, BULK], 0.0).roles != there
    planner = Planner()
    planner.follow(Plan(there, {"b": 8}))
    assert planner.plan(FOUR, [CHAT, BULK], 0.0).roles == there


def test_one_class_needs_no_roles() -> None:
    assert Planner().plan(FOUR, [BULK], 0.0).roles == {}
    only = Planner().plan(FOUR, [CHAT], 0.0)
    assert only.roles == {}
    assert set(only.caps) == set(NAMES)


def test_servers_keep_their_roles_while_these_are_good_enough() -> None:
    planner = Planner()
    first = planner.plan(FOUR, [CHAT, BULK], 0.0)
    again = planner.plan(FOUR, [replace(CHAT, rates={"chat": 4.4}), BULK], 1000.0)
    assert again.roles == first.roles


def test_more_of_a_class_takes_more_servers_and_the_others_stay() -> None:
    planner = Planner()
    first = planner.plan(FOUR, [CHAT, BULK], 0.0)
    later = planner.plan(FOUR, [BUSY, BULK], URGENT + 1.0)
    assert len(later.roles["chat"]) > 1
    assert first.roles["chat"] < later.roles["chat"]


def test_what_is_only_better_waits_and_what_is_missed_does_not() -> None:
    planner = Planner()
    planner.plan(FOUR, [BUSY, BULK], 0.0)
    early = planner.plan(FOUR, [CHAT, BULK], DWELL - 1.0)
    assert len(early.roles["chat"]) > 1, "a minute has not passed"
    late = planner.plan(FOUR, [CHAT, BULK], DWELL + 1.0)
    assert len(late.roles["chat"]) == 1


def test_a_server_that_comes_or_goes_is_planned_for_at_once() -> None:
    planner = Planner()
    planner.plan(FOUR, [CHAT, BULK], 0.0)
    fewer = planner.plan([Kind(NAMES[:3], MODEL)], [CHAT, BULK], 1.0)
    assert fewer.roles["chat"] | fewer.roles["bulk"] == set(NAMES[:3])
    more = planner.plan(FOUR, [CHAT, BULK], 2.0)
    assert more.roles["chat"] | more.roles["bulk"] == set(NAMES)


def test_a_class_that_comes_gets_its_servers_at_once() -> None:
    planner = Planner()
    planner.plan(FOUR, [BULK], 0.0)
    assert planner.plan(FOUR, [CHAT, BULK], 1.0).roles["chat"]


def test_a_class_that_goes_leaves_the_others_their_servers() -> None:
    def kinds(one: float) -> list[Kind]:
        other = replace(MODEL, fingerprint="two")
        return [Kind(("a", "b"), replace(MODEL, other_steps_per_token=one)), Kind(("c", "d"), other)]

    tools = Wanted("tools", Limits(tpot=0.012), {"code": 1.0})
    planner = Planner()
    first = planner.plan(kinds(0.42), [CHAT, tools, BULK], 0.0)
    later = planner.plan(kinds(0.38), [CHAT, BULK], 5.0)
    assert later.roles["chat"] == first.roles["chat"]
    assert later.roles["bulk"] == {*NAMES} - later.roles["chat"]
    assert Planner().plan(kinds(0.38), [CHAT, BULK], 5.0).roles["chat"] != later.roles["chat"]


def test_classes_that_come_in_another_order_are_the_same() -> None:
    tools = Wanted("tools", Limits(tpot=0.012), {"code": 4.0})
    planner = Planner()
    first = planner.plan(FOUR, [BUSY, tools, BULK], 0.0)
    less = replace(tools, rates={"code": 0.1})
    assert planner.plan(FOUR, [BULK, less, CHAT], 5.0).roles == first.roles


def test_a_class_whose_answers_miss_their_limits_gets_more_room_and_gives_it_back() -> None:
    planner = Planner()
    first = planner.plan(FOUR, [CHAT, BULK], 0.0)
    (server,) = first.roles["chat"]
    for at in range(1, 8):
        missed = planner.plan(FOUR, [replace(CHAT, kept=0.7, answers=100.0), BULK], at * (LOOK + 1.0))
    assert len(missed.roles["chat"]) > 1 or missed.caps[server] < first.caps[server]
    for at in range(8, 60):
        again = planner.plan(FOUR, [replace(CHAT, kept=1.0, answers=100.0), BULK], at * (LOOK + 1.0))
    assert len(again.roles["chat"]) == 1
    (server,) = again.roles["chat"]
    assert again.caps[server] >= first.caps[next(iter(first.caps))]


@pytest.mark.parametrize(
    ("taken", "looser"),
    [([1.0, 1.0, 1.0], True), ([0.8, 1.1, 0.9], True), ([0.7, 0.7, 0.7], False), ([0.7, 0.7, 1.1], False)],
    ids=["full", "full in the mean", "not full", "full only now"],
)
def test_only_answers_of_full_servers_make_plans_looser_than_limits(taken: list[float], looser: bool) -> None:
    planner, chat = Planner(), replace(CHAT, limits=Limits(tpot=0.013))
    first = planner.plan(FOUR, [chat, BULK], 0.0)
    (room,) = first.caps.values()
    planner.plan(FOUR, [replace(chat, in_flight=9.0 * room), BULK], 5.0)  # nobody knows yet what it keeps
    kept = replace(chat, kept=1.0, answers=100.0)
    planner.plan(FOUR, [replace(kept, in_flight=taken[0] * room), BULK], 10.0)
    for at, share in enumerate(taken):
        later = planner.plan(FOUR, [replace(kept, in_flight=share * room), BULK], 15.0 + 5.0 * at)
    assert list(later.caps) == list(first.caps)
    assert (sum(later.caps.values()) > room) is looser


def test_what_is_as_it_should_be_is_left_alone() -> None:
    planner = Planner()
    first = planner.plan(FOUR, [CHAT, BULK], 0.0)
    assert planner.plan(FOUR, [replace(CHAT, kept=0.92, answers=100.0), BULK], 20.0).caps == first.caps


def test_where_limits_are_missed_servers_are_added_and_none_is_swapped() -> None:
    other = replace(MODEL, fingerprint="two", other_steps_per_token=0.42)
    kinds = [Kind(("a", "b"), MODEL), Kind(("c", "d"), other)]
    planner = Planner()
    first = planner.plan(kinds, [CHAT, BULK], 0.0)
    faster = [Kind(("a", "b"), replace(MODEL, other_steps_per_token=0.45)), kinds[1]]
    later = planner.plan(faster, [BUSY, BULK], URGENT + 1.0)
    assert first.roles["chat"] < later.roles["chat"]


def test_for_little_a_class_does_not_move_to_other_servers() -> None:
    other = replace(MODEL, fingerprint="two", other_steps_per_token=0.5)
    planner = Planner()
    first = planner.plan([Kind(("a", "b"), MODEL), Kind(("c", "d"), other)], [CHAT, BULK], 0.0)
    better = replace(other, other_steps_per_token=0.36)
    later = planner.plan([Kind(("a", "b"), MODEL), Kind(("c", "d"), better)], [CHAT, BULK], DWELL + 1.0)
    assert later.roles == first.roles


def test_a_few_misses_among_few_answers_are_chance() -> None:
    planner = Planner()
    first = planner.plan(FOUR, [CHAT, BULK], 0.0)
    assert planner.plan(FOUR, [replace(CHAT, kept=0.85, answers=20.0), BULK], 20.0).caps == first.caps
    assert planner.plan(FOUR, [replace(CHAT, kept=0.85, answers=200.0), BULK], 40.0).caps != first.caps


def test_where_answers_keep_their_limits_a_forecast_alone_adds_no_server() -> None:
    more = replace(CHAT, rates={"chat": 14.0})
    for kept, servers in ((None, 2), (0.92, 1)):
        planner = Planner()
        planner.plan(FOUR, [CHAT, BULK], 0.0)
        later = planner.plan(FOUR, [replace(more, kept=kept, answers=100.0), BULK], URGENT + 1.0)
        assert len(later.roles["chat"]) == servers


def test_servers_are_given_back_before_they_are_swapped() -> None:
    two = replace(MODEL, fingerprint="two")
    planner = Planner()
    first = planner.plan([Kind(("a", "b"), MODEL), Kind(("c", "d"), two)], [BUSY, BULK], 0.0)
    better = replace(two, other_steps_per_token=0.42)
    later = planner.plan([Kind(("a", "b"), MODEL), Kind(("c", "d"), better)], [CHAT, BULK], DWELL + 1.0)
    assert later.roles["chat"] < first.roles["chat"]


def test_for_a_gain_that_some_give_back_makes_too_none_is_swapped() -> None:
    def kinds(one: float, two: float) -> list[Kind]:
        other = replace(MODEL, fingerprint="two", other_steps_per_token=two)
        return [Kind(("a", "b"), replace(MODEL, other_steps_per_token=one)), Kind(("c", "d"), other)]

    planner = Planner()
    first = planner.plan(kinds(0.3, 0.6), [CHAT, BULK], 0.0)
    later = planner.plan(kinds(0.5, 0.4), [CHAT, BULK], DWELL + 1.0)
    assert first.roles["chat"] == {"c", "d"}
    assert later.roles["chat"] == {"c"}


def test_servers_that_a_class_does_not_need_go_back_to_bulk_that_grows() -> None:
    chat = replace(CHAT, limits=Limits(tpot=0.012), rates={"chat": 0.3})
    planner = Planner()
    few = planner.plan(FOUR, [chat, replace(BULK, in_flight=2.0)], 0.0)
    many = planner.plan(FOUR, [chat, replace(BULK, in_flight=64.0)], DWELL + 1.0)
    assert len(few.roles["chat"]) > 1, "while there is little of it, nobody is in its way"
    assert len(many.roles["chat"]) == 1


def test_a_class_that_asks_for_little_keeps_a_server_however_much_that_costs_the_others() -> None:
    planner, tight = Planner(), Limits(tpot=1.05 * _least_tpot())
    for at, rate in enumerate((1.0, 0.02, 0.003, 0.001)):
        rare = replace(CHAT, limits=tight, rates={"chat": rate})
        plan = planner.plan(FOUR, [rare, BULK], at * (DWELL + 1.0))
        assert len(plan.roles["chat"]) == 1
        assert plan.kept == pytest.approx(1.0)


def test_a_class_gets_what_another_one_has_where_adding_does_not_help() -> None:
    kinds = [Kind(("a", "b"), MODEL), Kind(("c", "d"), replace(MODEL, fingerprint="two"))]
    tools = Wanted("tools", Limits(tpot=0.012), {"code": 1.0})
    planner = Planner()
    planner.follow(Plan({"chat": frozenset(NAMES), "tools": frozenset()}, dict.fromkeys(NAMES, 50)))
    planner.plan(kinds, [replace(CHAT, rates={"chat": 400.0}), tools, BULK], 0.0)
    later = planner.plan(kinds, [CHAT, replace(tools, rates={"code": 20.0}), BULK], DWELL + 1.0)
    assert later.roles["tools"]
    assert later.kept > 0.7


def test_a_server_that_cannot_keep_the_limits_of_its_class_any_more_is_not_said_to() -> None:
    quick, slow = replace(MODEL, start_steps=1.0), replace(MODEL, start_steps=2.0)
    here, there = ("a", "b"), ("c", "d")
    tools = Wanted("tools", Limits(ttft=0.025), {"code": 1.0})
    planner = Planner()
    before = [Kind(here, slow), Kind(there, replace(quick, fingerprint="two"))]
    assert planner.plan(before, [tools, BULK], 0.0).roles["tools"] < {*there}
    after = [Kind(here, quick), Kind(there, replace(slow, fingerprint="two"))]
    plan = planner.plan(after, [tools, BULK], URGENT - 1.0)
    assert (plan.roles["tools"], plan.roles["bulk"], plan.caps) == (frozenset(), {*NAMES}, {})
    assert plan.words[-1] == "no server is kept for tools: it gets what others leave"
    plan = planner.plan(after, [tools, BULK], URGENT + 1.0)
    assert plan.roles["tools"] < {*here}
    assert not plan.alarms


def test_a_class_whose_only_server_goes_gets_another_one_that_a_class_has() -> None:
    low = Wanted("low", Limits(tpot=0.012), {"code": 1.0})
    planner = Planner()
    plan = planner.plan([Kind(("a", "b"), MODEL)], [BUSY, low], 0.0)
    (gone,) = plan.roles["low"]
    left = [Kind(tuple({"a", "b"} - {gone}), MODEL)]
    assert not planner.plan(left, [BUSY, low], 5.0).roles["low"]
    assert planner.plan(left, [BUSY, low], URGENT + 1.0).roles["low"]


def test_limits_that_nobody_can_keep_take_no_room_from_others_where_little_asks_for_them() -> None:
    never = Wanted("never", Limits(tpot=1e-3), {"chat": 1e-3})
    plan = Planner().plan([Kind(("a",), MODEL)], [CHAT, never, BULK], 0.0)
    assert plan.caps["a"] > 30
    assert plan.roles["chat"] == {"a"}
    assert plan.alarms[-1] == "no server keeps the limits of never: loosen them"


def test_a_class_without_a_server_of_its_own_shares_those_of_a_stricter_one() -> None:
    strict = replace(CHAT, limits=Limits(tpot=0.012))
    loose = Wanted("loose", Limits(tpot=0.013), {"chat": 0.01})
    planner = Planner()
    plan = planner.plan([Kind(("a", "b"), MODEL)], [strict, loose, BULK], 0.0)
    (server,) = plan.roles["chat"]
    assert plan.roles["loose"] == {server}
    assert plan.words[1] == f"loose shares 1 server with stricter classes: {server}"
    other = Planner()
    other.follow(plan)
    assert other.plan([Kind(("a", "b"), MODEL)], [strict, loose, BULK], 0.0).roles == plan.roles


def test_a_plan_says_since_when_its_roles_hold() -> None:
    planner = Planner()
    assert planner.plan(FOUR, [CHAT, BULK], 3.0).since == 3.0
    assert planner.plan(FOUR, [CHAT, BULK], 8.0).since == 3.0


def test_kinds_that_differ_in_a_label_alone_run_the_same() -> None:
    def server(name: str, **given: object) -> BackendState:
        return state(name, model=MODEL, method="mtp", **given)

    states = [
        server("a", labels={"zone": "a"}, draft_tokens=2),
        server("b", labels={"zone": "b"}, draft_tokens=2),
        server("c", labels={"zone": "b"}, draft_tokens=2),
        server("d", labels={"zone": "b"}, draft_tokens=3),
    ]
    here, there, other = kinds_of(states, TARGET, 0.0)
    assert (here.backends, there.backends) == (("a",), ("b", "c"))
    assert here.runs == there.runs != other.runs


def test_a_plan_counts_on_no_more_requests_than_a_server_may_have() -> None:
    states = [state(name, model=MODEL, max_in_flight=6) for name in NAMES]
    (kind,) = kinds_of(states, TARGET, 0.0)
    wide = [replace(kind, room=256)]
    busy = replace(CHAT, rates={"chat": 8.0})
    assert len(Planner().plan(wide, [busy, BULK], 0.0).roles["chat"]) == 1
    plan = Planner().plan([kind], [busy, BULK], 0.0)
    assert len(plan.roles["chat"]) > 1
    assert set(plan.caps.values()) == {6}
    assert plan.tokens_per_second < Planner().plan(wide, [busy, BULK], 0.0).tokens_per_second


def test_replicas_that_may_have_more_or_fewer_requests_are_planned_apart_and_told_of_together() -> None:
    states = [
        state(name, model=MODEL, max_in_flight=n) for name, n in zip(NAMES, (2, 1000, 300, 2), strict=True)
    ]
    few, many = kinds_of(states, TARGET, 0.0)
    assert (few.backends, few.room) == (("a", "d"), 2)
    assert (many.backends, many.room) == (("b", "c"), MODEL.max_running), "more wait in the server"
    plan = Planner().plan([few, many], [BULK], 0.0)
    assert plan.shares["bulk", "code"] == {MODEL.fingerprint: pytest.approx(1.0)}
    assert plan.prices[MODEL.fingerprint] > 0.0


def test_limits_that_nobody_can_keep_are_not_said_to_be_kept() -> None:
    never = replace(CHAT, limits=Limits(tpot=1e-3))
    plan = Planner().plan(FOUR, [never, BULK], 0.0)
    assert plan.kept == 0.0
    assert plan.words[-1] == "no server keeps the limits of chat: loosen them"
    alone = Planner().plan(FOUR, [never], 0.0)
    assert alone.kept == 0.0
    assert alone.words == ("no server keeps the limits of chat: loosen them",)


def test_beside_limits_that_nobody_can_keep_those_of_others_are() -> None:
    never = Wanted("never", Limits(ttft=1e-9), {"chat": 4.0})
    plan = Planner().plan(FOUR, [CHAT, never, BULK], 0.0)
    assert plan.beyond == {"never"}
    assert plan.kept == pytest.approx(0.5)


def test_limits_that_are_too_tight_only_as_they_are_planned_can_be_kept() -> None:
    planner = Planner()
    just = replace(CHAT, rates={"chat": 0.1}, limits=Limits(tpot=_least_tpot()))
    for look in range(20):
        plan = planner.plan(FOUR, [replace(just, kept=0.5, answers=1000.0), BULK], look * LOOK)
    assert not plan.beyond
    assert plan.kept == pytest.approx(1.0)


def _least_tpot() -> float:
    """Seconds a token that a server just keeps with one request."""
    low, high = 1e-4, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        plan = Planner().plan(FOUR, [replace(CHAT, limits=Limits(tpot=middle))], 0.0)
        low, high = (middle, high) if plan.beyond else (low, middle)
    return high
