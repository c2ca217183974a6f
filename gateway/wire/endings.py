"""Whether a stream of events that brings no more has come to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.features import GENERATING

if TYPE_CHECKING:
    from gateway.wire.plan import Plan
    from gateway.wire.resume import Splice
    from gateway.wire.sse import StreamTap

_CHOOSING: Final = frozenset({"chat", "completions"})
"""Endpoints whose answers are made of choices."""


def has_ended(plan: Plan, tap: StreamTap | Splice) -> bool:
    """Whether nothing of the answer is missing. Some servers send no ``[DONE]``."""
    reading = tap.reading
    if tap.done or reading.error or plan.endpoint not in GENERATING:
        return True
    counted = reading.usage.output_tokens is not None or not plan.usage
    whole = not tap.cut and len(reading.finished) >= plan.choices
    return plan.endpoint in _CHOOSING and whole and counted
