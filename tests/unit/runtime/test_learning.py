from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.core import reasons
from gateway.core.candidates import Candidate
from gateway.core.choice import LEARNED
from gateway.core.classes import DEFAULT, ServiceClass
from gateway.core.classify import Classification
from gateway.core.decide import Decision
from gateway.core.features import Hints
from gateway.core.observe import Progress
from gateway.core.outcome import Attempt, Outcome, Record, Speculation, Usage
from gateway.core.plan import Limits, Plan, Wanted
from gateway.core.policy import AUTO, FROZEN, STATIC, Policy
from gateway.core.policy import Learning as Settings
from gateway.core.predict import Home
from gateway.runtime import learning as module
from gateway.runtime.fleet import Fleet
from gateway.runtime.fleet_advice import FleetAdvice
from gateway.runtime.learning import Learning
from gateway.runtime.shared import Memory, Shared
from tests.factories import SERVER_MODEL, TARGET, backend, features, policy, record

CHAT = ServiceClass("chat", limits=Limits(tpot=0.018))
MATH = Classification("math", 0.9, "hint")
AUTOMATIC = Settings(AUTO, 1.0, explore=0.05, floor=0.01)
DRAFT = backend("a", method="mtp", draft_tokens=4)
PLAIN = backend("b")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stand:
    """Something that learns, on a clock that stands."""

    def __init__(
        self, settings: Settings = AUTOMATIC, *backends: Any, shared: Shared | None = None, **given: Any
    ) -> None:
        self.clock = Clock()
        self.fleet = Fleet(backends or (DRAFT, PLAIN), "f", now=self.clock)
        self.streams: list[Progress] = []
        self.policy: Policy = policy(learning=settings, **given)
        self.learning = Learning(
            self.fleet, self.policy, progress=lambda: self.streams, shared=shared, now=self.clock
        )

    def answer(self, name: str = "a", **outcome: Any) -> None:
        started = self.clock.now
        self.fleet.dispatched(name)
        self.learning.asked(CHAT, MATH, TARGET)
        self.clock.now += 4.5
        attempt = Attempt(name, "done", "", 200, started, self.clock.now)
        self.fleet.finished(name, attempt)
        self.learning.on_record(answered(name, attempt, **outcome))


def decision(first: str = "a", reason: str = reasons.LOWEST_COST) -> Decision:
    candidates = (Candidate(first, 5.0, (5.0,), LEARNED), Candidate("c", 4.0, (4.0,), LEARNED))
    return Decision("all", TARGET, candidates, (), reason, 1.0, 3, "p", "f", "chat", pays=True)


def answered(name: str, attempt: Attempt, **given: Any) -> Record:
    fields: dict[str, Any] = {
        "ttft": 0.5, "decode_seconds": 4.0, "events": 41, "usage": Usage(100, 101, 0),
        "speculation": Speculation("exact", steps=40, drafted=160, accepted=60),
    }  # fmt: skip
    done = record(Outcome("ok", 200, **fields | given), session="s")
    return replace(
        done, decision=decision(name), attempts=(attempt,), backend=name, method="mtp", draft_tokens=4,
        ended=attempt.ended,
    )  # fmt: skip


async def test_what_answers_tell_is_published_into_the_snapshot() -> None:
    stand = Stand()
    for _ in range(30):
        stand.answer()
    await stand.learning.renew()
    model = stand.learning.models["a"]
    assert model.step(1.0) == pytest.approx(0.1, rel=0.1)
    assert model.other_steps_per_token < 0.5
    assert stand.fleet.snapshot.states[0].model is model
    assert stand.learning.homes.of(Hints(session="s"), stand.clock.now) == Home("a", 201.0)


async def test_the_load_of_each_server_is_counted_at_every_publication() -> None:
    stand = Stand()
    await stand.learning.renew()
    stand.fleet.dispatched("a")
    stand.clock.now += 1e6
    await stand.learning.renew()
    assert [stand.learning.models[name].usual for name in "ab"] == [1.0, 0.0]


