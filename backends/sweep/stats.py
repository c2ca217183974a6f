"""What the requests of a cell say together: rates, latencies and acceptance, with intervals and sample sizes.

In a closed loop of c clients, Little's law gives the rate of all of them: tokens/s = c · Σ tokens / Σ seconds
over requests from start to end. Which requests count is decided when they start, so that no long one is
missing. Intervals are those of a ratio of sums (:mod:`gateway.core.gain`).
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.gain import MIN_DECODE_TOKENS, MIN_REQUESTS, Speedup, Sums, TooFew, compare, student

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from backends.sweep.model import Cell, Round, Sample

_ONE_SIDED: Final = 1.6448536269514722


class Interval(NamedTuple):
    """An estimate with the bounds of its 95 % interval; None where too few requests tell them."""

    value: float
    low: float | None = None
    high: float | None = None

    def scaled(self, factor: float) -> Interval:
        """The same in another unit."""
        bounds = (None if one is None else one * factor for one in (self.low, self.high))
        return Interval(self.value * factor, *bounds)

    def widened(self, variance: float, freedom: int) -> Interval:
        """With so much more variance of its logarithm, which is known with so many degrees of freedom."""
        if self.low is None or self.high is None or not variance:
            return self
        factor = math.exp(math.hypot(self.half_width, student(freedom) * math.sqrt(variance)))
        return Interval(self.value, self.value / factor, self.value * factor)

    @property
    def half_width(self) -> float:
        """Half of the interval's width on a logarithmic scale; infinite without bounds."""
        if not self.low or self.high is None:
            return math.inf
        return math.log(self.high / self.low) / 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell.

    Attributes:
        rounds: How often it was measured.
        requests: Requests that went well and count.
        failures: Requests that failed, with their reasons by number.
        total: Σ output tokens and Σ seconds of whole requests.
        decode: Σ decode tokens and Σ decode seconds.
        ttft: Times to first token, sorted, seconds.
        steps: Verification steps; 0 where the server told none.
        by_position: Accepted draft tokens by their place in the draft.
        memory: Most MiB in use on the machine's GPUs; None where no tool tells.
        digests: By prompt, the texts' digests.
    """

    cell: Cell
    rounds: int
    requests: int
    failures: Mapping[str, int]
    total: Sums
    decode: Sums
    ttft: tuple[float, ...]
    prompt_tokens: int
    output_tokens: int
    steps: float
    drafted: float
    accepted: float
    by_position: tuple[float, ...]
    memory: float | None
    digests: Mapping[str, tuple[str, ...]]

    @property
    def rate(self) -> Interval | None:
        """Output tokens/s of all clients together; None without a request."""
        found = rate_of(self.total)
        return None if found is None else found.scaled(self.cell.condition.concurrency)

    @property
    def tpot(self) -> Interval | None:
        """Seconds an output token of one stream takes after the first."""
        found = rate_of(self.decode)
        if found is None:
            return None
        low, high = (None if one is None else 1.0 / one for one in (found.high, found.low))
        return Interval(1.0 / found.value, low, high)

    @property
    def failure_share(self) -> float:
        """Failed share of its requests."""
        failed = sum(self.failures.values())
        return failed / (failed + self.requests) if failed else 0.0

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens a step, bonus token included; None where the server did not tell."""
        return 1.0 + self.accepted / self.steps if self.steps else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of the draft tokens."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def survival(self) -> tuple[float, ...]:
        """By position, the share of steps whose draft was accepted up to there; never increasing."""
        return tuple(one / self.steps for one in self.by_position) if self.steps else ()


def measured(cell: Cell, samples: Sequence[Sample], rounds: Sequence[Round] = ()) -> Measured:
    """Sum up the requests of one cell; those that do not count are passed over.

    Acceptance is what the answers told. Where they told none it is the server's counters, which in a sweep
    count our requests alone.
    """
    counted = [one for one in samples if one.measured]
    good = [one for one in counted if not one.error]
    failures: dict[str, int] = defaultdict(int)
    for one in counted:
        if one.error:
            failures[one.error] += 1
    told = _told([one for one in good if one.steps is not None]) or _counted(rounds)
    digests: dict[str, list[str]] = defaultdict(list)
    for one in good:
        if one.digest:
            digests[one.prompt_id].append(one.digest)
    return Measured(
        cell=cell,
        rounds=len(rounds),
        requests=len(good),
        failures=dict(failures),
        total=ratio((one.output_tokens, one.seconds) for one in good),
        decode=ratio(
            (one.decode_tokens, one.decode_seconds)
            for one in good
            if one.decode_tokens >= MIN_DECODE_TOKENS and one.decode_seconds > 0
        ),
        ttft=tuple(sorted(one.ttft for one in good if one.ttft is not None)),
        prompt_tokens=sum(one.prompt_tokens for one in good),
        output_tokens=sum(one.output_tokens for one in good),
        steps=told.steps,
        drafted=told.drafted,
        accepted=sum(told.by_position),
        by_position=told.by_position,
        memory=max((one.memory for one in rounds if one.memory is not None), default=None),
        digests={prompt: tuple(found) for prompt, found in digests.items()},
    )


