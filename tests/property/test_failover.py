"""What holds of every way in which attempts can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.budget import Budget
from gateway.core.decide import Candidate, Decision
from gateway.core.failover import FINAL, ONCE, GiveUp, Try, next_step, retryable, rule
from tests.factories import attempt, state

if TYPE_CHECKING:
    from gateway.core.outcome import Attempt

FAILURES = st.one_of(
    st.sampled_from(
        ["connect", "reset", "timeout:first_byte", "ended_early", "error_event", "client_gone"]
    ).map(lambda error: (error, 0)),
    st.sampled_from([400, 404, 429, 500, 502, 503, 504]).map(lambda status: (f"status:{status}", status)),
)
DOWN = frozenset("gh")
FLEET = {name: state(name, flags=name, healthy=name not in DOWN) for name in "abcdefgh"}
PLANS = st.builds(
    lambda names, most: Decision(
        "all",
        "org/Tiny",
        tuple(Candidate(name, 0.0, ()) for name in names),
        (),
        "lowest_cost",
        1.0,
        most,
        "p",
        "f",
    ),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True),
    st.integers(1, 9),
)


def step(
    plan: Decision,
    attempts: list[Attempt],
    *,
    delivered: bool = False,
    now: float = 0.0,
    deadline: float = 99.0,
) -> Try | GiveUp:
    return next_step(
        plan,
        attempts,
        delivered=delivered,
        now=now,
        deadline=deadline,
        state=FLEET.get,
        budget=Budget(99.0, at=now),
    )


def failed(plan: Decision, failures: list[tuple[str, int]]) -> list[Attempt]:
    return [attempt(one.backend, *failure) for one, failure in zip(plan.candidates, failures, strict=False)]


@given(PLANS, st.lists(FAILURES, min_size=9, max_size=9), st.integers(0, 12))
def test_it_always_ends_and_tries_no_backend_twice(
    plan: Decision, failures: list[tuple[str, int]], deadline: int
) -> None:
    attempts: list[Attempt] = []
    names = [one.backend for one in plan.candidates if one.backend not in DOWN]
    for now, (error, status) in enumerate(failures):
        following = step(plan, attempts, now=now, deadline=deadline)
        if isinstance(following, GiveUp):
            break
        assert following.backend == names[now]
        assert now < deadline
        attempts.append(attempt(following.backend, error, status))
    assert len(attempts) <= min(plan.max_attempts, len(names), deadline)
    assert step(plan, attempts, now=99, deadline=deadline) in (GiveUp("deadline"), GiveUp("not_retryable"))


@given(PLANS, st.lists(FAILURES, max_size=9), st.integers(0, 12))
def test_nothing_is_tried_once_something_was_delivered(
    plan: Decision, failures: list[tuple[str, int]], now: int
) -> None:
    assert step(plan, failed(plan, failures), delivered=True, now=now) == GiveUp("delivered")


@given(PLANS, st.lists(FAILURES, min_size=8, max_size=8))
def test_giving_up_is_for_a_reason(plan: Decision, failures: list[tuple[str, int]]) -> None:
    """In time, it goes on as long as there is a candidate left, attempts left and the rules allow it."""
    attempts = failed(plan, failures)
    for number in range(len(attempts) + 1):
        made = attempts[:number]
        tried = {one.backend for one in made}
        left = [one for one in plan.candidates if one.backend not in DOWN | tried]
        goes_on = bool(left) and number < plan.max_attempts and (number == 0 or retryable(made))
        assert isinstance(step(plan, made), Try) is goes_on


@given(PLANS, st.lists(FAILURES, min_size=1, max_size=8))
def test_a_request_that_may_be_at_fault_reaches_two_servers_at_most(
    plan: Decision, failures: list[tuple[str, int]]
) -> None:
    made: list[Attempt] = []
    for error, status in failures:
        if not isinstance(following := step(plan, made), Try):
            break
        made.append(attempt(following.backend, error, status))
    assert sum(rule(one) is ONCE for one in made) <= 2
    assert all(rule(one) is not FINAL for one in made[:-1])
