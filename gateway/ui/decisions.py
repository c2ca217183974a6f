"""The last requests in words: where each went, why, and what came of it. No prompt, no key."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core import reasons
from gateway.core.decide import Decision
from gateway.core.outcome import OK
from gateway.policy.explain import CHOICES, REFUSALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.outcome import Record

KEPT: Final = 200
_MILLISECOND: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Line:
    """One request.

    Attributes:
        number: Grows by one a request.
        unix: Seconds of the wall clock at which it began.
        workload: As classified; one of the policy's labels, or empty.
        confidence: Of the label, 0 to 1.
        backend: Where it went, empty if nowhere.
        method: Speculative method there.
        why: In words.
        status: How it ended.
        result: What came of it, in words.
        explored: It went there to learn, not because that looked best.
    """

    number: int
    unix: float
    request_id: str
    workload: str
    confidence: float
    backend: str
    method: str
    why: str
    status: str
    result: str
    explored: bool


class Decisions:
    """The last finished requests. Words are made when somebody looks, not when a request ends."""

    def __init__(self, known: Callable[[], frozenset[str]]) -> None:
        """Hold none yet.

        Args:
            known: Gives the labels of the policy; others are not shown.
        """
        self._known = known
        self._kept: deque[Record] = deque(maxlen=KEPT)
        self._total = 0

    def on_record(self, record: Record) -> None:
        """Take a finished request."""
        self._kept.append(record)
        self._total += 1

    @property
    def last(self) -> int:
        """Number of the last one; 0 before the first."""
        return self._total

    def after(self, number: int, limit: int = KEPT) -> list[Line]:
        """Those after a number, oldest first; of too many, the newest."""
        new = min(self._total - number, len(self._kept), limit)
        if new <= 0:
            return []
        first = self._total - new + 1
        known = self._known()
        return [line(record, first + at, known) for at, record in enumerate(list(self._kept)[-new:])]


def line(record: Record, number: int, known: frozenset[str]) -> Line:
    """A request in words."""
    label = record.classification.label
    reason = record.decision.reason if isinstance(record.decision, Decision) else ""
    return Line(
        number=number,
        unix=record.started_unix_ns / 1e9,
        request_id=record.request_id,
        workload=label if label in known else "",
        confidence=record.classification.confidence,
        backend=record.backend,
        method=record.method,
        why=_why(record),
        status=record.outcome.status,
        result=_result(record),
        explored=reason in reasons.LEARNING,
    )


def _why(record: Record) -> str:
    decision = record.decision
    if not isinstance(decision, Decision):
        return REFUSALS.get(decision.kind, decision.kind)
    words = CHOICES.get(decision.reason, decision.reason)
    if decision.reason == "lowest_cost" and len(decision.candidates) > 1:
        first, second = decision.candidates[:2]
        words += f": {first.cost:.3g}, before {second.backend} with {second.cost:.3g}"
    failed = [f"{each.backend} failed ({each.error})" for each in record.attempts[:-1]]
    return "; ".join([*failed, words] if failed else [words])


def _result(record: Record) -> str:
    outcome = record.outcome
    parts = []
    if outcome.status != OK:
        parts.append(f"{outcome.status.replace('_', ' ')} {outcome.http_status}")
    if outcome.ttft is not None:
        parts.append(f"first token after {outcome.ttft / _MILLISECOND:.0f} ms")
    if outcome.tpot:
        parts.append(f"{1 / outcome.tpot:.0f} tok/s")
    length = outcome.speculation.mean_accepted_length
    if length is not None:
        parts.append(f"{length:.2f} tokens a step")
    return ", ".join(parts)
