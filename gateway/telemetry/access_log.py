"""The access log: one JSON line on stderr for each finished request, written off the request path."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.core.decide import Decision
from gateway.telemetry import stderr
from gateway.telemetry.decision_entry import model_of
from gateway.telemetry.lines import HELD, Lines

if TYPE_CHECKING:
    from gateway.core.outcome import Record

_ENCODER: Final = msgspec.json.Encoder()


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a line says; what is unknown or empty is left out. Times are seconds.

    Attributes:
        time: When the request's head arrived, RFC 3339 in UTC.
        model: As the client sent it if it is one of ours.
        reason: Why it went there, or why nowhere.
        attempts: Backends tried.
        seconds: From the request's head to the last byte.
        queued: Of these, how many it waited for a backend to have room, if it did.
        ttft: From dispatch of the last attempt to the first event with a token.
        first_token: To that from the request's head.
        accepted_length: Tokens a step yielded.
    """

    time: str
    level: str
    logger: str
    message: str
    request_id: str
    trace_id: str
    span_id: str
    endpoint: str
    http_status: int
    status: str
    reason: str
    seconds: float
    model: str = ""
    stream: bool = False
    workload: str = ""
    route: str = ""
    backend: str = ""
    method: str = ""
    attempts: int = 0
    queued: float | None = None
    ttft: float | None = None
    first_token: float | None = None
    tpot: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    accepted_length: float | None = None
    bytes_out: int = 0
    error: str = ""


class AccessLog(Lines["Record"]):
    """The access log.

    Args:
        descriptor: Of the file that it goes to; that of the process' stderr if left out.
        capacity: Requests held at most until they are written; further ones are dropped and counted.
    """

    def __init__(self, descriptor: int | None = None, capacity: int = HELD) -> None:
        super().__init__("access log", line_of, partial(stderr.write, descriptor=descriptor), capacity)


def line_of(record: Record) -> bytes:
    """A request as a line."""
    return _ENCODER.encode(access_of(record)) + b"\n"


def access_of(record: Record) -> Access:
    """What the access log says of a request."""
    outcome, decision = record.outcome, record.decision
    decided = isinstance(decision, Decision)
    moment = datetime.fromtimestamp(record.started_unix_ns / 1e9, UTC)
    return Access(
        time=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        level="info",
        logger="specroute.access",
        message="request",
        request_id=record.request_id,
        trace_id=record.trace.trace_id,
        span_id=record.trace.span_id,
        endpoint=record.features.endpoint,
        http_status=outcome.http_status,
        status=outcome.status,
        reason=decision.reason if isinstance(decision, Decision) else decision.kind,
        seconds=round(record.ended - record.started, 6),
        model=model_of(record),
        stream=record.features.stream,
        workload=record.classification.label if decided else "",
        route=decision.route or "",
        backend=record.backend,
        method=record.method,
        attempts=len(record.attempts),
        queued=_rounded(record.queued or None),
        ttft=_rounded(outcome.ttft),
        first_token=_rounded(outcome.first_token),
        tpot=_rounded(outcome.tpot),
        input_tokens=outcome.usage.input_tokens,
        output_tokens=outcome.usage.output_tokens,
        accepted_length=_rounded(outcome.speculation.mean_accepted_length),
        bytes_out=outcome.bytes_out,
        error=outcome.error,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
