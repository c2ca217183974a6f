"""Owner of what is known of acceptance beyond single answers: three grades by backend and workload."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core import attribution
from gateway.core.acceptance import MOST_MISMATCH, StreamSums, mismatch, stream_sums
from gateway.core.counters import Window, between, restarted
from gateway.core.gain import Sums
from gateway.core.outcome import OK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.core.counters import Counters
    from gateway.core.outcome import Record

_log = logging.getLogger(__name__)

EXACT: Final = "exact"
STREAM: Final = "stream"
COUNTERS: Final = "counters"

OTHERS: Final = ""
"""Stands for requests that did not come through this gateway."""

_OTHERS_SHARE: Final = 0.02
"""Share of a server's tokens up to which a difference to ours is rounding, not other people's work."""

_ALARM: Final = 3
"""Windows in a row that must disagree before it counts."""

_MOST_SPANS: Final = 20_000
"""Requests remembered a backend until their windows are done."""


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
    """Tokens of a request and when they were decoded; ``accepted`` is None where the answer did not say."""

    workload: str
    start: float
    end: float
    first_tokens: int
    tokens: int
    accepted: int | None

    def share(self, window: Window) -> float:
        """Which part of it lies in a window."""
        if self.end <= self.start:
            return 1.0 if window.since <= self.start < window.until else 0.0
        overlap = min(self.end, window.until) - max(self.start, window.since)
        return max(0.0, overlap) / (self.end - self.start)


@dataclass(slots=True)
class _Server:
    """What is known of one backend since its server was last started."""

    counters: Counters | None = None
    mark: Counters | None = None
    pending: deque[Window] = field(default_factory=deque)
    spans: deque[_Span] = field(default_factory=lambda: deque(maxlen=_MOST_SPANS))
    exact: dict[str, Sums] = field(default_factory=dict)
    stream: dict[str, StreamSums] = field(default_factory=dict)
    regression: attribution.State = field(default_factory=attribution.empty)
    mismatches: deque[float] = field(default_factory=lambda: deque(maxlen=_ALARM))


class Acceptance:
    """Three grades of acceptance. One event loop owns it; telemetry reads."""

    def __init__(
        self,
        *,
        window: float = 10.0,
        lag: float = 60.0,
        on_restart: Callable[[str], None] = lambda _name: None,
    ) -> None:
        """Know nothing yet.

        Args:
            window: Seconds of the windows that counters are compared over.
            lag: Seconds after which a window is judged: a request tells what it decoded when it ends.
            on_restart: Called with the name of a backend whose server was started anew.
        """
        self._window = window
        self._lag = lag
        self._on_restart = on_restart
        self._servers: dict[str, _Server] = {}
        self.restarts: dict[tuple[str], int] = {}
        """How often each backend's server was seen to be started anew."""

    def on_record(self, record: Record) -> None:
        """Take in a finished request."""
        if not record.attempts or record.baseline or record.outcome.status != OK:
            return
        server = self._server(record.backend)
        workload, outcome = record.classification.label, record.outcome
        server.exact[workload] = server.exact.get(workload, Sums()).plus(Sums.of(record))
        if (sums := stream_sums(record)) is not None:
            server.stream[workload] = server.stream.get(workload, StreamSums()).plus(sums)
        if outcome.usage.output_tokens is None:
            return
        attempt = record.attempts[-1]
        start = attempt.started + (outcome.ttft or 0.0)
        end = start + outcome.decode_seconds if outcome.decode_seconds is not None else attempt.ended
        tokens = max(0, outcome.usage.output_tokens - outcome.first_tokens)
        accepted = outcome.speculation.accepted if outcome.speculation.grade == EXACT else None
        server.spans.append(_Span(workload, start, end, outcome.first_tokens, tokens, accepted))

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
        while server.pending and counters.at - server.pending[0].until >= self._lag:
            self._judge(backend, server, server.pending.popleft())

    def _server(self, backend: str) -> _Server:
        server = self._servers.get(backend)
        if server is None:  # no setdefault, which would make one for each record
            server = self._servers[backend] = _Server()
        return server

    def _judge(self, backend: str, server: _Server, window: Window) -> None:
        """Compare a window with the requests in it, and learn from it."""
        tokens: dict[str, float] = {}
        ours, accepted = 0.0, 0.0
        told = True
        for span in server.spans:
            share = span.share(window)
            if share > 0:
                tokens[span.workload] = tokens.get(span.workload, 0.0) + share * span.tokens
                ours += share * span.tokens
                accepted += share * (span.accepted or 0)
                told = told and span.accepted is not None
            if window.since <= span.start < window.until:
                ours += span.first_tokens
        others = window.generated - ours
        if others > _OTHERS_SHARE * window.generated:
            tokens[OTHERS] = others
        server.regression = attribution.update(server.regression, tokens, window.drafts, window.accepted)
        if told and ours:
            self._reconcile(backend, server, mismatch(window, accepted))
        while server.spans and server.spans[0].end < window.since:
            server.spans.popleft()

    def _reconcile(self, backend: str, server: _Server, off: float) -> None:
        alarmed = self._disagrees(server)
        server.mismatches.append(off)
        if self._disagrees(server) and not alarmed:
            _log.warning(
                "%s: its counters and its answers disagree on accepted tokens by %.0f %%: others use it, "
                "or one of the two is wrong", backend, 100 * off,
            )  # fmt: skip

    @staticmethod
    def _disagrees(server: _Server) -> bool:
        return len(server.mismatches) == _ALARM and all(abs(off) > MOST_MISMATCH for off in server.mismatches)

    def known(self) -> Iterator[Known]:
        """Every mean accepted length that is known, and those that are not with the reason."""
        for name, server in tuple(self._servers.items()):
            for workload, sums in tuple(server.exact.items()):
                if sums.mean_accepted_length is not None:
                    yield Known(name, workload, EXACT, sums.mean_accepted_length)
            for workload, streamed in tuple(server.stream.items()):
                yield Known(name, workload, STREAM, streamed.mean_accepted_length)
            for workload, one in attribution.estimates(server.regression).items():
                yield Known(name, workload, COUNTERS, one.mean_accepted_length, one.why_not)

    def lengths(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        """Backend, workload and grade of what is known, and the mean accepted length."""
        for one in self.known():
            if one.mean_accepted_length is not None and one.workload != OTHERS:
                yield one[:3], one.mean_accepted_length

    def as_json(self) -> dict[str, dict[str, dict[str, float | str | None]]]:
        """Mean accepted lengths by backend, workload and grade; ``others`` is what did not come through here.

        A grade that cannot tell is None, and ``why_not`` is the reason code; one without requests is absent.
        """
        told: dict[str, dict[str, dict[str, float | str | None]]] = {}
        for one in self.known():
            grades = told.setdefault(one.backend, {}).setdefault(one.workload or "others", {})
            grades[one.grade] = one.mean_accepted_length
            if one.why_not:
                grades["why_not"] = one.why_not
        return told

    def ages(self, now: float) -> Iterator[tuple[str, float]]:
        """Seconds since each backend's counters were read."""
        for name, server in tuple(self._servers.items()):
            if server.counters is not None:
                yield name, now - server.counters.at

    def mismatches(self) -> Iterator[tuple[str, float]]:
        """By how much counters exceed what answers told, as a share, at the last window of each backend."""
        for name, server in tuple(self._servers.items()):
            if server.mismatches:
                yield name, server.mismatches[-1]
