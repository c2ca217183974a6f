from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.classes import ServiceClass
from gateway.core.plan import Limits, Plan
from gateway.core.policy import Learning
from gateway.core.reasons import FULL, UNHEALTHY, WARMING_UP
from gateway.core.roles import inside, keeps_servers
from gateway.core.sorting import Rejected
from gateway.core.standing import Standing
from tests.factories import policy, route, state

CHAT = ServiceClass("chat", limits=Limits(tpot=0.02))
BULK = ServiceClass("bulk")
PLAN = Plan(roles={"chat": frozenset({"a", "b"}), "bulk": frozenset({"c", "d"})}, caps={"a": 4, "b": 4})


def places(
    service: ServiceClass,
    plan: Plan = PLAN,
    *,
    patience: float = 0.0,
    out: str = "",
    why: str = "",
    **busy: int,
) -> str:
    servers = [Standing(state(name, in_flight=count), 0.0, 15.0) for name, count in busy.items()]
    rejected = [Rejected(name, why, "in words") for name in out]
    return "".join(servers[at].name for at in inside(servers, plan, service, patience, rejected))


def test_each_class_goes_to_its_own_servers() -> None:
    assert places(CHAT, a=1, b=1, c=1, d=1) == "ab"
    assert places(BULK, a=1, b=1, c=1, d=1) == "cd"


def test_a_class_with_limits_leaves_full_servers_out_and_spills_over_when_all_are() -> None:
    assert places(CHAT, a=4, b=3, c=0, d=0) == "b"
    assert places(CHAT, a=4, b=4, c=9, d=9) == "abcd"
    assert places(CHAT, c=9, d=9) == "cd", "its own are down"


def test_a_class_without_limits_takes_idle_servers_of_others() -> None:
    assert places(BULK, a=0, b=1, c=9, d=9) == "acd"


def test_where_none_of_its_own_is_up_it_takes_part_of_the_room_or_waits() -> None:
    assert places(BULK, a=1, b=2) == "a"
    assert places(BULK, a=3, b=3) == ""


@pytest.mark.parametrize(("why", "up"), [(FULL, True), (WARMING_UP, True), (UNHEALTHY, False)])
def test_servers_that_have_all_the_requests_they_may_have_are_up(why: str, *, up: bool) -> None:
    assert places(BULK, out="cd", why=why, a=1, b=0) == ("b" if up else "ab")
    assert places(BULK, out="ab", why=why, d=9) == "d"
    assert places(CHAT, patience=0.1, out="ab", why=why, c=1, d=0) == ("" if up else "cd")
    assert places(CHAT, out="ab", why=why, c=1, d=0) == "cd", "it has waited"


def test_a_class_without_a_role_goes_everywhere() -> None:
    other = ServiceClass("other")
    assert places(other, a=9, c=9) == "ac"
    limited = ServiceClass("other", limits=Limits(ttft=1.0))
    assert places(limited, a=9, c=9) == "c", "but within the limits"
    assert places(limited, Plan(), a=9, c=9) == "ac"


def test_a_class_with_limits_waits_for_its_servers_while_it_has_patience() -> None:
    assert places(CHAT, patience=0.1, a=4, b=3, c=0, d=0) == "b", "not where one has room"
    assert places(CHAT, patience=0.1, a=4, b=5, c=0, d=0) == ""
    assert places(CHAT, patience=0.1, b=4, c=0, d=0) == "", "one of its own is enough to wait for"
    assert places(CHAT, patience=0.0, a=4, b=5, c=0, d=0) == "abcd"
    assert places(CHAT, patience=-0.1, a=4, b=5, c=0, d=0) == "abcd"


def test_without_a_server_of_its_own_it_never_waits() -> None:
    assert places(CHAT, patience=0.1, c=9, d=9) == "cd", "they are down"
    other = ServiceClass("other", limits=Limits(ttft=1.0))
    assert places(other, patience=0.1, a=9) == "a", "it has no role"
    assert places(CHAT, Plan(caps={"a": 4}), patience=0.1, a=9) == "a", "no class has any"


@pytest.mark.parametrize(
    ("share", "classes", "keeps"),
    [(1.0, (CHAT, BULK), True), (0.1, (CHAT,), True), (0.0, (CHAT, BULK), False), (1.0, (BULK,), False)],
)
def test_a_policy_keeps_servers_where_what_is_learnt_decides_and_a_class_has_limits(
    share: float, classes: tuple[ServiceClass, ...], *, keeps: bool
) -> None:
    given = replace(policy(route()), learning=Learning(share=share), classes=classes)
    assert keeps_servers(given) is keeps
