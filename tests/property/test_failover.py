"""What holds of every way in which attempts can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.decide import Candidate, Decision
from gateway.core.failover import GiveUp, Try, next_step, retryable
from tests.factories import attempt

if TYPE_CHECKING:
    from gateway.core.outcome import Attempt

FAILURES = st.one_of(
    st.sampled_from(
        ["connect", "reset", "timeout:first_byte", "ended_early", "error_event", "removed", "client_gone"]
    ).map(lambda error: (error, 0)),
    st.sampled_from([400, 404, 429, 500, 502, 503, 504]).map(lambda status: (f"status:{status}", status)),
)
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


def made(attempts: list[Attempt]) -> int:
    """Attempts that reached for a server."""
    return sum(one.error != "removed" for one in attempts)


@given(PLANS, st.lists(FAILURES, min_size=9, max_size=9), st.integers(0, 12))
def test_it_always_ends_and_tries_no_backend_twice(
    plan: Decision, failures: list[tuple[str, int]], deadline: int
) -> None:
    attempts: list[Attempt] = []
    names = [one.backend for one in plan.candidates]
    for now, (error, status) in enumerate(failures):
        step = next_step(plan, attempts, delivered=False, now=now, deadline=deadline)
        if isinstance(step, GiveUp):
            break
        assert step == Try(names[now])
        assert now < deadline
        assert all(retryable(one) for one in attempts)
        attempts.append(attempt(step.backend, error, status))
    assert len(attempts) <= min(len(names), deadline)
    assert made(attempts) <= plan.max_attempts
    assert next_step(plan, attempts, delivered=False, now=99, deadline=deadline) in (
        GiveUp("deadline"), GiveUp("not_retryable"),
    )  # fmt: skip


@given(PLANS, st.lists(FAILURES, max_size=9), st.integers(0, 12))
def test_nothing_is_tried_once_something_was_delivered(
    plan: Decision, failures: list[tuple[str, int]], now: int
) -> None:
    attempts = [
        attempt(one.backend, *failure) for one, failure in zip(plan.candidates, failures, strict=False)
    ]
    assert next_step(plan, attempts, delivered=True, now=now, deadline=99) == GiveUp("delivered")


@given(PLANS, st.lists(FAILURES, min_size=8, max_size=8))
def test_giving_up_is_for_a_reason(plan: Decision, failures: list[tuple[str, int]]) -> None:
    """In time, it goes on as long as there is a candidate left, attempts left and the failure is the server's."""
    attempts = [
        attempt(one.backend, *failure) for one, failure in zip(plan.candidates, failures, strict=False)
    ]
    for number in range(len(attempts) + 1):
        step = next_step(plan, attempts[:number], delivered=False, now=0, deadline=1)
        left = number < len(plan.candidates) and made(attempts[:number]) < plan.max_attempts
        goes_on = left and (number == 0 or retryable(attempts[number - 1]))
        assert isinstance(step, Try) is goes_on
