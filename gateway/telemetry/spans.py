"""From a Record to finished spans: one of the request, and under it one of each attempt.

They are built when all is over, with the ids that were made at the start and sent upstream, so that a request
pays nothing for them while it runs. They are built as the bytes that OTLP sends, see :mod:`.otlp`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from gateway.core import outcome as statuses
from gateway.core.decide import Decision
from gateway.core.reasons import LEARNING
from gateway.telemetry import names, otlp
from gateway.telemetry import span_attributes as attributes
from gateway.telemetry.failures import error_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Attempt, Outcome, Record
    from gateway.telemetry.otlp import Value

_DELIVERING: Final = "first_byte"
"""Phase of an attempt that broke off while the client got its answer."""

_GOOD: Final = 200
_SAMPLED: Final = "sampled"

_FAILED: Final = frozenset({statuses.UPSTREAM_ERROR, statuses.TIMEOUT, statuses.REJECTED, statuses.TRUNCATED})
"""Statuses that are errors of ours. A client's own mistake, or that it left, is none, as for HTTP servers."""


class Spans:
    """Builds the spans of Records.

    Args:
        resource: What the gateway is, by the names of attributes.
        version: Of the gateway.
        backend: Gives a backend of the fleet by name, None if it has left.
        slow: Seconds from the request's head to the first token of a stream, or to the end of another answer,
            from which on the trace is kept; and of a stream's rest, for each hundred tokens.
    """

    def __init__(
        self,
        resource: Mapping[str, Value],
        version: str,
        backend: Callable[[str], Backend | None],
        slow: float = math.inf,
    ) -> None:
        self._resource = resource
        self._version = version
        self._backend = backend
        self._slow = slow

    def wanted(self, record: Record) -> str:
        """Why a request has spans: its trace is sampled, or was left out by chance but is worth keeping.

        Nothing if it has none; a caller that wants none is obeyed.
        """
        trace, decision = record.trace, record.decision
        if trace.sampled:
            return _SAMPLED
        if trace.parent_id:
            return ""
        if record.outcome.status in _FAILED:
            return "failed"
        if isinstance(decision, Decision) and decision.reason in LEARNING:
            return "explored"
        took = record.ended - record.started
        return "slow" if took >= self._slow and self._is_slow(took, record.outcome) else ""

    def of(self, record: Record) -> list[bytes]:
        """All spans of a request, attempts first; none if its trace is neither sampled nor worth keeping.

        An attempt without span id is left out: nothing was sent under it.
        """
        kept = self.wanted(record)
        if not kept:
            return []
        name, asked = attributes.asked(record)
        spans = [
            self._attempt(record, number, attempt, name, asked)
            for number, attempt in enumerate(record.attempts, start=1)
            if attempt.span_id
        ]
        return [*spans, _request(record, name, asked, kept)]

    def export(self, spans: Iterable[bytes]) -> bytes:
        """What is posted to a receiver."""
        return otlp.export(self._resource, names.SCOPE, self._version, spans)

    def _is_slow(self, took: float, outcome: Outcome) -> bool:
        """Whether what took that long altogether is slow for what it was."""
        first = outcome.first_token
        if first is None:
            return True
        hundreds = max(1.0, (outcome.usage.output_tokens or outcome.events) / 100.0)
        return max(first, (took - first) / hundreds) >= self._slow

    def _attempt(self, record: Record, number: int, attempt: Attempt, name: str, asked: bytes) -> bytes:
        trace, ttft = record.trace, record.outcome.ttft
        backend = self._backend(attempt.backend)
        inside = [asked, attributes.tried(attempt, number, backend.url if backend else "")]
        if number == len(record.attempts):
            inside.append(attributes.answered(record))
            if ttft is not None:
                inside.append(otlp.event(names.EVENT_FIRST_TOKEN, _unix_ns(record, attempt.started + ttft)))
        return otlp.span(
            name=name,
            kind=otlp.CLIENT,
            trace_id=bytes.fromhex(trace.trace_id),
            span_id=bytes.fromhex(attempt.span_id),
            parent_id=bytes.fromhex(trace.span_id),
            started=_unix_ns(record, attempt.started),
            ended=_unix_ns(record, attempt.ended),
            inside=inside,
            failed=attributes.went_wrong(attempt),
        )


def _request(record: Record, name: str, asked: bytes, kept: str) -> bytes:
    trace, result = record.trace, record.outcome
    wrong = result.status in _FAILED
    inside = [
        asked, attributes.route(record), attributes.predicted(record), attributes.measured(record),
        *_request_events(record),
    ]  # fmt: skip
    if wrong:
        inside.append(attributes.failed(error_type(result.error) or result.status))
    if kept != _SAMPLED:
        inside.append(attributes.kept(kept))
    return otlp.span(
        name=name,
        kind=otlp.SERVER,
        trace_id=bytes.fromhex(trace.trace_id),
        span_id=bytes.fromhex(trace.span_id),
        parent_id=bytes.fromhex(trace.parent_id),
        remote=bool(trace.parent_id),
        started=record.started_unix_ns,
        ended=_unix_ns(record, record.ended),
        inside=inside,
        failed=wrong,
    )


def _unix_ns(record: Record, at: float) -> int:
    return record.started_unix_ns + round((at - record.started) * 1e9)


def _was_resumed(record: Record, failed: Attempt) -> bool:
    """Whether the client had part of the answer when an attempt broke off."""
    return record.outcome.resumed > 0 and failed.phase == _DELIVERING and failed.status == _GOOD


def _request_events(record: Record) -> list[bytes]:
    events = []
    if record.queued:
        at = _unix_ns(record, record.decided - record.queued)
        events.append(otlp.event(names.EVENT_QUEUED, at, {names.QUEUED_SECONDS.name: record.queued}))
    for failed, following in pairwise(record.attempts):
        facts = {
            names.FAILOVER_FROM.name: failed.backend,
            names.FAILOVER_TO.name: following.backend,
            names.ERROR_TYPE.name: error_type(failed.error),
        }
        name = names.EVENT_RESUME if _was_resumed(record, failed) else names.EVENT_FAILOVER
        events.append(otlp.event(name, _unix_ns(record, failed.ended), facts))
    if record.outcome.status == statuses.CANCELLED:
        events.append(otlp.event(names.EVENT_DISCONNECTED, _unix_ns(record, record.ended)))
    return events
