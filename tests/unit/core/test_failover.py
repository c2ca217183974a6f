from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.core.decide import Candidate, Decision
from gateway.core.failover import REMOVED, RETRIED_STATUSES, GiveUp, Try, next_step, retryable
from tests.factories import attempt

if TYPE_CHECKING:
    from gateway.core.outcome import Attempt


def plan(*names: str, max_attempts: int = 3) -> Decision:
    return Decision(
        route="all", target="org/Tiny", candidates=tuple(Candidate(name, 0.0, ()) for name in names),
        rejected=(), reason="lowest_cost", propensity=1.0, max_attempts=max_attempts,
        policy_revision="policy-1", fleet_revision="fleet-1",
    )  # fmt: skip


def step(
    decision: Decision, *attempts: Attempt, delivered: bool = False, now: float = 0.0, deadline: float = 60.0
) -> Try | GiveUp:
    return next_step(decision, attempts, delivered=delivered, now=now, deadline=deadline)


def test_the_first_candidate_comes_first() -> None:
    assert step(plan("a", "b")) == Try("a")


def test_after_a_failure_comes_the_next_one_that_was_not_tried() -> None:
    assert step(plan("a", "b", "c"), attempt("a")) == Try("b")
    assert step(plan("a", "b", "c"), attempt("a"), attempt("b")) == Try("c")
    assert step(plan("a", "b", "c"), attempt("b")) == Try("a")


def test_what_was_delivered_cannot_be_tried_again() -> None:
    assert step(plan("a", "b"), attempt("a", "reset", phase="first_byte"), delivered=True) == GiveUp(
        "delivered"
    )


def test_an_answer_about_the_request_is_final() -> None:
    assert step(plan("a", "b"), attempt("a", "status:400", 400, "done")) == GiveUp("not_retryable")


def test_only_the_last_attempt_says_whether_to_go_on() -> None:
    assert step(plan("a", "b", "c"), attempt("a"), attempt("b", "status:404", 404)) == GiveUp("not_retryable")


def test_the_limit_of_the_policy_holds() -> None:
    decision = plan("a", "b", "c", max_attempts=2)
    assert step(decision, attempt("a"), attempt("b")) == GiveUp("attempts")
    assert step(plan("a", max_attempts=1), attempt("a")) == GiveUp("attempts")


def test_a_backend_that_left_the_fleet_was_not_tried() -> None:
    gone = attempt("a", REMOVED)
    assert step(plan("a", "b", max_attempts=1), gone) == Try("b")
    assert step(plan("a", "b", "c", max_attempts=1), gone, attempt("b")) == GiveUp("attempts")
    assert step(plan("a", "b", max_attempts=1), gone, attempt("b", REMOVED)) == GiveUp("exhausted")


def test_no_candidate_is_tried_twice() -> None:
    assert step(plan("a", "b", max_attempts=9), attempt("a"), attempt("b")) == GiveUp("exhausted")


@pytest.mark.parametrize(("now", "expected"), [(59.9, Try("b")), (60.0, GiveUp("deadline"))])
def test_the_deadline_ends_it(now: float, expected: Try | GiveUp) -> None:
    assert step(plan("a", "b"), attempt("a"), now=now) == expected


def test_a_request_that_read_its_body_until_the_deadline_is_not_sent() -> None:
    assert step(plan("a"), now=61.0) == GiveUp("deadline")


@pytest.mark.parametrize(
    "error", ["connect", "reset", "timeout:first_byte", "ended_early", "error_event", "removed"]
)
def test_a_failure_of_the_server_may_be_tried_elsewhere(error: str) -> None:
    assert retryable(attempt(error=error))


def test_nobody_waits_for_another_answer_once_the_client_is_gone() -> None:
    assert not retryable(attempt(error="client_gone"))


@pytest.mark.parametrize("status", sorted(RETRIED_STATUSES))
def test_a_status_of_the_server_may_be_tried_elsewhere(status: int) -> None:
    assert retryable(attempt(error=f"status:{status}", status=status))


@pytest.mark.parametrize("status", [400, 401, 404, 405, 408, 413, 422, 501])
def test_a_status_of_the_request_is_the_same_everywhere(status: int) -> None:
    assert not retryable(attempt(error=f"status:{status}", status=status))
