from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gateway.core import reasons
from gateway.core.breaker import Breaker
from gateway.core.decide import Rejected
from gateway.core.refusal import NAMED_AT_MOST, back_in, is_picky, refusal, why_rejected
from tests.factories import ALIAS, TARGET, features, policy, route, snapshot, state

if TYPE_CHECKING:
    from gateway.core.fleet import BackendState
    from gateway.core.policy import Policy

STATES = (state("a"), state("b"), state("x", target="org/Other"))


def refused(by: Policy | None = None, target: str = TARGET, **request: Any) -> tuple[str, str] | None:
    pool = [one for one in STATES if one.backend.target == target]
    return refusal(features(**request), by or policy(), snapshot(*STATES), [one.backend.name for one in pool])


def out(*names: str, reason: str = reasons.UNHEALTHY, detail: str = "reset") -> list[Rejected]:
    return [Rejected(name, reason, detail) for name in names]


@pytest.mark.parametrize("request_given", [{}, {"model": TARGET}, {"backend": "b"}])
def test_what_the_fleet_could_serve_is_not_refused(request_given: dict[str, Any]) -> None:
    assert refused(**request_given) is None


def test_an_unknown_model_is_answered_with_those_there_are() -> None:
    words = "The model `gpt` does not exist; there are: org/Other, org/Tiny, tiny"
    assert refused(target="gpt", model="gpt") == (reasons.UNKNOWN_MODEL, words)
    many = policy(aliases={f"m{number}": TARGET for number in range(9)})
    found = refused(many, target="gpt", model="gpt")
    assert found is not None
    assert found[1].endswith("there are: m0, m1, m2, m3, m4, … and 6 more")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("tiny:codee", "what follows `tiny:` is no workload of the policy; the nearest is `tiny:code`"),
        (
            "org/Tiny:codee",
            "what follows `org/Tiny:` is no workload of the policy; the nearest is `org/Tiny:code`",
        ),
        ("tiny:sk-1234", "what follows `tiny:` is no workload of the policy; there are: "),
        ("other:codee", "there are: org/Other, org/Tiny, tiny"),
    ],
)
def test_a_label_behind_a_model_that_is_none_is_said(model: str, words: str) -> None:
    found = refused(target="", model=model)
    assert found is not None
    assert found[0] == reasons.UNKNOWN_MODEL
    assert found[1].startswith(f"The model `{model}` does not exist; {words}")
    assert "sk-1234" not in found[1].replace(f"`{model}`", "")  # it may be a key


def test_a_known_model_without_servers_is_an_empty_pool() -> None:
    assert refused(target="") == (reasons.EMPTY_POOL, f"no backend serves `{ALIAS}`")
    assert refused(target="", model="") == (reasons.EMPTY_POOL, "the fleet is empty")


def test_a_pin_needs_the_policys_leave_and_a_backend_of_the_model() -> None:
    not_allowed = "the policy does not allow the caller to choose a backend"
    assert refused(policy(allow_pin=False), backend="a") == (reasons.PIN_NOT_ALLOWED, not_allowed)
    unknown = "no backend of this model has the name asked for; there are: a, b"
    assert refused(backend="x") == (reasons.UNKNOWN_BACKEND, unknown)


def test_those_that_are_out_say_why() -> None:
    rejected = [*out("a", reason=reasons.FULL, detail="1 in flight"), *out("b")]
    assert why_rejected(rejected, route()) == "a: 1 in flight; b: reset"


@pytest.mark.parametrize("reason", [reasons.NOT_PREFERRED, reasons.NOT_PINNED])
def test_those_that_nobody_named_are_not_named(reason: str) -> None:
    assert why_rejected([*out("a", reason=reason), *out("b")], route()) == "b: reset"


def test_a_route_that_names_no_backend_of_the_model_says_so() -> None:
    rejected = out("a", "b", reason=reasons.NOT_PREFERRED)
    assert why_rejected(rejected, route()) == "route all names no backend of this model"


@pytest.mark.parametrize(("more", "ending"), [(0, ""), (1, "; … and 1 more"), (12, "; … and 12 more")])
def test_few_are_named(more: int, ending: str) -> None:
    names = [f"d{number}" for number in range(NAMED_AT_MOST + more)]
    named = "; ".join(f"{name}: reset" for name in names[:5])
    assert why_rejected(out(*names), route()) == named + ending


def waiting(name: str, *, until: float = 0.0, retry_at: float = 0.0) -> BackendState:
    reason = "trial_failed" if until else ""
    return replace(state(name), breaker=Breaker(reason, until=until), retry_at=retry_at)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (reasons.UNHEALTHY, 4.0),
        (reasons.NOT_PREFERRED, 4.0),
        (reasons.RETRY_AFTER, 2.0),
        (reasons.FULL, None),
        (reasons.WARMING_UP, None),
    ],
)
def test_the_first_to_be_back_counts_unless_another_may_be_free_sooner(
    reason: str, expected: float | None
) -> None:
    rejected = [Rejected("a", reasons.BREAKER_OPEN, ""), Rejected("b", reason, "")]
    states = [waiting("a", until=104.0), waiting("b", retry_at=102.0), waiting("c", until=101.0)]
    assert back_in(rejected, states, 100.0) == expected


def test_where_nobody_is_out_for_a_known_time_nothing_is_known() -> None:
    assert back_in([Rejected("a", reasons.UNHEALTHY, "")], [state("a")], 100.0) is None


def test_a_request_that_some_server_refuses_for_what_it_asks_is_picky() -> None:
    assert not is_picky(out("a", reason=reasons.FULL))
    assert is_picky([*out("a", reason=reasons.FULL), *out("b", reason=reasons.CONTEXT_TOO_LONG)])
    assert is_picky(out("a", reason=reasons.REFUSES_PARAMETER))
