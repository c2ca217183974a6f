"""Whether to try another backend after an attempt, and which: pure rules on phases and error classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.decide import Decision
    from gateway.core.outcome import Attempt

RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
"""Answers that speak of the server, not of the request. A dying engine answers 500 to what it holds."""


REMOVED: Final = "removed"
"""Error class of a backend that left the fleet after the decision: it was not tried, so it does not count."""


@dataclass(frozen=True, slots=True)
class Try:
    """Send the request to this backend next."""

    backend: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop, and give the client the last attempt's answer or error.

    Attributes:
        why: ``delivered`` (bytes of the answer reached the client), ``not_retryable``, ``attempts`` (the
            policy's limit), ``exhausted`` (no candidate left) or ``deadline``.
    """

    why: str


def next_step(
    decision: Decision, attempts: Sequence[Attempt], *, delivered: bool, now: float, deadline: float
) -> Try | GiveUp:
    """What to do next: the first candidate at the start, later one that was not tried yet.

    Args:
        decision: The plan.
        attempts: Failed attempts so far, oldest first.
        delivered: Whether any part of an answer reached the client.
        now: Monotonic seconds.
        deadline: Monotonic seconds at which the whole request must have ended.
    """
    if delivered:
        return GiveUp("delivered")
    if attempts and not retryable(attempts[-1]):
        return GiveUp("not_retryable")
    if now >= deadline:
        return GiveUp("deadline")
    if sum(attempt.error != REMOVED for attempt in attempts) >= decision.max_attempts:
        return GiveUp("attempts")
    tried = {attempt.backend for attempt in attempts}
    for candidate in decision.candidates:
        if candidate.backend not in tried:
            return Try(candidate.backend)
    return GiveUp("exhausted")


def retryable(attempt: Attempt) -> bool:
    """Whether the failure was the server's, so that another server may do better.

    A request that was sent is safe to send again: generation has no side effects.
    """
    if attempt.error == "client_gone":
        return False
    if attempt.error.startswith("status:"):
        return attempt.status in RETRIED_STATUSES
    return True
