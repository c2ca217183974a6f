"""Acceptance from the events of a stream, where the server tells none; and whether what it tells adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.core.features import STEPWISE
from gateway.core.outcome import OK

if TYPE_CHECKING:
    from gateway.core.outcome import Record

MIN_TOKENS: Final = 16
"""Fewer decoded tokens than this say little: the last step is cut short by the end of the answer."""

MOST_MERGED: Final = 0.05
"""Share of tokens that may be in streams with merged events: those that are left accept less than all do."""

OTHERS_SHARE: Final = 0.02
"""Share of a server's tokens up to which a difference to ours is rounding, not other people's work."""

MOST_DOUBT: Final = 0.05
"""Share of a stretch's tokens that may be in doubt when it is judged."""

MOST_MISMATCH: Final = 0.05
"""Relative difference between the counters and the sum over requests that may be chance."""


@dataclass(frozen=True, slots=True)
class StreamSums:
    """Tokens and steps of streams. Two of them add up.

    Attributes:
        requests: Streams.
        tokens: Tokens after the first event.
        steps: Events after the first: a server sends one a step.
        merged: Tokens after the first event of streams whose events do not show their steps.
    """

    requests: int = 0
    tokens: int = 0
    steps: int = 0
    merged: int = 0

    def plus(self, other: StreamSums) -> StreamSums:
        """The sums over both."""
        return StreamSums(
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.steps + other.steps,
            self.merged + other.merged,
        )

    @property
    def why_not(self) -> str:
        """Why there is no length: ``merged_events``, or empty where there is one."""
        return "merged_events" if self.merged > MOST_MERGED * (self.tokens + self.merged) else ""

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step yields, bonus token included."""
        return self.tokens / self.steps if self.steps and not self.why_not else None


def stream_sums(record: Record) -> StreamSums | None:
    """What the events of a stream say, None where they say nothing of steps.

    Nothing is told by a stream of responses or messages, of several choices, of a client that was too slow
    (events then merge), or of a tool call (its parser swallows events). A server that is late with its events
    puts two steps into one: all of a stream counts as merged that has more tokens in an event than a step can
    have. Where events do not tell their tokens, only their mean is judged, and a length may be too high by
    what was merged.
    """
    outcome, longest = record.outcome, record.draft_tokens + 1
    tokens, steps = outcome.decode_tokens, outcome.events - 1
    telling = (
        outcome.status == OK
        and record.features.n == 1
        and record.features.endpoint in STEPWISE
        and record.draft_tokens > 0
        and not outcome.tool_calls
        and not outcome.backpressured
    )
    if not telling or tokens is None or tokens < MIN_TOKENS or steps < 1:
        return None
    if outcome.most_tokens > longest or tokens > steps * longest:
        return StreamSums(merged=tokens)
    return StreamSums(1, tokens, steps)


def mismatch(counted: float, told: float) -> float:
    """By how much what requests told differs from what the server counted, as a share of the larger one.

    Returns:
        From 1 (only the server counted any: others use it) to -1 (only the requests told of any).
    """
    most = max(counted, told)
    return (counted - told) / most if most > 0 else 0.0


@dataclass(slots=True)
class Stretch:
    """Windows in a row, in which what a server counted is compared with what its requests told.

    An answer tells its tokens when it ends, and not when each was written: of one that goes on over the start
    or the end of a stretch, how much lies within is in doubt. The longer the stretch, the less that matters.

    Attributes:
        opening: Tokens in doubt at its start.
        closing: Tokens in doubt at its end.
        generated: Tokens that the server counted.
        ours: Tokens that requests told.
        counted: Accepted tokens that the server counted.
        told: Accepted tokens that requests told.
        exact: Whether all of them told theirs.
    """

    opening: float
    closing: float = 0.0
    generated: float = 0.0
    ours: float = 0.0
    counted: float = 0.0
    told: float = 0.0
    exact: bool = True

    @property
    def doubt(self) -> float:
        """What is in doubt as a share of all tokens."""
        return (self.opening + self.closing) / self.generated if self.generated else 0.0

    @property
    def others(self) -> bool:
        """Whether the server certainly had others' requests, too."""
        return mismatch(self.generated, self.ours) > OTHERS_SHARE + self.doubt

    @property
    def disagrees(self) -> bool:
        """Whether accepted tokens certainly differ by more than may be chance."""
        return abs(mismatch(self.counted, self.told)) > MOST_MISMATCH + self.doubt
