"""What speculation gains: sums per (target, workload, backend) and their ratio to the baseline's.

The decode rate of a set of requests is the ratio of sums r = Σx / Σy, where x are decode tokens and y decode
seconds of one request. A mean of per-request rates would favour short answers; the ratio does not.

Its uncertainty is that of a ratio of means (delta method). With residuals e = x - r·y, which add up to zero,

    Var(log r) ≈ m / (m - 1) · Σe² / (Σx)²,     Σe² = Σx² - 2r·Σxy + r²·Σy²,     m = (Σy)² / Σy²

so three second moments are all that has to be kept. m is the effective number of requests: as many of equal
length would tell as much as these of unequal length. The two sides of a speed-up S = r_b / r_0 saw different
requests, hence Var(log S) = Var(log r_b) + Var(log r_0), and the interval is S · exp(±t · √Var(log S)) with
t from Student's distribution at the degrees of freedom of Welch and Satterthwaite, m - 1 on either side.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.features import GENERATING
from gateway.core.outcome import OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.core.outcome import Record

MIN_DECODE_TOKENS: Final = 16
"""Fewer decode tokens than this say nothing of speed: the last step is cut short by the end of the answer."""

MIN_REQUESTS: Final = 5
"""Fewer effective requests than this on either side give no speed-up: their spread cannot be judged."""

_Z: Final = 1.959963984540054
"""97.5 % quantile of the normal distribution: two-sided 95 %."""


def decode_sample(record: Record) -> tuple[int, float] | None:
    """Decode tokens and seconds of a request whose speed counts, None for any other.

    It counts if it went well, its tool calls can be used (speed from wrong output is none), it streamed one
    choice (the choices of ``n > 1`` share the seconds) to a client that read as fast as the backend wrote,
    and has at least :data:`MIN_DECODE_TOKENS` decode tokens.
    """
    outcome = record.outcome
    seconds = outcome.decode_seconds
    if not seconds or outcome.status != OK:  # most that do not count are seen by this
        return None
    if outcome.tool_arguments == "invalid" or outcome.backpressured or record.features.n != 1:
        return None
    tokens = outcome.decode_tokens
    return (tokens, seconds) if tokens is not None and tokens >= MIN_DECODE_TOKENS else None


class Cell(NamedTuple):
    """What sums are kept for."""

    target: str
    workload: str
    backend: str


class Sums(NamedTuple):
    """Running sums over requests. Two of them add up, so replicas and baselines can be pooled.

    Attributes:
        requests: All requests, however they ended.
        output_tokens: As the backend reported them.
        rated: Requests whose speed counts, see :func:`decode_sample`; the next five are over these.
        decode_tokens: Σx.
        decode_seconds: Σy.
        xx: Σx².
        xy: Σxy.
        yy: Σy².
        measured: Requests with exact speculation numbers; the next four are over these.
        steps: Verification steps.
        drafted: Draft tokens proposed.
        accepted: Draft tokens accepted.
        lengths: Sum of each request's own mean accepted length.
    """

    requests: int = 0
    output_tokens: int = 0
    rated: int = 0
    decode_tokens: int = 0
    decode_seconds: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    measured: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    lengths: float = 0.0

    def and_one(self, record: Record, sample: tuple[int, float] | None) -> Sums:
        """The sums over these requests and a further one.

        Args:
            record: The request.
            sample: Its :func:`decode_sample`.
        """
        (
            requests, output_tokens, rated, decode_tokens, decode_seconds, xx, xy, yy,
            measured, steps, drafted, accepted, lengths,
        ) = self  # fmt: skip
        outcome = record.outcome
        if sample is not None:
            tokens, seconds = sample
            rated += 1
            decode_tokens += tokens
            decode_seconds += seconds
            xx += tokens * tokens
            xy += tokens * seconds
            yy += seconds * seconds
        speculation = outcome.speculation
        if speculation.grade == "exact" and outcome.status == OK:
            length = speculation.mean_accepted_length
            if length is not None:
                measured += 1
                steps += speculation.steps
                drafted += speculation.drafted
                accepted += speculation.accepted
                lengths += length
        return Sums(
            requests + 1, output_tokens + (outcome.usage.output_tokens or 0),
            rated, decode_tokens, decode_seconds, xx, xy, yy, measured, steps, drafted, accepted, lengths,
        )  # fmt: skip

    def plus(self, other: Sums) -> Sums:
        """The sums over both sets of requests."""
        return Sums._make(map(operator.add, self, other))

    @property
    def rate(self) -> float | None:
        """Decode tokens per second of one stream, None before the first that counts."""
        return self.decode_tokens / self.decode_seconds if self.rated else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step yields, bonus token included, from sums: every step weighs the same."""
        return 1.0 + self.accepted / self.steps if self.steps else None

    @property
    def mean_accepted_length_by_request(self) -> float | None:
        """Mean of each request's own mean accepted length: every request weighs the same."""
        return self.lengths / self.measured if self.measured else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the proposed draft tokens, from sums."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def effective(self) -> float:
        """Effective number of requests that count: equal to :attr:`rated` if all took the same time."""
        return self.decode_seconds**2 / self.yy if self.rated else 0.0

    @property
    def log_rate_variance(self) -> float:
        """Variance of the logarithm of :attr:`rate`; needs :attr:`effective` above 1."""
        rate = self.decode_tokens / self.decode_seconds
        residuals = self.xx - 2.0 * rate * self.xy + rate * rate * self.yy
        return max(0.0, residuals) * self.effective / (self.effective - 1.0) / self.decode_tokens**2


