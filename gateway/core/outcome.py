"""What became of a request: attempts, outcome, and the record that every consumer reads."""

from __future__ import annotations

from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.core.classify import Classification
    from gateway.core.decide import Decision, NoCandidate
    from gateway.core.features import Features
    from gateway.core.fleet import Snapshot

PHASES: Final = ("connect", "sent", "headers", "first_byte", "done")
"""How far an attempt came. It names the last phase reached; retry safety follows from it."""

# Status classes of an outcome.
OK: Final = "ok"
CLIENT_ERROR: Final = "client_error"
UPSTREAM_ERROR: Final = "upstream_error"
TIMEOUT: Final = "timeout"
CANCELLED: Final = "cancelled"
REJECTED: Final = "rejected"
TRUNCATED: Final = "truncated"
STATUSES: Final = (OK, CLIENT_ERROR, UPSTREAM_ERROR, TIMEOUT, CANCELLED, REJECTED, TRUNCATED)
"""``client_error``: the request was at fault (4xx). ``rejected``: no backend could take it.
``cancelled``: the client left. ``truncated``: the backend broke off after the first byte."""


@value(frozen=True, slots=True)
class Attempt:
    """One backend tried.

    Attributes:
        phase: Last phase reached, one of :data:`PHASES`.
        error: Error class (``connect``, ``reset``, ``timeout:first_byte``, ``status:503``,
            ``error_event``, ``error_event:4xx``, ``client_gone``, …) or ``""``. A request whose time was up
            before the backend had its own is ``timeout:deadline``, and ``timeout:total`` after that.
        status: HTTP status of the backend's answer, 0 before headers.
        started: Monotonic seconds.
        ended: Monotonic seconds.
        span_id: W3C span id sent upstream as parent, 16 hex digits.
        retry_after: Seconds after which the backend wants to be asked again; None where it did not say.
    """

    backend: str
    phase: str
    error: str
    status: int
    started: float
    ended: float
    span_id: str = ""
    retry_after: float | None = None


@value(frozen=True, slots=True)
class Usage:
    """Token counts as the backend reported them; None where it did not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@value(frozen=True, slots=True)
class Speculation:
    """Acceptance of one request.

    Attributes:
        grade: ``exact`` (the server's per-request numbers), ``none`` (a baseline, nothing to measure)
            or ``not_measured``.
        steps: Verification steps with a draft.
        drafted: Draft tokens proposed.
        accepted: Draft tokens accepted.
        histogram: Steps by number of accepted drafts, index 0 to N.
    """

    grade: str
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: tuple[int, ...] = ()

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step yields, bonus token included: 1 + accepted / steps."""
        return 1.0 + self.accepted / self.steps if self.steps else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the proposed draft tokens."""
        return self.accepted / self.drafted if self.drafted else None


def accepted_by_position(histogram: Sequence[int]) -> tuple[int, ...]:
    """Steps in which the draft at each position was accepted: reverse sums of the histogram.

    Args:
        histogram: Steps by number of accepted drafts, index 0 to N.
    """
    return tuple(accumulate(histogram[:0:-1]))[::-1]


@value(frozen=True, slots=True)
class Outcome:
    """How a request ended and what was measured; times are seconds taken when bytes arrived.

    Attributes:
        status: One of :data:`STATUSES`.
        http_status: What the client got; 499 if it left before the status line.
        ttft: From dispatch of the last attempt to its first event with a token; streams only.
        first_token: From the request's head to that event: what the client waited for.
        decode_seconds: From the first to the last token; streams only. Where a tool parser kept back the
            first tokens, from the first event of the answer.
        first_tokens: Tokens in the first event, 1 where unknown.
        events: Events that carried a token.
        most_tokens: Most tokens in one event after the first; 0 where events do not tell.
        finish_reason: As the backend said, in the words of chat completions; ``""`` if it did not.
        tool_calls: The answer called a tool.
        tool_arguments: ``valid`` if the arguments of all its calls are JSON objects, ``invalid`` if not,
            ``""`` where there was nothing to judge.
        response_id: Id in the body.
        response_model: Model in the body.
        bytes_out: Body bytes passed to the client.
        backpressured: The client read more slowly than the backend wrote, so the times are not the backend's.
        resumed: How often another backend went on with the stream; times and acceptance are then nobody's.
        error: Error class of the last attempt or of the rejection, ``""`` if all went well.
        nature: What the beginning of a good answer shows it to be, one of
            :data:`gateway.core.answer.NATURES`; ``""`` where it shows nothing.
    """

    status: str
    http_status: int
    ttft: float | None = None
    first_token: float | None = None
    decode_seconds: float | None = None
    first_tokens: int = 1
    events: int = 0
    most_tokens: int = 0
    usage: Usage = field(default_factory=Usage)
    speculation: Speculation = field(default_factory=lambda: Speculation("not_measured"))
    finish_reason: str = ""
    tool_calls: bool = False
    tool_arguments: str = ""
    response_id: str = ""
    response_model: str = ""
    bytes_out: int = 0
    backpressured: bool = False
    resumed: int = 0
    error: str = ""
    nature: str = ""

    @property
    def decode_tokens(self) -> int | None:
        """Output tokens after the first event: what :attr:`decode_seconds` was spent on."""
        if self.usage.output_tokens is None or self.decode_seconds is None:
            return None
        return max(0, self.usage.output_tokens - self.first_tokens)

    @property
    def tpot(self) -> float | None:
        """Seconds per output token after the first event; None where it cannot be told."""
        tokens = self.decode_tokens
        return self.decode_seconds / tokens if tokens and self.decode_seconds is not None else None


@value(frozen=True, slots=True)
class Trace:
    """W3C trace context of a request.

    Attributes:
        trace_id: 32 hex digits.
        span_id: Our server span, 16 hex digits.
        parent_id: The caller's span, ``""`` if it sent none.
        sampled: Whether spans of this trace are exported.
        state: ``tracestate`` as received.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    sampled: bool = True
    state: str = ""


@value(frozen=True, slots=True)
class Record:
    """Everything about one finished request; the only thing that consumers get.

    Attributes:
        started: Monotonic seconds at which the request head arrived.
        started_unix_ns: The same on the wall clock.
        ended: Monotonic seconds of the last byte.
        decided: Monotonic seconds at which the decision stood.
        backend: The one that answered, or the last one tried; ``""`` if none was.
        method: Its speculative method; ``""`` if none was tried.
        draft_tokens: Its N.
        snapshot: The fleet that the decision saw; None where none was made.
        queued: Seconds that it waited for a backend to have room.
        of_client: Whether a text has to do with the credentials of the client; None where no client is known.
    """

    request_id: str
    trace: Trace
    started: float
    started_unix_ns: int
    decided: float
    ended: float
    features: Features
    classification: Classification
    decision: Decision | NoCandidate
    attempts: tuple[Attempt, ...]
    outcome: Outcome
    backend: str = ""
    method: str = ""
    draft_tokens: int = 0
    baseline: bool = False
    snapshot: Snapshot | None = field(default=None, repr=False, compare=False)
    queued: float = 0.0
    of_client: Callable[[bytes], bool] | None = field(default=None, repr=False, compare=False)
