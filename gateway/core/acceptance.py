"""Acceptance from the events of a stream, where the server tells none; and whether what it tells adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core.outcome import OK

if TYPE_CHECKING:
    from gateway.core.counters import Window
    from gateway.core.outcome import Record

MIN_TOKENS: Final = 16
"""Fewer decoded tokens than this say little: the last step is cut short by the end of the answer."""

MOST_MISMATCH: Final = 0.05
"""Relative difference between the counters and the sum over requests that may be chance."""


@dataclass(frozen=True, slots=True)
class StreamSums:
    """Tokens and steps of streams. Two of them add up.

    Attributes:
        requests: Streams.
        tokens: Tokens after the first event.
        steps: Events after the first: a server sends one a step.
    """

    requests: int = 0
    tokens: int = 0
    steps: int = 0

    def plus(self, other: StreamSums) -> StreamSums:
        """The sums over both."""
        return StreamSums(
            self.requests + other.requests, self.tokens + other.tokens, self.steps + other.steps
        )

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step yields, bonus token included."""
        return self.tokens / self.steps if self.steps else None


def stream_sums(record: Record) -> StreamSums | None:
    """What the events of a stream say, None where they say nothing of steps.

    Nothing is told by a stream of several choices, of a client that was too slow (events then merge), of a
    tool call (its parser swallows events), or with more tokens in an event than a step can have: a server
    that is late with its events puts two steps into one. Where events do not tell their tokens, only their
    mean is judged, and a length may be too high by what was merged.
    """
    outcome, longest = record.outcome, record.draft_tokens + 1
    tokens, steps = outcome.decode_tokens, outcome.events - 1
    telling = (
        outcome.status == OK
        and record.features.n == 1
        and record.draft_tokens > 0
        and not outcome.tool_calls
        and not outcome.backpressured
        and outcome.most_tokens <= longest
    )
    if not telling or tokens is None or tokens < MIN_TOKENS or steps < 1:
        return None
    return StreamSums(1, tokens, steps) if tokens <= steps * longest else None


def mismatch(window: Window, accepted: float) -> float:
    """By how much what requests told differs from the server's counter, as a share of the larger of the two.

    Args:
        window: What the server counted.
        accepted: Accepted tokens of the requests in that time.

    Returns:
        From 1 (only the server counted any: others use it) to -1 (only the requests told of any).
    """
    most = max(window.accepted, accepted)
    return (window.accepted - accepted) / most if most > 0 else 0.0
