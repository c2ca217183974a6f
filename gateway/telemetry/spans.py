"""From a Record to finished spans: one of the request, and under it one of each attempt.

They are built when all is over, with the ids that were made at the start and sent upstream, so that a request
pays nothing for them while it runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

from gateway.core import outcome as statuses
from gateway.core import reasons
from gateway.core.decide import Decision
from gateway.telemetry import names
from gateway.telemetry.span_attributes import (
    answered,
    asked,
    error_type,
    measured,
    predicted,
    route,
    span_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from gateway.core.fleet import Backend
    from gateway.core.outcome import Attempt, Record, Trace
    from gateway.telemetry.span_attributes import Attributes

_DELIVERING: Final = "first_byte"
"""Phase of an attempt that broke off while the client got its answer."""

_GOOD: Final = 200

_FAILED: Final = frozenset({statuses.UPSTREAM_ERROR, statuses.TIMEOUT, statuses.REJECTED, statuses.TRUNCATED})
"""Statuses that are errors of ours. A client's own mistake, or that it left, is none, as for HTTP servers."""


def server_context(trace: Trace) -> SpanContext:
    """The context of the request's own span."""
    return _context(trace, trace.span_id, remote=False)


def _context(trace: Trace, span_id: str, *, remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if trace.sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([trace.state]) if trace.state else None
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), remote, flags, state)


class Spans:
    """Builds the spans of Records.

    Args:
        resource: What the gateway is.
        scope: The instrumentation scope.
        backend: Gives a backend of the fleet by name, None if it has left.
        slow: Seconds to the first token of a stream, or to the end of another answer, from which on the
            trace is kept.
    """

    def __init__(
        self,
        resource: Resource,
        scope: InstrumentationScope,
        backend: Callable[[str], Backend | None],
        slow: float = math.inf,
    ) -> None:
        self._resource = resource
        self._scope = scope
        self._backend = backend
        self._slow = slow

    def wanted(self, record: Record) -> bool:
        """Whether a request has spans: its trace is sampled or worth keeping."""
        return record.trace.sampled or bool(self._worth(record))

    def of(self, record: Record) -> list[ReadableSpan]:
        """All spans of a request, attempts first; none if its trace is neither sampled nor worth keeping.

        An attempt without span id is left out: nothing was sent under it.
        """
        if not record.trace.sampled:
            kept = self._worth(record)
            if not kept:
                return []
            record = replace(record, trace=replace(record.trace, sampled=True))
            *attempts, request = self.of(record)
            return [*attempts, _marked(request, kept)]
        attempts = [
            self._attempt(record, number, attempt)
            for number, attempt in enumerate(record.attempts, start=1)
            if attempt.span_id
        ]
        return [*attempts, self._request(record)]

    def _worth(self, record: Record) -> str:
        """Why to keep a trace that chance left out, or nothing; a caller that wants none is obeyed."""
        if record.trace.parent_id:
            return ""
        if record.outcome.status in _FAILED:
            return "failed"
        if isinstance(record.decision, Decision) and record.decision.reason in reasons.LEARNING:
            return "explored"
        ttft = record.outcome.ttft
        return "slow" if (record.ended - record.started if ttft is None else ttft) >= self._slow else ""

    def _request(self, record: Record) -> ReadableSpan:
        trace, result = record.trace, record.outcome
        attributes = asked(record) | route(record) | predicted(record) | measured(record)
        attributes[names.HTTP_STATUS.name] = result.http_status
        status = Status(StatusCode.UNSET)
        if result.status in _FAILED:
            status = Status(StatusCode.ERROR)
            attributes[names.ERROR_TYPE.name] = error_type(result.error) or result.status
        return ReadableSpan(
            span_name(record),
            server_context(trace),
            _context(trace, trace.parent_id, remote=True) if trace.parent_id else None,
            self._resource,
            attributes,
            _request_events(record),
            kind=SpanKind.SERVER,
            status=status,
            start_time=record.started_unix_ns,
            end_time=_unix_ns(record, record.ended),
            instrumentation_scope=self._scope,
        )

    def _attempt(self, record: Record, number: int, attempt: Attempt) -> ReadableSpan:
        last = number == len(record.attempts)
        attributes: Attributes = {
            **asked(record),
            names.GEN_AI_PROVIDER.name: names.PROVIDER,
            names.ROUTE_BACKEND.name: attempt.backend,
            names.ATTEMPT_NUMBER.name: number,
            names.ATTEMPT_PHASE.name: attempt.phase,
            **self._address(attempt.backend),
        }
        if attempt.status:
            attributes[names.HTTP_STATUS.name] = attempt.status
        status = Status(StatusCode.UNSET)
        if attempt.error:
            attributes[names.ATTEMPT_ERROR.name] = attempt.error
            if attempt.error != "client_gone":
                status = Status(StatusCode.ERROR)
                attributes[names.ERROR_TYPE.name] = error_type(attempt.error)
        events = []
        if last:
            attributes |= answered(record)
            if record.outcome.ttft is not None:
                at = _unix_ns(record, attempt.started + record.outcome.ttft)
                events.append(Event(names.EVENT_FIRST_TOKEN, timestamp=at))
        return ReadableSpan(
            span_name(record),
            _context(record.trace, attempt.span_id, remote=False),
            server_context(record.trace),
            self._resource,
            attributes,
            events,
            kind=SpanKind.CLIENT,
            status=status,
            start_time=_unix_ns(record, attempt.started),
            end_time=_unix_ns(record, attempt.ended),
            instrumentation_scope=self._scope,
        )

    def _address(self, name: str) -> Attributes:
        backend = self._backend(name)
        if backend is None:
            return {}
        url = urlsplit(backend.url)
        port = url.port or (443 if url.scheme == "https" else 80)
        return {names.SERVER_ADDRESS.name: url.hostname or "", names.SERVER_PORT.name: port}


def _marked(span: ReadableSpan, kept: str) -> ReadableSpan:
    """The span of a request with the reason why it was kept."""
    return ReadableSpan(
        span.name, span.context, span.parent, span.resource,
        {**(span.attributes or {}), names.ROUTE_KEPT.name: kept}, span.events,
        kind=span.kind, status=span.status, start_time=span.start_time, end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )  # fmt: skip


def _unix_ns(record: Record, at: float) -> int:
    return record.started_unix_ns + round((at - record.started) * 1e9)


def _was_resumed(record: Record, failed: Attempt) -> bool:
    """Whether the client had part of the answer when an attempt broke off."""
    return record.outcome.resumed > 0 and failed.phase == _DELIVERING and failed.status == _GOOD


def _request_events(record: Record) -> list[Event]:
    events = [
        Event(
            names.EVENT_RESUME if _was_resumed(record, failed) else names.EVENT_FAILOVER,
            {
                names.FAILOVER_FROM.name: failed.backend,
                names.FAILOVER_TO.name: following.backend,
                names.ERROR_TYPE.name: error_type(failed.error),
            },
            _unix_ns(record, failed.ended),
        )
        for failed, following in zip(record.attempts, record.attempts[1:], strict=False)
    ]
    if record.outcome.status == statuses.CANCELLED:
        events.append(Event(names.EVENT_DISCONNECTED, timestamp=_unix_ns(record, record.ended)))
    return events