def test_a_policy_begins_with_what_its_file_says() -> None:
    stand = Stand(replace(AUTOMATIC, known={"a": SERVER_MODEL}))
    assert stand.learning.models["a"].step_seconds == pytest.approx(SERVER_MODEL.step_seconds)
    assert stand.learning.models["a"].prefill_seconds == SERVER_MODEL.prefill_seconds
    assert stand.learning.models["b"].prefill_seconds != SERVER_MODEL.prefill_seconds


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_new_server_does_not_take_the_place_of_what_the_file_says_of_the_others(names: str) -> None:
    servers = [replace(DRAFT, name=name) for name in names]
    stand = Stand(replace(AUTOMATIC, known={"b": SERVER_MODEL}), *servers)
    for model in stand.learning.models.values():
        assert model.other_output_tokens == SERVER_MODEL.other_output_tokens
        assert model.other_steps_per_token == pytest.approx(SERVER_MODEL.other_steps_per_token)


async def test_another_file_is_believed_from_the_start() -> None:
    first = replace(SERVER_MODEL, other_steps_per_token=0.9, other_output_tokens=100.0)
    other = replace(SERVER_MODEL, other_steps_per_token=0.3, other_output_tokens=900.0)
    stand = Stand(replace(AUTOMATIC, known={"a": first}))
    for _ in range(30):
        stand.answer()
    stand.learning.govern(stand.policy)
    await stand.learning.renew()
    assert stand.learning.models["a"].measured > 0.0, "the same file changes nothing"
    stand.learning.govern(policy(learning=replace(AUTOMATIC, known={"a": other})))
    model = stand.learning.models["a"]
    assert model.measured == 0.0
    assert not model.evidence
    assert model.other_steps_per_token == pytest.approx(0.3)
    assert model.other_output_tokens == 900.0


async def test_a_frozen_one_goes_by_it_alone() -> None:
    stand = Stand(Settings(FROZEN, 1.0, known={"a": SERVER_MODEL}))
    stand.answer()
    await stand.learning.look()
    await stand.learning.renew()
    assert stand.learning.models == {"a": SERVER_MODEL}


async def test_of_many_answers_of_a_server_enough_are_learnt_from() -> None:
    stand = Stand()
    attempt = Attempt("a", "done", "", 200, 100.0, 104.5)
    for _ in range(module.ENOUGH + 100):
        stand.learning.on_record(answered("a", attempt))
    await stand.learning.renew()
    assert stand.learning.models["a"].evidence["math"] < module.ENOUGH
    stand.learning.on_record(answered("a", attempt))
    before = stand.learning.models["a"].evidence["math"]
    await stand.learning.renew()
    assert stand.learning.models["a"].evidence["math"] > before


async def test_running_streams_tell_and_their_end_tells_the_rest() -> None:
    stand = Stand()
    stream = Progress("r", "a", features(prompt_chars=400), MATH, 100.0, 100.5, 102.5, 41)
    stand.streams = [stream]
    stand.clock.now = 102.5
    await stand.learning.look()
    await stand.learning.look()
    await stand.learning.renew()
    told = stand.learning.models["a"]
    assert told.measured > 0.0
    attempt = Attempt("a", "done", "", 200, 100.0, 103.5)
    stand.learning.on_record(answered("a", attempt, events=51, decode_seconds=2.5))
    await stand.learning.renew()
    assert stand.learning.models["a"].measured > told.measured
    assert stand.learning.models["a"].measured < 2.5 * told.measured


async def test_what_lost_records_leave_behind_is_swept_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOLD", 1)
    stand = Stand()
    stream = Progress("r", "a", features(), MATH, 100.0, 100.5, 102.5, 41)
    stand.streams = [stream, replace(stream, request_id="s")]
    await stand.learning.look()
    stand.streams = stand.streams[1:]
    await stand.learning.look()
    assert set(stand.learning._told) == {"s"}


def test_servers_that_come_and_go_are_learnt_about_and_forgotten() -> None:
    stand = Stand()
    stand.answer()
    stand.fleet.replace([PLAIN, backend("c")], "g")
    stand.learning.govern(stand.policy)
    assert set(stand.learning.models) == {"b", "c"}
    stand.learning.restarted("b")


def test_budgets_change_what_may_be_explored_at_once() -> None:
    stand = Stand()
    for _ in range(25):
        stand.learning.decided(decision(), "math")
    assert stand.fleet.snapshot.guide.explorable == {(TARGET, "math")}
    stand.learning.decided(decision(reason=reasons.EXPLORES), "math")
    assert stand.fleet.snapshot.guide.explorable == frozenset()
    for _ in range(300):
        stand.learning.decided(decision(), "math")
    assert stand.fleet.snapshot.guide.due == {(TARGET, "math")}
    stand.learning.decided(decision("b"), "math")
    assert stand.fleet.snapshot.guide.due == frozenset()


