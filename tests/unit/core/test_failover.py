from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.budget import Budget
from gateway.core.decide import Candidate, Decision
from gateway.core.failover import (
    ASIDE,
    ELSEWHERE,
    FINAL,
    LATE,
    ONCE,
    REFUSED,
    RULES,
    UNSENT,
    GiveUp,
    Rule,
    Try,
    next_step,
    rule,
    unseen,
)
from gateway.core.outcome import PHASES
from tests.factories import attempt, state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.fleet import BackendState
    from gateway.core.outcome import Attempt

PLENTY = Budget(10.0, at=0.0)
SPENT = Budget(0.0, at=0.0)
FLEET = {name: state(name) for name in "abcd"}
KINDS = {
    "a": state("a", method="ngram", draft_tokens=3),
    "b": state("b", method="eagle3", draft_tokens=3),
    "c": state("c"),
    "d": state("d", method="ngram", draft_tokens=7),
}


def plan(*names: str, max_attempts: int = 3) -> Decision:
    return Decision(
        route="all", target="org/Tiny", candidates=tuple(Candidate(name, 0.0, ()) for name in names),
        rejected=(), reason="lowest_cost", propensity=1.0, max_attempts=max_attempts,
        policy_revision="policy-1", fleet_revision="fleet-1",
    )  # fmt: skip


def step(
    decision: Decision,
    *attempts: Attempt,
    delivered: bool = False,
    resumable: bool = False,
    now: float = 0.0,
    fleet: Mapping[str, BackendState] = FLEET,
    budget: Budget = PLENTY,
) -> str:
    """Which backend is next, or why none is."""
    found = next_step(
        decision,
        attempts,
        delivered=delivered,
        resumable=resumable,
        now=now,
        deadline=60.0,
        state=fleet.get,
        budget=budget,
    )
    return f"gives up: {found.why}" if isinstance(found, GiveUp) else found.backend


def status(code: int, backend: str = "a") -> Attempt:
    return attempt(backend, f"status:{code}", code, "first_byte")


