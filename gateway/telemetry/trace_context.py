"""W3C Trace Context, level 1: ``traceparent`` and ``tracestate`` in and out, ids from given bytes."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Final

from gateway.core.outcome import Trace

CURRENT: Final[ContextVar[Trace | None]] = ContextVar("trace", default=None)
"""The trace of the request that a task serves, for its log lines."""

BYTES: Final = 24
"""Random bytes that :func:`begin` takes: 16 for a trace id, 8 for a span id."""

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER: Final = re.compile(
    r"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    r"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_MEMBERS: Final = 32
_SAMPLED: Final = 0x01
_RATIO_BITS: Final = 56


def begin(traceparent: str, tracestate: str, random: bytes, *, ratio: float = 1.0) -> Trace:
    """The trace context of a new request: the caller's trace continued, or a trace of its own.

    Args:
        traceparent: The header as received, ``""`` if there was none. A broken one counts as none.
        tracestate: All headers of that name joined by commas. Kept only with a good ``traceparent``.
        random: :data:`BYTES` random bytes.
        ratio: Share of the traces that begin here to export, 0 to 1; a caller's choice is kept.
    """
    span_id = new_span_id(random[16:24])
    parent = _parse(traceparent) if traceparent else None
    if parent is None:
        trace_id = _not_zero(random[:16]).hex()
        return Trace(trace_id, span_id, sampled=_in_ratio(trace_id, ratio))
    trace_id, parent_id, sampled = parent
    return Trace(trace_id, span_id, parent_id, sampled=sampled, state=_state(tracestate))


def new_span_id(random: bytes) -> str:
    """A span id of 16 hex digits from 8 random bytes."""
    return _not_zero(random).hex()


def traceparent(trace: Trace, span_id: str) -> str:
    """The header that makes a span of this trace the parent of what the receiver does."""
    return f"00-{trace.trace_id}-{span_id}-{'01' if trace.sampled else '00'}"


def _not_zero(random: bytes) -> bytes:
    # An id of zeros means "none" on the wire.
    return random if any(random) else b"\x01" * len(random)


def _in_ratio(trace_id: str, ratio: float) -> bool:
    # The last 7 bytes are the random part of an id, so that samplers along the way choose alike.
    return int(trace_id[-14:], 16) < ratio * (1 << _RATIO_BITS)


def _parse(header: str) -> tuple[str, str, bool] | None:
    """Trace id, parent id and sampled flag, None for a header that must be ignored."""
    match = _PARENT.fullmatch(header.strip(" \t"))
    if match is None:
        return None
    version, trace_id, parent_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or not trace_id.strip("0") or not parent_id.strip("0"):
        return None
    return trace_id, parent_id, bool(int(flags, 16) & _SAMPLED)


def _state(header: str) -> str:
    """The list in normal form, ``""`` where it breaks the rules: then it must not be passed on."""
    members = [member for part in header.split(",") if (member := part.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > _MAX_MEMBERS or len(keys) < len(members):
        return ""
    return ",".join(members) if all(_MEMBER.fullmatch(member) for member in members) else ""