async def test_exploring_that_cost_nothing_after_all_may_go_on() -> None:
    stand = Stand()
    for _ in range(60):
        stand.learning.decided(decision(), "math")
    assert stand.fleet.snapshot.guide.explorable == {(TARGET, "math")}
    tried = decision(reason=reasons.EXPLORES)
    tried = replace(tried, candidates=(tried.candidates[0]._replace(cost=50.0), *tried.candidates[1:]))
    stand.learning.decided(tried, "math")
    for _ in range(60):
        stand.learning.decided(decision(), "math")
    assert stand.fleet.snapshot.guide.explorable == frozenset()
    done = answered("a", Attempt("a", "done", "", 200, 0.0, 0.001))
    stand.learning.on_record(replace(done, decision=tried, snapshot=stand.fleet.snapshot))
    await stand.learning.renew()
    assert stand.fleet.snapshot.guide.explorable == {(TARGET, "math")}


def test_without_budgets_nothing_is_counted() -> None:
    stand = Stand(Settings(STATIC))
    stand.learning.decided(decision(), "math")
    assert stand.learning.purse.requests == 0


async def test_nothing_is_explored_above_the_knee() -> None:
    stand = Stand(AUTOMATIC, replace(DRAFT, max_in_flight=4))
    for _ in range(25):
        stand.learning.decided(decision(), "math")
    for _ in range(3):
        stand.fleet.dispatched("a")
    await stand.learning.renew()
    assert stand.fleet.snapshot.guide.explorable == frozenset()


async def test_what_is_slower_than_no_speculation_is_not_explored(caplog: pytest.LogCaptureFixture) -> None:
    stand = Stand()
    attempt = Attempt("a", "done", "", 200, 100.0, 104.5)
    for number in range(20):
        slow = answered("a", attempt, decode_seconds=8.0 + number % 3)
        plain = answered("b", attempt, decode_seconds=2.0 + 0.2 * (number % 3))
        stand.learning.on_record(slow)
        stand.learning.on_record(replace(plain, baseline=True))
        stand.learning.decided(decision(), "math")
    for _ in range(20):
        stand.learning.decided(decision(), "math")
    assert stand.fleet.snapshot.guide.explorable == {(TARGET, "math")}
    await stand.learning.plan()
    assert stand.fleet.snapshot.guide.explorable == frozenset()
    assert "nothing is explored for math" in caplog.text


async def test_roles_are_planned_from_what_is_asked_for() -> None:
    replicas = [backend(name) for name in "abcd"]
    known = dict.fromkeys("abcd", SERVER_MODEL)
    stand = Stand(replace(AUTOMATIC, known=known), *replicas, classes=(CHAT,))
    for _ in range(8):
        stand.learning.asked(CHAT, MATH, TARGET)
        stand.learning.asked(DEFAULT, MATH, TARGET)
    stand.clock.now += 1.0
    await stand.learning.plan()
    plan = stand.fleet.snapshot.guide.plan[TARGET]
    assert plan.roles["chat"]
    assert plan.roles["chat"] | plan.roles["default"] == set("abcd")
    stand.fleet.down("a", "gone")
    await stand.learning.plan()
    plan = stand.learning.plans[TARGET]
    assert plan.roles["chat"] | plan.roles["default"] == set("bcd")


async def test_advice_lasts_a_while_but_not_beyond_the_servers_it_is_about() -> None:
    known = {"a": SERVER_MODEL, "b": replace(SERVER_MODEL, fingerprint="two", other_steps_per_token=1.0)}
    stand = Stand(replace(AUTOMATIC, known=known))
    stand.learning.asked(DEFAULT, MATH, TARGET)
    stand.clock.now += 1.0
    await stand.learning.plan()
    both = stand.learning.advice[TARGET]
    stand.clock.now += 5.0
    await stand.learning.plan()
    assert stand.learning.advice[TARGET] is both
    stand.fleet.down("b", "gone")
    await stand.learning.plan()
    assert stand.learning.advice[TARGET] != both
    assert set(stand.learning.advice[TARGET].consolidating) == {"a"}


