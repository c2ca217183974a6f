"""The last requests in words: where each went, why, and what came of it. No prompt, no key."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core import reasons
from gateway.core.decide import Decision
from gateway.core.outcome import OK
from gateway.policy.explain import CHOICES, REFUSALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.decide import Candidate
    from gateway.core.outcome import Attempt, Record

KEPT: Final = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One request.

    Attributes:
        number: Grows by one a request.
        unix: Seconds of the wall clock at which it ended; lines come in this order.
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


class _Kept(NamedTuple):
    """What the words are made of: whole records, 200 of them, would push all else out of the CPU's cache."""

    ended_unix: float
    request_id: str
    label: str
    confidence: float
    backend: str
    method: str
    reason: str
    first: tuple[Candidate, ...]
    failed: tuple[Attempt, ...]
    status: str
    http_status: int
    queued: float
    ttft: float | None
    first_token: float | None
    tpot: float | None
    length: float | None


def _kept(record: Record) -> _Kept:
    decision, outcome = record.decision, record.outcome
    first = (*islice(decision.candidates, 2),) if isinstance(decision, Decision) else ()
    return _Kept(
        record.started_unix_ns / 1e9 + record.ended - record.started, record.request_id,
        record.classification.label, record.classification.confidence, record.backend, record.method,
        decision.reason if isinstance(decision, Decision) else decision.kind, first,
        record.attempts[:-1], outcome.status, outcome.http_status, record.queued, outcome.ttft,
        outcome.first_token, outcome.tpot, outcome.speculation.mean_accepted_length,
    )  # fmt: skip


class Decisions:
    """The last finished requests. Words are made when somebody looks, not when a request ends."""

    def __init__(self, known: Callable[[], frozenset[str]]) -> None:
        """Hold none yet.

        Args:
            known: Gives the labels of the policy; others are not shown.
        """
        self._known = known
        self._kept: deque[_Kept] = deque(maxlen=KEPT)
        self._total = 0

    def on_record(self, record: Record) -> None:
        """Take a finished request."""
        self._kept.append(_kept(record))
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
        return [_line(kept, first + at, known) for at, kept in enumerate(list(self._kept)[-new:])]


def _line(kept: _Kept, number: int, known: frozenset[str]) -> Line:
    return Line(
        number=number,
        unix=kept.ended_unix,
        request_id=kept.request_id,
        workload=kept.label if kept.label in known else "",
        confidence=kept.confidence,
        backend=kept.backend,
        method=kept.method,
        why=_why(kept),
        status=kept.status,
        result=_result(kept),
        explored=bool(kept.first) and kept.reason in reasons.LEARNING,
    )


def _why(kept: _Kept) -> str:
    words = (CHOICES if kept.first else REFUSALS).get(kept.reason, kept.reason)
    if kept.reason == "lowest_cost" and len(kept.first) > 1:
        first, second = kept.first
        words += f": {first.cost:.3g}, before {second.backend} with {second.cost:.3g}"
    waited = [f"waited {_duration(kept.queued)} for room"] if kept.queued else []
    failed = [f"{each.backend} failed ({each.error})" for each in kept.failed]
    return "; ".join([*waited, *failed, words])


def _result(kept: _Kept) -> str:
    parts = []
    if kept.status != OK:
        parts.append(f"{kept.status.replace('_', ' ')} {kept.http_status}")
    if kept.first_token is not None and kept.ttft is not None:
        apart = f" ({_duration(kept.ttft)} after dispatch)" if kept.queued or kept.failed else ""
        parts.append(f"first token after {_duration(kept.first_token)}{apart}")
    if kept.tpot:
        parts.append(f"{1 / kept.tpot:.0f} tok/s")
    if kept.length is not None:
        parts.append(f"{kept.length:.2f} tokens a step")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1.0 else f"{seconds * 1000:.0f} ms"
