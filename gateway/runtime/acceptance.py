"""Owner of what is known of acceptance beyond single answers: three grades by backend and workload."""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core import attribution
from gateway.core.acceptance import MOST_DOUBT, StreamSums, Stretch, mismatch, stream_sums
from gateway.core.counters import Window, between, restarted
from gateway.core.features import GENERATING
from gateway.core.fleet import STAND_IN
from gateway.core.gain import Sums, decode_sample
from gateway.core.outcome import OK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.core.counters import Counters
    from gateway.core.outcome import Attempt, Record

_log = logging.getLogger(__name__)

EXACT: Final = "exact"
STREAM: Final = "stream"
COUNTERS: Final = "counters"

OTHERS: Final = ""
"""Stands for requests that did not come through this gateway."""

_UNTOLD: Final = "?"
"""Stands for tokens that may be of our requests that broke off, of other workers' requests, or of others'."""

_ALARM: Final = 3
"""Stretches in a row that must disagree before it counts."""

MOST_SPANS: Final = 20_000
"""Requests remembered a backend until their windows are done; windows of those forgotten are passed over."""

_NO_ANSWER: Final = 400
"""HTTP status from which on a server generated nothing."""

_MOST_PENDING: Final = 1_000
"""Windows that wait for the end of a request; more are passed over."""


class Known(NamedTuple):
    """A mean accepted length and how it is known.

    Attributes:
        grade: :data:`EXACT`, :data:`STREAM` or :data:`COUNTERS`.
        mean_accepted_length: None where the grade cannot tell.
        why_not: Why it cannot, as a reason code.
    """

    backend: str
    workload: str
    grade: str
    mean_accepted_length: float | None
    why_not: str = ""


class _Span(NamedTuple):
    """Tokens of a request and when they were decoded.

    Attributes:
        accepted: None where the answer did not say.
        whole: Whether the server generated no more than these; else how many is unknown.
    """

    workload: str
    start: float
    end: float
    first_tokens: int = 0
    tokens: int = 0
    accepted: int | None = None
    whole: bool = False

    def share(self, window: Window) -> float:
        """Which part of it lies in a window."""
        if self.end <= self.start:
            return 1.0 if window.since <= self.start < window.until else 0.0
        overlap = min(self.end, window.until) - max(self.start, window.since)
        return max(0.0, overlap) / (self.end - self.start)

    def doubt(self, moment: float) -> float:
        """Tokens of which it is unknown whether they came before a moment or after it."""
        if not self.start < moment < self.end:
            return 0.0
        return min(moment - self.start, self.end - moment) / (self.end - self.start) * self.tokens

    def hides(self, window: Window) -> bool:
        """Whether it may have had more tokens in a window than are known."""
        return not self.whole and self.start < window.until and self.end >= window.since


@dataclass(slots=True)
class _Server:
    """What is known of one backend since its server was last started."""

    counters: Counters | None = None
    mark: Counters | None = None
    pending: deque[Window] = field(default_factory=lambda: deque(maxlen=_MOST_PENDING))
    spans: deque[_Span] = field(default_factory=deque)
    forgotten: float = -math.inf
    exact: dict[str, Sums] = field(default_factory=dict)
    stream: dict[str, StreamSums] = field(default_factory=dict)
    regression: attribution.State = field(default_factory=attribution.empty)
    stretch: Stretch | None = None
    others: bool | None = None
    mismatch: float | None = None
    disagreeing: int = 0

    def add(self, span: _Span) -> None:
        if len(self.spans) >= MOST_SPANS:
            self.forgotten = max(self.forgotten, self.spans.popleft().end)
        self.spans.append(span)