async def test_models_that_nobody_serves_leave_nothing_behind() -> None:
    stand = Stand(replace(AUTOMATIC, known={"a": SERVER_MODEL, "b": SERVER_MODEL}), classes=(CHAT,))
    for number in range(100):
        stand.learning.asked(CHAT, MATH, f"nobody/{number}")
    assert not stand.learning._demand
    stand.answer()
    await stand.learning.plan()
    assert stand.learning.advice.keys() == stand.learning._demand.keys() == {TARGET}
    stand.fleet.replace([backend("c", target="another")], "g")
    stand.learning.govern(stand.policy)
    assert not stand.learning.advice
    assert not stand.learning._demand
    await stand.learning.plan()
    assert not stand.learning.plans


async def test_one_of_several_workers_plans_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(2)
    old, young = (Stand(shared=memory.of(number), classes=(CHAT,)) for number in range(2))
    seen: list[Wanted] = []
    monkeypatch.setattr(
        old.learning._planners[TARGET], "plan", lambda _kinds, wanted, _now: seen.extend(wanted) or Plan()
    )
    for _ in range(3):
        young.learning.asked(CHAT, MATH, TARGET)
    await young.learning.plan()
    await old.learning.plan()  # which was asked for nothing itself
    assert [one.in_flight for one in seen] == [3.0]
    assert old.learning._demand.keys() == set()


async def test_what_workers_were_asked_for_before_a_static_policy_is_forgotten() -> None:
    memory = Memory(2)
    old, young = (Stand(shared=memory.of(number), classes=(CHAT,)) for number in range(2))
    for _ in range(3):
        young.answer()
    for stand in (young, old):
        await stand.learning.plan()
    assert old.learning.plans
    for mode in (STATIC, AUTOMATIC.mode):
        for stand in (young, old):
            stand.learning.govern(replace(stand.policy, learning=Settings(mode)))
            young.learning._demand.clear()
            await stand.learning.plan()
            assert not stand.learning.plans


async def test_workers_go_by_the_plan_of_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(2)
    old, young = (Stand(shared=memory.of(number), classes=(CHAT,)) for number in range(2))
    for stand in (young, old):
        for _ in range(3):
            stand.answer()
    await young.learning.plan()
    own = young.learning.plans[TARGET]
    await old.learning.plan()
    assert old.learning.plans[TARGET] is not own  # it plans by itself

    def fails(*_: object) -> Plan:
        raise AssertionError("who is told does not plan")

    monkeypatch.setattr(young.learning, "_planned", fails)
    await young.learning.plan()
    assert young.learning.plans == old.learning.plans
    assert young.fleet.snapshot.guide.plan == old.learning.plans
    assert young.learning.advice  # what it has seen tells what other fleet would give more
    followed = young.learning._planners[TARGET]._role
    assert followed.keys() == {
        one for members in old.learning.plans[TARGET].roles.values() for one in members
    }
    memory.clear(0)
    with pytest.raises(AssertionError, match="who is told"):
        await young.learning.plan()


