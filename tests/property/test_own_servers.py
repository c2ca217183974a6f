"""What patience for the servers of its class does to a request, whatever the fleet, its roles and the class."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.classes import ServiceClass
from gateway.core.decide import Decision, Draw, NoCandidate, decide
from gateway.core.fleet import Guide
from gateway.core.plan import Limits, Plan
from gateway.core.policy import AUTO, CANARY, SHADOW, Learning
from gateway.core.predict import ServerModel
from tests.factories import TARGET, classification, features, policy, route, snapshot, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState

NAMES = "abcdef"
MODEL = ServerModel("one", measured=100.0)
UNIT = st.floats(0.0, 1.0, exclude_max=True)
SERVICES = st.sampled_from([
    ServiceClass("chat", limits=Limits(ttft=1.0)), ServiceClass("chat", limits=Limits(ttft=1.0, tpot=1e-3)),
    ServiceClass("other", limits=Limits(ttft=1.0)), ServiceClass("bulk"),
])  # fmt: skip
PLANS = st.builds(
    lambda chat, caps: Plan({"chat": frozenset(chat), "bulk": frozenset(NAMES) - chat}, caps=caps),
    st.frozensets(st.sampled_from(NAMES)),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4)),
)
LEARNINGS = st.sampled_from([
    *[Learning(AUTO, 1.0)] * 3, Learning(CANARY, 0.5), Learning(SHADOW, 0.0), Learning()
])  # fmt: skip


def _state(name: str, given: dict[str, Any]) -> BackendState:
    return state(name, model=MODEL, max_in_flight=5, **given)


FLEETS = st.lists(
    st.fixed_dictionaries({"in_flight": st.integers(0, 5), "healthy": st.sampled_from([True] * 4 + [False])}),
    min_size=1,
    max_size=len(NAMES),
).map(lambda given: tuple(starmap(_state, zip(NAMES, given, strict=False))))


@given(FLEETS, PLANS, SERVICES, LEARNINGS, st.builds(Draw, UNIT, UNIT), st.floats(-9.0, 9.0))
def test_patience_only_turns_going_elsewhere_into_waiting(
    fleet: tuple[BackendState, ...],
    plan: Plan,
    service: ServiceClass,
    learning: Learning,
    draw: Draw,
    patience: float,
) -> None:
    guided = snapshot(*fleet, guide=Guide(plan={TARGET: plan}))
    by = policy(route(), learning=learning)

    def found(seconds: float) -> Decision | NoCandidate:
        asked = features(), classification()
        return decide(*asked, guided, by, draw, 100.0, None, service, patience=seconds)

    at_once, first = found(0.0), found(patience)
    if first == at_once:
        return
    assert patience > 0.0
    assert service.name == "chat"
    assert isinstance(at_once, Decision), "who would be refused is refused all the same"
    assert isinstance(first, NoCandidate)
    assert first.busy
    assert first.back_in is None
    own = [one for one in fleet if one.backend.name in plan.roles["chat"] and one.available(100.0)]
    assert own, "there is one to wait for"
    assert all(one.in_flight >= plan.caps[one.backend.name] for one in own)