class Acceptance:
    """Three grades of acceptance. One event loop owns it; telemetry reads."""

    def __init__(
        self,
        *,
        window: float = 10.0,
        lag: float = 60.0,
        alone: bool = True,
        open_since: Callable[[str], float] = lambda _name: math.inf,
        on_restart: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Know nothing yet.

        Args:
            window: Seconds of the windows that counters are compared over.
            lag: Seconds after which a window is judged at the earliest.
            alone: Whether all requests of this gateway are seen here; other workers' are not.
            open_since: When the oldest request was sent to a backend that has not ended: what it decoded, it
                tells when it ends, and windows wait for that.
            on_restart: Called with the name of a backend whose server was started anew.
        """
        self._window = window
        self._lag = lag
        self._alone = alone
        self._open_since = open_since
        self._on_restart = on_restart
        self._servers: dict[str, _Server] = {}
        self.restarts: dict[tuple[str], int] = {}
        """How often each backend's server was seen to be started anew."""

    def on_record(self, record: Record) -> None:
        """Take in a finished request."""
        label, outcome = record.classification.label, record.outcome
        for attempt in record.attempts[:-1]:
            self._untold(label, attempt)
        if not record.attempts or record.baseline or record.method == STAND_IN:
            return
        attempt, good = record.attempts[-1], outcome.status == OK
        server = self._server(record.backend)
        if good:
            server.exact[label] = server.exact.get(label, Sums()).and_one(record, decode_sample(record))
            if (sums := stream_sums(record)) is not None:
                server.stream[label] = server.stream.get(label, StreamSums()).plus(sums)
        if outcome.usage.output_tokens is None:
            if record.features.endpoint in GENERATING:
                self._untold(label, attempt)
            return
        start = attempt.started + (outcome.ttft or 0.0)
        end = start + outcome.decode_seconds if outcome.decode_seconds is not None else attempt.ended
        tokens = max(0, outcome.usage.output_tokens - outcome.first_tokens)
        accepted = outcome.speculation.accepted if outcome.speculation.grade == EXACT else None
        server.add(_Span(label, start, end, outcome.first_tokens, tokens, accepted, good))

    def _untold(self, workload: str, attempt: Attempt) -> None:
        """Take in an attempt of which nobody said what it generated."""
        if attempt.phase != "connect" and attempt.status < _NO_ANSWER:
            self._server(attempt.backend).add(_Span(workload, attempt.started, attempt.ended))

    def counted(self, backend: str, counters: Counters) -> None:
        """Take in what a backend's server has counted so far."""
        server = self._server(backend)
        if server.counters is not None and restarted(server.counters, counters):
            # What was measured belongs to a server that is gone, perhaps with another draft length.
            server = self._servers[backend] = _Server()
            self.restarts[(backend,)] = self.restarts.get((backend,), 0) + 1
            _log.info("the server of %s was started anew: what was measured of it is forgotten", backend)
            self._on_restart(backend)
        server.counters = counters
        if server.mark is None:
            server.mark = counters
        elif counters.at - server.mark.at >= self._window:
            if (window := between(server.mark, counters)) is not None:
                server.pending.append(window)
            server.mark = counters
        done = min(counters.at - self._lag, self._open_since(backend)) if server.pending else 0.0
        while server.pending and server.pending[0].until <= done:
            self._judge(backend, server, server.pending.popleft())

    def _server(self, backend: str) -> _Server:
        server = self._servers.get(backend)
        if server is None:  # no setdefault, which would make one for each record
            server = self._servers[backend] = _Server()
        return server

    def _judge(self, backend: str, server: _Server, window: Window) -> None:
        """Compare a window with the requests in it, and learn from it."""
        while server.spans and server.spans[0].end < window.since:
            server.spans.popleft()
        if window.since < server.forgotten:
            return
        tokens: dict[str, float] = {}
        first, accepted, opening, closing = 0.0, 0.0, 0.0, 0.0
        told, whole = True, self._alone
        for span in server.spans:
            share = span.share(window)
            if share > 0:
                tokens[span.workload] = tokens.get(span.workload, 0.0) + share * span.tokens
                accepted += share * (span.accepted or 0)
                opening += span.doubt(window.since)
                closing += span.doubt(window.until)
                told = told and span.accepted is not None
            if window.since <= span.start < window.until:
                first += span.first_tokens
            whole = whole and not span.hides(window)
        decoded = sum(tokens.values())
        rest = max(0.0, window.generated - first - decoded)
        if not whole:
            server.stretch = None
            tokens[_UNTOLD] = rest
        else:
            stretch = server.stretch = server.stretch or Stretch(opening)
            stretch.closing = closing
            stretch.generated += window.generated
            stretch.ours += first + decoded
            stretch.counted += window.accepted
            stretch.told += accepted
            stretch.exact = stretch.exact and told
            self._compare(backend, server, stretch)
            if server.others is None:
                return
            if server.others:
                tokens[OTHERS] = rest
            elif decoded:
                # All is ours: only when its tokens were decoded is not quite known.
                times = max(0.0, window.generated - first) / decoded
                tokens = {workload: times * count for workload, count in tokens.items()}
        server.regression = attribution.update(server.regression, tokens, window.drafts, window.accepted)

    @staticmethod
    def _compare(backend: str, server: _Server, stretch: Stretch) -> None:
        """Judge a stretch once it is long enough, and begin another."""
        if stretch.doubt > MOST_DOUBT:
            return
        server.stretch, server.others = None, stretch.others
        if not stretch.exact or not stretch.ours:
            return
        server.mismatch = mismatch(stretch.counted, stretch.told)
        server.disagreeing = server.disagreeing + 1 if stretch.disagrees else 0
        if server.disagreeing == _ALARM:
            _log.warning(
                "%s: its counters and its answers disagree on accepted tokens by %.0f %%: others use it, "
                "or one of the two is wrong", backend, 100 * server.mismatch,
            )  # fmt: skip

    def known(self) -> Iterator[Known]:
        """Every mean accepted length that is known, and those that are not with the reason."""
        for name, server in tuple(self._servers.items()):
            for workload, sums in tuple(server.exact.items()):
                if sums.mean_accepted_length is not None:
                    yield Known(name, workload, EXACT, sums.mean_accepted_length)
            for workload, streamed in tuple(server.stream.items()):
                yield Known(name, workload, STREAM, streamed.mean_accepted_length, streamed.why_not)
            for workload, one in attribution.estimates(server.regression).items():
                if workload != _UNTOLD:
                    yield Known(name, workload, COUNTERS, one.mean_accepted_length, one.why_not)

    def lengths(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        """Backend, workload and grade of what is known, and the mean accepted length."""
        for one in self.known():
            if one.mean_accepted_length is not None and one.workload != OTHERS:
                yield one[:3], one.mean_accepted_length

    def as_json(self) -> dict[str, dict[str, dict[str, float | dict[str, str] | None]]]:
        """Mean accepted lengths by backend, workload and grade; ``others`` is what did not come through here.

        A grade that cannot tell is None, and ``why_not`` has its reason code; one without requests is absent.
        """
        told: dict[str, dict[str, dict[str, float | dict[str, str] | None]]] = {}
        reasons: dict[tuple[str, str], dict[str, str]] = {}
        for one in self.known():
            grades = told.setdefault(one.backend, {}).setdefault(one.workload or "others", {})
            grades[one.grade] = one.mean_accepted_length
            if one.why_not:
                why = grades["why_not"] = reasons.setdefault((one.backend, one.workload), {})
                why[one.grade] = one.why_not
        return told

    def ages(self, now: float) -> Iterator[tuple[str, float]]:
        """Seconds since each backend's counters were read."""
        for name, server in tuple(self._servers.items()):
            if server.counters is not None:
                yield name, now - server.counters.at

    def mismatches(self) -> Iterator[tuple[str, float]]:
        """By how much counters exceed what answers told, as a share, when each backend was last compared."""
        for name, server in tuple(self._servers.items()):
            if server.mismatch is not None:
                yield name, server.mismatch