@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, IndexError])
async def test_a_plan_that_cannot_be_made_leaves_the_last_one(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    stand = Stand(AUTOMATIC, classes=(CHAT,))
    stand.learning.asked(CHAT, MATH, TARGET)
    await stand.learning.plan()
    before = stand.learning.plans[TARGET]

    def fail(*_: Any) -> None:
        raise error("no")

    monkeypatch.setattr(stand.learning._planners[TARGET], "plan", fail)
    await stand.learning.plan()
    assert stand.learning.plans[TARGET] is before


async def test_a_target_that_cannot_be_planned_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(AUTOMATIC, DRAFT, PLAIN, backend("c", target="m/other"), classes=(CHAT,))
    for target in (TARGET, "m/other"):
        stand.learning.asked(CHAT, MATH, target)

    def fail(*_: Any) -> None:
        raise FloatingPointError("no")

    monkeypatch.setattr(stand.learning._planners[TARGET], "plan", fail)
    await stand.learning.plan()
    assert stand.learning.plans["m/other"].caps == {"c": stand.learning.plans["m/other"].caps["c"]}
    assert f"no new plan for {TARGET}" in caplog.text


async def test_a_plan_holds_though_nothing_can_be_advised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(FleetAdvice, "of", fail)
    stand = Stand(AUTOMATIC, classes=(CHAT,))
    stand.learning.asked(CHAT, MATH, TARGET)
    await stand.learning.plan()
    assert stand.fleet.snapshot.guide.plan[TARGET].caps
    assert f"no new advice on {TARGET}" in caplog.text


async def test_what_a_class_lacks_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    never = replace(CHAT, limits=Limits(tpot=1e-6))
    stand = Stand(AUTOMATIC, classes=(never,))
    stand.learning.asked(never, MATH, TARGET)
    await stand.learning.plan()
    stand.clock.now += 5.0
    await stand.learning.plan()
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said == [f"{TARGET}: no server keeps the limits of chat: loosen them"]


def test_answers_tell_whether_they_kept_their_limits() -> None:
    stand = Stand(AUTOMATIC, classes=(CHAT,))
    for _ in range(30):
        stand.clock.now -= 4.4
        stand.answer()
    (wanted,) = stand.learning._demand[TARGET].wanted({"chat": CHAT.limits}, stand.clock.now)
    assert wanted.kept == 0.0
    assert wanted.in_flight == 0.0


@pytest.mark.parametrize(
    ("outcome", "service"),
    [
        (Outcome("upstream_error", 502, ttft=0.5), CHAT),
        (Outcome("ok", 200, ttft=0.5), ServiceClass("chat")),
    ],
    ids=["a failure", "a class without limits"],
)
def test_what_has_no_limits_to_keep_tells_nothing_of_how_they_are_kept(
    outcome: Outcome, service: ServiceClass
) -> None:
    stand = Stand(AUTOMATIC, classes=(service,))
    for _ in range(30):
        stand.learning.asked(service, MATH, TARGET)
        stand.learning.on_record(replace(record(outcome), decision=decision()))
    (wanted,) = stand.learning._demand[TARGET].wanted({"chat": service.limits}, stand.clock.now)
    assert (wanted.kept, wanted.answers) == (None, 0.0)


def test_a_static_policy_has_no_roles() -> None:
    stand = Stand(Settings(STATIC), classes=(CHAT,))
    stand.learning.asked(CHAT, MATH, TARGET)
    asyncio.run(stand.learning.plan())
    assert stand.learning.plans == {}


async def test_it_publishes_and_plans_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PUBLISH_SECONDS", 0.001)
    monkeypatch.setattr(module, "PLAN_SECONDS", 0.002)
    stand = Stand(AUTOMATIC, classes=(CHAT,))
    stand.answer()
    planned = asyncio.Event()
    monkeypatch.setattr(stand.learning, "plan", lambda: _set(planned))
    running = asyncio.create_task(stand.learning.run())
    await asyncio.wait_for(planned.wait(), 30)
    running.cancel()
    assert stand.learning.models["a"].evidence


async def test_a_failure_is_logged_and_learning_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PUBLISH_SECONDS", 0.001)
    stand = Stand()
    again = asyncio.Event()
    looks = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 1:
            raise RuntimeError("out of luck")
        again.set()

    monkeypatch.setattr(stand.learning, "look", look)
    running = asyncio.create_task(stand.learning.run())
    await asyncio.wait_for(again.wait(), 30)
    running.cancel()
    assert "out of luck" in caplog.text


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_it_says_what_routing_gains_and_which_roles_servers_have() -> None:
    names = ("a", "b")
    known = dict.fromkeys(names, SERVER_MODEL)
    slow = backend("b", labels={"hardware": "other"})
    stand = Stand(replace(AUTOMATIC, known=known), backend("a"), slow, classes=(CHAT,))
    for _ in range(8):
        stand.learning.asked(CHAT, MATH, TARGET)
        stand.learning.asked(DEFAULT, MATH, TARGET)
    stand.clock.now += 1.0
    await stand.learning.plan()
    found = stand.learning.as_json()
    assert found["mode"] == AUTO
    (statements,) = found["statements"].values()
    assert any("routing by workload" in one for one in statements)
    assert any(one.startswith("keep ") and "for chat" in one for one in statements)
    assert set(stand.learning.advice[TARGET].consolidating) == set(names)
    before = stand.learning.advice[TARGET]
    await stand.learning.plan()
    assert stand.learning.advice[TARGET] is before, "advice is not needed every few seconds"