_NONE: Final = Sums()
"""Of no request."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Decode rate relative to the baseline's, with the bounds of its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TooFew:
    """Why there is no speed-up.

    Attributes:
        side: ``backend`` or ``baseline``, the one that lacks requests.
        effective: Effective number of requests it has.
        needed: Effective number it needs.
    """

    side: str
    effective: float
    needed: int = MIN_REQUESTS

    def __str__(self) -> str:
        return f"the {self.side} has {self.effective:.1f} of {self.needed} effective requests"


def compare(backend: Sums, baseline: Sums) -> Speedup | TooFew:
    """Speed-up of one set of requests over another that holds none of them."""
    for side, sums in (("baseline", baseline), ("backend", backend)):
        if sums.effective < MIN_REQUESTS:
            return TooFew(side, sums.effective)
    ratio = backend.decode_tokens / backend.decode_seconds * baseline.decode_seconds / baseline.decode_tokens
    parts = [(sums.log_rate_variance, sums.effective - 1.0) for sums in (backend, baseline)]
    variance = sum(part for part, _ in parts)
    if variance == 0.0:
        return Speedup(ratio, ratio, ratio)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    factor = math.exp(student(freedom) * math.sqrt(variance))
    return Speedup(ratio, ratio / factor, ratio * factor)


def student(freedom: float) -> float:
    """97.5 % quantile of Student's distribution by Cornish and Fisher's series; 0.3 % off at 4 degrees."""
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / freedom + second / freedom**2 + third / freedom**3


class Gain:
    """The sums of all cells. Has one owner, who feeds it; others read."""

    def __init__(self) -> None:
        self._sums: dict[Cell, Sums] = {}
        self._setup: dict[tuple[str, str], tuple[str, int]] = {}
        self._baselines: set[tuple[str, str]] = set()

    def add(self, record: Record, target: str, workload: str, sample: tuple[int, float] | None) -> None:
        """Count a finished request that generated text on a backend; others are passed over.

        A backend that comes back under its name with another method or N starts anew, since sums over two
        configurations describe neither.

        Args:
            record: The request.
            target: The target model it was for.
            workload: Its label, from a closed set: each one is kept for ever.
            sample: Its :func:`decode_sample`.
        """
        if not record.backend or record.features.endpoint not in GENERATING:
            return
        server = (target, record.backend)
        setup = (record.method, record.draft_tokens)
        if self._setup.setdefault(server, setup) != setup:
            self._forget(server)
            self._setup[server] = setup
        if record.baseline:
            self._baselines.add(server)
        cell = Cell(target, workload, record.backend)
        self._sums[cell] = self._sums.get(cell, _NONE).and_one(record, sample)

    def restarted(self, backend: str) -> None:
        """Start a backend anew: its server was, and nothing says that it runs what it ran before."""
        for server in [server for server in self._setup if server[1] == backend]:
            self._forget(server)

    def _forget(self, server: tuple[str, str]) -> None:
        self._baselines.discard(server)
        for cell in [cell for cell in self._sums if (cell.target, cell.backend) == server]:
            del self._sums[cell]

    def cells(self) -> tuple[tuple[Cell, Sums], ...]:
        """All cells with their sums, in the order in which they were first seen."""
        return tuple(self._sums.items())

    def is_baseline(self, cell: Cell) -> bool:
        """Whether the cell's backend decodes without speculation."""
        return (cell.target, cell.backend) in self._baselines

    def method(self, cell: Cell) -> str:
        """Speculative method of a known cell's backend."""
        return self._setup[cell.target, cell.backend][0]

    def speedup(self, cell: Cell) -> Speedup | TooFew:
        """Speed-up of a cell over all baselines of its target and workload together.

        A baseline is its own measure: exactly 1.
        """
        if self.is_baseline(cell):
            return Speedup(1.0, 1.0, 1.0)
        return compare(self._sums.get(cell, _NONE), self._baseline(cell.target, cell.workload))

    def speedups(self) -> Iterator[tuple[Cell, Speedup]]:
        """Every speed-up over a baseline that can be told, baselines themselves left out."""
        baselines: dict[tuple[str, str], Sums] = {}
        for cell, sums in self.cells():
            if self.is_baseline(cell):
                continue
            group = (cell.target, cell.workload)
            if group not in baselines:
                baselines[group] = self._baseline(*group)
            speedup = compare(sums, baselines[group])
            if isinstance(speedup, Speedup):
                yield cell, speedup

    def _baseline(self, target: str, workload: str) -> Sums:
        pooled = _NONE
        for server_target, backend in tuple(self._baselines):
            if server_target == target:
                pooled = pooled.plus(self._sums.get(Cell(target, workload, backend), _NONE))
        return pooled