class _Acceptance(NamedTuple):
    steps: float = 0.0
    drafted: float = 0.0
    by_position: tuple[float, ...] = ()


def _told(samples: Sequence[Sample]) -> _Acceptance | None:
    """What answers tell of their own acceptance; None if none does."""
    if not samples:
        return None
    reached = [0.0] * max(len(one.histogram) - 1 for one in samples)
    for one in samples:
        for accepted, steps in enumerate(one.histogram):
            for position in range(accepted):
                reached[position] += steps
    steps, drafted = sum(one.steps or 0 for one in samples), sum(one.drafted or 0 for one in samples)
    return _Acceptance(steps, drafted, tuple(reached))


def _counted(rounds: Sequence[Round]) -> _Acceptance:
    counted = [one for one in rounds if one.drafts]
    return _Acceptance(
        sum(one.drafts or 0.0 for one in counted),
        sum(one.drafted or 0.0 for one in counted),
        tuple(map(sum, zip_longest(*(one.by_position for one in counted), fillvalue=0.0))),
    )


def ratio(pairs: Iterable[tuple[int, float]]) -> Sums:
    """The sums that a ratio of (tokens, seconds) and its interval come from."""
    sums = Sums()
    for tokens, seconds in pairs:
        own = Sums(0, tokens, 1, tokens, seconds, float(tokens * tokens), tokens * seconds, seconds * seconds)
        sums = sums.plus(own)
    return sums


class Scatter(NamedTuple):
    """How much the rounds of cells differ.

    Attributes:
        squares: Sum of squares of their log rates about the mean of their cell.
        expected: The same as the spread over their requests makes it.
        freedom: Degrees of freedom.
    """

    squares: float = 0.0
    expected: float = 0.0
    freedom: int = 0

    def plus(self, other: Scatter) -> Scatter:
        """Of the rounds of both."""
        return Scatter(*map(operator.add, self, other))

    @property
    def excess(self) -> float:
        """Variance of a round beyond that over its requests; 0 where chance explains it, at 95 %."""
        by_chance = self.expected * (1.0 + _ONE_SIDED * math.sqrt(2.0 / max(1, self.freedom)))
        if self.squares <= by_chance:
            return 0.0
        return (self.squares - self.expected) / self.freedom


def scatter(samples: Sequence[Sample]) -> Scatter:
    """How much the rounds of one cell differ."""
    by_round: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for one in samples:
        if one.measured and not one.error:
            by_round[one.round].append((one.output_tokens, one.seconds))
    sums = [found for pairs in by_round.values() if (found := ratio(pairs)).effective >= MIN_REQUESTS]
    if len(sums) < 2:
        return Scatter()
    rates = [math.log(one.decode_tokens / one.decode_seconds) for one in sums]
    mean = sum(rates) / len(rates)
    within = sum(one.log_rate_variance for one in sums) / len(sums)
    freedom = len(sums) - 1
    return Scatter(sum((rate - mean) ** 2 for rate in rates), freedom * within, freedom)


def rate_of(sums: Sums) -> Interval | None:
    """Tokens a second of one stream with its interval; None of nothing."""
    rate = sums.rate
    if rate is None:
        return None
    if sums.effective < MIN_REQUESTS:
        return Interval(rate)
    factor = math.exp(student(sums.effective - 1.0) * math.sqrt(sums.log_rate_variance))
    return Interval(rate, rate / factor, rate * factor)


def speedup(backend: Measured, baseline: Measured | None) -> Interval | None:
    """Output tokens/s over the baseline's under the same condition; None where either has no request.

    The baseline against itself is exactly 1.
    """
    if backend.cell.candidate.is_baseline:
        return Interval(1.0, 1.0, 1.0)
    if baseline is None or not baseline.total.rate or not backend.total.rate:
        return None
    found = compare(backend.total, baseline.total)
    match found:
        case Speedup(ratio=value, low=low, high=high):
            return Interval(value, low, high)
        case TooFew():
            return Interval(backend.total.rate / baseline.total.rate)


def may_exceed(rival: Interval, best: Interval, by: float = 0.0) -> bool:
    """Whether a value may be larger than another one by more than a share, at 95 %; unknown bounds may."""
    width = math.hypot(rival.half_width, best.half_width)
    return math.log(rival.value / best.value) + width > by


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """A quantile of sorted values, by linear interpolation; None of nothing."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
