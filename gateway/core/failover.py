"""Whether to try another backend after an attempt, and which: pure rules on phases and error classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.outcome import PHASES
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gateway.core.budget import Budget
    from gateway.core.decide import Decision
    from gateway.core.fleet import BackendState
    from gateway.core.outcome import Attempt


class Rule(NamedTuple):
    """What follows from one kind of failure, as long as no part of an answer reached the client.

    Attributes:
        retries: How many such failures of one request another attempt may follow.
        blames: Whether it counts against the health of the backend.
        costs: Whether another attempt takes from the budget.
    """

    retries: int
    blames: bool
    costs: bool


_ANY: Final = 99
"""The policy's limit on attempts is the one that counts."""

UNSENT: Final = Rule(_ANY, blames=True, costs=False)
"""The server got nothing to do, so trying another one burdens the fleet with nothing more."""

ELSEWHERE: Final = Rule(_ANY, blames=True, costs=True)
"""The server's fault. Generation has no side effects, so what was sent may be sent again."""

ONCE: Final = Rule(1, blames=True, costs=True)
"""The server's fault in all likelihood; but a request that causes it must not go through the whole fleet."""

ASIDE: Final = Rule(_ANY, blames=False, costs=True)
"""The server is well and wants no more for now."""

LATE: Final = Rule(0, blames=True, costs=True)
"""The server had all of the time, and used it up without a word."""

REFUSED: Final = Rule(_ANY, blames=False, costs=False)
"""The server cannot take the request; one of another kind may. It got nothing to do, so trying is cheap."""

FINAL: Final = Rule(0, blames=False, costs=True)
"""The request was at fault, or nobody waits for an answer."""

_ROWS: Final = (
    ("connect", PHASES, UNSENT),
    ("timeout:connect", PHASES, UNSENT),
    ("reset", ("connect",), UNSENT),
    ("reset", PHASES[1:], ELSEWHERE),
    ("protocol", PHASES, ELSEWHERE),
    ("ended_early", PHASES, ELSEWHERE),
    ("error_event", PHASES, ONCE),
    ("error_event:4xx", PHASES, REFUSED),
    ("timeout:first_byte", PHASES, ONCE),
    ("timeout:idle", PHASES, ONCE),
    ("timeout:total", ("connect", "sent", "headers"), LATE),
    ("timeout:total", ("first_byte", "done"), FINAL),
    ("timeout:deadline", PHASES, FINAL),
    ("cannot_go_on", PHASES, ASIDE),
    ("too_large", PHASES, FINAL),
    ("client_gone", PHASES, FINAL),
    ("status:429", PHASES, ASIDE),
    ("status:400", PHASES, REFUSED),
    ("status:404", PHASES, REFUSED),
    ("status:413", PHASES, REFUSED),
    ("status:422", PHASES, REFUSED),
    ("status:4xx", PHASES, FINAL),
    ("status:500", PHASES, ONCE),  # what a dying engine answers, and what a request that it cannot bear gets
    ("status:501", PHASES, REFUSED),
    ("status:502", PHASES, ELSEWHERE),
    ("status:503", PHASES, ELSEWHERE),
    ("status:504", PHASES, ELSEWHERE),
    ("status:5xx", PHASES, ONCE),
)
RULES: Final[Mapping[tuple[str, str], Rule]] = {
    (error, phase): rule for error, phases, rule in _ROWS for phase in phases
}
"""The rule by error class and phase."""


_LACKED: Final = 404

SOUGHT_AT: Final = 16
"""Most servers that are asked in turn for what one has: names that nobody knows must not cost more."""


def rule(attempt: Attempt) -> Rule:
    """The rule of a failed attempt. A server that says when to come back is busy, not broken."""
    if attempt.retry_after is not None and attempt.status == 503:
        return ASIDE
    status = f"status:{attempt.status // 100}xx"
    return RULES.get((attempt.error, attempt.phase)) or RULES.get((status, attempt.phase), ONCE)


@value(frozen=True, slots=True)
class Try:
    """Send the request to this backend next.

    Attributes:
        costs: Whether this takes from the budget.
    """

    backend: str
    costs: bool


@value(frozen=True, slots=True)
class GiveUp:
    """Stop, and give the client the last attempt's answer or error.

    Attributes:
        why: ``delivered`` (bytes of the answer reached the client), ``not_retryable``, ``attempts`` (the
            policy's limit), ``budget`` (the gateway's), ``exhausted`` (no candidate left) or ``deadline``.
    """

    why: str


def next_step(
    decision: Decision,
    attempts: Sequence[Attempt],
    *,
    delivered: bool,
    resumable: bool = False,
    now: float,
    deadline: float,
    state: Callable[[str], BackendState | None],
    budget: Budget,
) -> Try | GiveUp:
    """What to do next: the first candidate at the start, later one that was not tried yet.

    Args:
        decision: The plan.
        attempts: Failed attempts so far, oldest first.
        delivered: Whether any part of an answer reached the client.
        resumable: Whether another backend may go on with what was delivered. How often, the caller says: no
            count of failures or attempts made here ends it.
        now: Monotonic seconds.
        deadline: Monotonic seconds at which the whole request must have ended.
        state: That of a backend by its name; None where the fleet has it no more.
        budget: What is left for further attempts.
    """
    if delivered and not resumable:
        return GiveUp("delivered")
    if attempts and not (goes_on(attempts[-1]) if delivered else retryable(attempts)):
        return GiveUp("not_retryable")
    if now >= deadline:
        return GiveUp("deadline")
    seeks = sought(decision, attempts)
    if not delivered and len(attempts) >= (SOUGHT_AT if seeks else decision.max_attempts):
        return GiveUp("attempts")
    tried = {attempt.backend for attempt in attempts}
    names: Iterable[str] = (one.backend for one in decision.candidates)
    if attempts and not seeks and (refused := [one.backend for one in attempts if rule(one) is REFUSED]):
        names = _unlike(names, refused, state)
    for name in names:
        if name not in tried and (known := state(name)) is not None and known.available(now):
            costs = bool(attempts) and rule(attempts[-1]).costs
            return GiveUp("budget") if costs and not budget.allows else Try(name, costs)
    return GiveUp("exhausted")


def sought(decision: Decision, attempts: Iterable[Attempt]) -> bool:
    """Whether a request is about what one server has, whichever it is, and those have not that were asked.

    Any other may have it, replicas too; those that have not have done nothing, whatever was asked of them.
    """
    return decision.seeks and all(attempt.status == _LACKED for attempt in attempts)


def unseen(attempts: Iterable[Attempt]) -> bool:
    """Whether no server can have read the request in these failed attempts."""
    return all(rule(attempt) is UNSENT for attempt in attempts)


def retryable(attempts: Sequence[Attempt]) -> bool:
    """Whether another attempt may follow these failed ones."""
    retries = rule(attempts[-1]).retries
    return sum(rule(attempt).retries == retries for attempt in attempts) <= retries


def goes_on(last: Attempt) -> bool:
    """Whether another backend may go on with what was delivered. A refusal of that is one of the whole."""
    how = rule(last)
    return how is not REFUSED and how.retries > 0


def _unlike(
    names: Iterable[str], refused: Iterable[str], state: Callable[[str], BackendState | None]
) -> list[str]:
    """Those of other kinds than the backends that refused; baselines come first, as they refuse least."""
    kinds = {known.backend.kind for known in map(state, refused) if known is not None}
    found = [known.backend for known in map(state, names) if known is not None]
    others = [one for one in found if one.kind not in kinds]
    return [one.name for one in sorted(others, key=lambda one: not one.is_baseline)]