@pytest.mark.parametrize(
    ("error", "expected"),
    {
        "connect": (UNSENT, UNSENT, UNSENT, UNSENT, UNSENT),
        "timeout:connect": (UNSENT, UNSENT, UNSENT, UNSENT, UNSENT),
        "reset": (UNSENT, ELSEWHERE, ELSEWHERE, ELSEWHERE, ELSEWHERE),
        "protocol": (ELSEWHERE,) * 5,
        "ended_early": (ELSEWHERE,) * 5,
        "error_event": (ONCE,) * 5,
        "error_event:4xx": (REFUSED,) * 5,
        "timeout:first_byte": (ONCE,) * 5,
        "timeout:idle": (ONCE,) * 5,
        "timeout:total": (LATE, LATE, LATE, FINAL, FINAL),
        "timeout:deadline": (FINAL,) * 5,
        "cannot_go_on": (ASIDE,) * 5,
        "too_large": (FINAL,) * 5,
        "client_gone": (FINAL,) * 5,
        "something_new": (ONCE,) * 5,
    }.items(),
)
def test_the_rule_of_each_failure_in_each_phase(error: str, expected: tuple[Rule, ...]) -> None:
    assert tuple(rule(attempt("a", error, phase=phase)) for phase in PHASES) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (400, REFUSED), (401, FINAL), (403, FINAL), (404, REFUSED), (405, FINAL), (408, FINAL), (409, FINAL),
        (413, REFUSED), (422, REFUSED), (429, ASIDE), (500, ONCE), (501, REFUSED), (502, ELSEWHERE),
        (503, ELSEWHERE), (504, ELSEWHERE), (520, ONCE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("phase", PHASES)
def test_the_rule_of_each_status(code: int, expected: Rule, phase: str) -> None:
    assert rule(attempt("a", f"status:{code}", code, phase)) == expected


def test_every_failure_has_a_rule_in_every_phase() -> None:
    assert len(RULES) == len({error for error, _ in RULES}) * len(PHASES)


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_says_when_to_come_back_is_not_to_blame(code: int) -> None:
    assert rule(replace(status(code), retry_after=3.0)) == ASIDE


def test_the_first_candidate_comes_first() -> None:
    assert step(plan("a", "b")) == "a"


def test_after_a_failure_comes_the_next_one_that_was_not_tried() -> None:
    assert step(plan("a", "b", "c"), attempt("a")) == "b"
    assert step(plan("a", "b", "c"), attempt("a"), attempt("b")) == "c"
    assert step(plan("a", "b", "c"), attempt("b")) == "a"


def test_one_that_may_get_no_requests_any_more_is_passed_over() -> None:
    fleet = FLEET | {"b": state("b", healthy=False)}
    assert step(plan("a", "b", "c"), attempt("a"), fleet=fleet) == "c"
    assert step(plan("a", "b"), attempt("a"), fleet=fleet) == "gives up: exhausted"


def test_what_was_delivered_cannot_be_tried_again() -> None:
    broken = attempt("a", "reset", phase="first_byte")
    assert step(plan("a", "b"), broken, delivered=True) == "gives up: delivered"


@pytest.mark.parametrize("error", ["reset", "ended_early", "error_event", "timeout:idle"])
def test_what_was_delivered_can_be_gone_on_with_as_often_as_the_caller_says(error: str) -> None:
    decision = plan("a", "b", "c", "d", max_attempts=2)
    broken = [attempt(name, error, phase="first_byte") for name in "abcd"]
    assert step(decision, *broken[:1], delivered=True, resumable=True) == "b"
    assert step(decision, *broken[:3], delivered=True, resumable=True) == "d"
    assert step(decision, *broken, delivered=True, resumable=True) == "gives up: exhausted"


def test_where_nothing_was_delivered_there_is_nothing_to_go_on_with() -> None:
    assert (
        step(plan("a", "b", "c"), status(500), status(500, "b"), resumable=True) == "gives up: not_retryable"
    )


@pytest.mark.parametrize("error", ["error_event:4xx", "client_gone", "timeout:total"])
def test_what_is_final_is_not_gone_on_with(error: str) -> None:
    broken = attempt("a", error, phase="first_byte")
    assert step(plan("a", "b"), broken, delivered=True, resumable=True) == "gives up: not_retryable"


def test_going_on_takes_from_the_budget() -> None:
    broken = attempt("a", "reset", phase="first_byte")
    assert step(plan("a", "b"), broken, delivered=True, resumable=True, budget=SPENT) == "gives up: budget"


def test_an_answer_about_the_caller_is_final() -> None:
    assert step(plan("a", "b"), status(401), fleet=KINDS) == "gives up: not_retryable"


def test_only_the_last_attempt_says_whether_to_go_on() -> None:
    assert step(plan("a", "b", "c"), attempt("a"), status(401, "b")) == "gives up: not_retryable"


def test_what_one_kind_refuses_goes_to_other_kinds_the_baseline_first() -> None:
    decision = plan("a", "d", "b", "c", max_attempts=9)
    assert step(decision, status(400), fleet=KINDS, budget=SPENT) == "c"
    assert step(decision, status(400), status(422, "c"), fleet=KINDS) == "b"
    assert step(decision, status(400), attempt("c"), fleet=KINDS) == "b"
    assert (
        step(decision, status(400), status(422, "c"), status(501, "b"), fleet=KINDS) == "gives up: exhausted"
    )
    assert step(plan("a", "b"), status(400)) == "gives up: exhausted"


def test_one_that_has_left_the_fleet_is_of_no_kind() -> None:
    assert step(plan("a", "b", "c"), status(400), fleet={"b": KINDS["b"]}) == "b"


def test_a_refusal_of_what_was_delivered_is_final() -> None:
    found = step(plan("a", "c"), status(400), delivered=True, resumable=True, fleet=KINDS)
    assert found == "gives up: not_retryable"


def test_what_the_request_may_have_caused_is_tried_once_more() -> None:
    assert step(plan("a", "b", "c"), status(500)) == "b"
    assert step(plan("a", "b", "c"), status(500), status(500, "b")) == "gives up: not_retryable"
    timed_out = attempt("b", "timeout:first_byte", phase="sent")
    assert step(plan("a", "b", "c"), status(500), timed_out) == "gives up: not_retryable"
    assert step(plan("a", "b", "c"), attempt("a"), status(500, "b")) == "c"
    assert step(plan("a", "b", "c"), status(500), attempt("b")) == "c"


def test_a_server_that_was_not_reached_has_not_read_the_request() -> None:
    assert unseen([])
    assert unseen([attempt("a", "connect"), attempt("b", "reset", phase="connect")])


@pytest.mark.parametrize(
    "failed",
    [
        attempt("b", "reset", phase="sent"),
        attempt("b", "timeout:first_byte", phase="sent"),
        attempt("b", "protocol", phase="headers"),
        attempt("b", "ended_early", phase="first_byte"),
        attempt("b", "error_event", phase="first_byte"),
        *(status(code, "b") for code in (404, 429, 500, 502, 503)),
    ],
)
def test_a_server_that_was_reached_may_have_read_it(failed: Attempt) -> None:
    assert not unseen([attempt("a", "connect"), failed])


def test_the_limit_of_the_policy_holds() -> None:
    decision = plan("a", "b", "c", max_attempts=2)
    assert step(decision, attempt("a"), attempt("b")) == "gives up: attempts"
    assert step(plan("a", max_attempts=1), attempt("a")) == "gives up: attempts"


def test_no_candidate_is_tried_twice() -> None:
    assert step(plan("a", "b", max_attempts=9), attempt("a"), attempt("b")) == "gives up: exhausted"


@pytest.mark.parametrize(("now", "expected"), [(59.9, "b"), (60.0, "gives up: deadline")])
def test_the_deadline_ends_it(now: float, expected: str) -> None:
    assert step(plan("a", "b"), attempt("a"), now=now) == expected


def test_a_request_that_read_its_body_until_the_deadline_is_not_sent() -> None:
    assert step(plan("a"), now=61.0) == "gives up: deadline"


def test_a_further_attempt_needs_a_budget() -> None:
    reset = attempt("a", "reset", phase="sent")
    assert step(plan("a", "b"), reset, budget=Budget(1.0, at=0.0)) == "b"
    assert step(plan("a", "b"), reset, budget=SPENT) == "gives up: budget"


def test_a_first_attempt_and_one_after_nothing_was_sent_are_free() -> None:
    assert step(plan("a", "b"), budget=SPENT) == "a"
    assert step(plan("a", "b"), attempt("a", "connect"), budget=SPENT) == "b"


def test_where_nobody_is_left_the_budget_is_not_the_reason() -> None:
    assert step(plan("a"), attempt("a", "reset", phase="sent"), budget=SPENT) == "gives up: exhausted"


@pytest.mark.parametrize(
    ("failures", "costs"),
    [([], False), (["connect"], False), (["reset"], True), (["reset", "connect"], False)],
)
def test_a_step_says_whether_it_takes_from_the_budget(failures: list[str], costs: bool) -> None:
    phases = {"connect": "connect", "reset": "sent"}
    made = [attempt(name, error, phase=phases[error]) for name, error in zip("ab", failures, strict=False)]
    found = next_step(
        plan("a", "b", "c"),
        made,
        delivered=False,
        now=0.0,
        deadline=1.0,
        state=FLEET.get,
        budget=PLENTY,
    )
    assert found == Try("abc"[len(made)], costs)


def test_what_one_server_has_all_are_asked_for_whatever_their_kind_and_the_usual_number() -> None:
    alike = {f"s{number}": state(f"s{number}") for number in range(20)}
    asked = plan(*alike, max_attempts=2)
    seeking = replace(asked, seeks=True)
    without = [attempt(name, "status:404", 404, "done") for name in alike]
    assert step(asked, without[0], fleet=alike) == "gives up: exhausted"
    assert step(seeking, fleet=alike) == "s0"
    assert step(seeking, *without[:2], fleet=alike) == "s2"
    assert step(seeking, *without[:15], fleet=alike) == "s15"
    assert step(seeking, *without[:16], fleet=alike) == "gives up: attempts"
    assert step(asked, *without[:2], fleet=alike) == "gives up: attempts"
    broken = attempt("s1", "reset", 0, "sent")
    assert step(seeking, without[0], broken, fleet=alike) == "gives up: attempts"
