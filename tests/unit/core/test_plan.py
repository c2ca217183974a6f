from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gateway.core.curve import affine
from gateway.core.plan import MARGIN, TAIL, Kind, Limits, Plan, work
from gateway.core.predict import SAMPLED, Cell, ServerModel

MODEL = ServerModel(
    steps_per_token={Cell("code", 0, SAMPLED): 0.25},
    step_seconds=affine(0.02, 1.0),
    prefill_seconds=1e-4,
    start_steps=1.5,
    output_tokens={"code": 400.0, "chat": 300.0},
    prompt_tokens={"code": 1000.0},
)


def test_what_a_request_takes_follows_the_formula() -> None:
    found = work(MODEL, ("code", "chat"))
    assert found.sizes[0] == 1.0
    assert found.sizes[-1] == 256.0
    at = int(np.flatnonzero(found.sizes == 4.0)[0])
    step = MODEL.step(4)
    assert found.decode[at, 0] == pytest.approx(100 * step / 4)
    assert found.time[at, 0] == pytest.approx(100 * step / 4 + 0.1)
    assert found.stay[at, 0] == pytest.approx(4 * found.time[at, 0] + 1.5 * step)
    assert found.start[at, 0] == pytest.approx(1.5 * step + 0.1)
    assert found.token[at, 1] == pytest.approx(MARGIN * MODEL.step(4 + TAIL * 2))
    assert found.tokens == pytest.approx([400.0, 300.0])
    assert found.time[at, 1] > found.decode[at, 1], "a prompt of the usual length"


@pytest.mark.parametrize("limits", [Limits(tpot=0.035), Limits(ttft=0.1), Limits(ttft=9.0, tpot=0.035)])
def test_the_largest_batch_keeps_the_limits_and_the_next_does_not(limits: Limits) -> None:
    found = work(MODEL, ("chat",))
    weights = np.ones(1)
    most = found.most(limits, weights)
    assert 1 < most < 256
    at = int(np.flatnonzero(found.sizes == most)[0])

    def kept(place: int) -> bool:
        stretch = found.time[place, 0] / found.decode[place, 0]
        return bool(
            found.token[place, 0] * stretch <= (limits.tpot or math.inf)
            and found.start[place, 0] * stretch <= (limits.ttft or math.inf)
        )

    assert kept(at)
    assert not kept(at + 1)


def test_limits_that_nobody_can_keep_leave_no_room_and_none_leave_all() -> None:
    found = work(MODEL, ("chat",))
    assert found.most(Limits(tpot=0.001), np.ones(1)) == 0
    assert found.most(Limits(), np.ones(1)) == 256
    assert Limits(tpot=1.0).any
    assert not Limits().any


def test_what_was_not_measured_counts_as_kept() -> None:
    limits = Limits(ttft=1.0, tpot=0.02)
    assert limits.kept(1.0, 0.02)
    assert limits.kept(None, None)
    assert not limits.kept(1.1, 0.02)
    assert not limits.kept(1.0, 0.03)
    assert Limits().kept(9.0, 9.0)


def test_limits_can_be_scaled() -> None:
    assert Limits(ttft=1.0).scaled(0.5) == Limits(ttft=0.5)
    assert Limits(tpot=0.02).scaled(0.5) == Limits(tpot=0.01)


def test_a_plan_says_what_to_keep_for_whom() -> None:
    plan = Plan({"chat": frozenset("ab"), "bulk": frozenset("c")}, caps={"a": 4, "b": 4})
    assert plan.words == ("keep 2 servers for chat: a, b",)
    short = replace(plan, roles={"chat": frozenset("a")}, kept=0.6)
    assert short.words == (
        "keep 1 server for chat: a",
        "that holds 60% of what asks for limits: add servers or loosen them",
    )
    assert Plan().words == ()
    assert Plan(beyond=frozenset({"chat"})).words == ("no server keeps the limits of chat: loosen them",)


def test_a_plan_says_who_shares_servers_and_who_has_none() -> None:
    roles = {
        "chat": frozenset("a"),
        "loose": frozenset("a"),
        "tools": frozenset[str](),
        "bulk": frozenset("b"),
    }
    plan = Plan(roles, caps={"a": 4}, sharing=frozenset({"loose", "tools"}), beyond=frozenset({"chat"}))
    assert plan.words == (
        "keep 1 server for chat: a",
        "loose shares 1 server with stricter classes: a",
        "no server is kept for tools: it gets what others leave",
        "no server keeps the limits of chat: loosen them",
    )
    assert plan.alarms == plan.words[2:]


def test_a_plan_without_roles_says_that_it_holds_too_little() -> None:
    assert Plan(caps={"a": 4}, kept=0.6).words == (
        "the servers hold 60% of what asks for limits: add servers or loosen them",
    )


def test_kinds_are_told_apart_by_what_they_run_or_by_what_was_learnt_of_them() -> None:
    assert Kind(("a",), replace(MODEL, fingerprint="x")).configuration == "x"
    assert Kind(("a",), replace(MODEL, fingerprint="x"), "runs").configuration == "runs"
