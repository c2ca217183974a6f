"""From measurements to a choice: the best configuration for each workload and load, and for all of them.

A configuration is chosen over none if it is faster beyond noise; over another one if it is faster at all, but
those that cannot be told apart are named, and one that serves everything within noise of the best is
preferred to a mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from backends.sweep.mix import candidate, counted, ratio, totals, work
from backends.sweep.model import BASELINE, Candidate, Work
from backends.sweep.stats import Interval, may_exceed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.policy.evidence import Evidence, Measurement

MOST_FAILURES: Final = 0.01
"""Share of failed requests above which a configuration is not chosen."""

MOST_DIFFERENT: Final = 0.1
"""Share of greedy answers that surely differ from the baseline's above which a configuration is not chosen.

A batch of another shape rounds otherwise, so that some answers part at a tie; a draft that changes the text
changes most of them.
"""


@dataclass(frozen=True, slots=True)
class Winner:
    """The best configuration for one kind of work at one load.

    Attributes:
        candidate: The baseline where nothing is faster beyond noise.
        speedup: Over the baseline, with bounds.
        tied: Others that may be as fast, best first.
        uncertain: Whether a tied one may be faster by more than the precision.
    """

    workload: str
    concurrency: int
    prompt: str
    sampling: str
    candidate: Candidate
    speedup: float
    low: float | None
    high: float | None
    tied: tuple[Candidate, ...]
    uncertain: bool

    @property
    def work(self) -> Work:
        """Which kind of work."""
        return Work(self.workload, self.prompt, self.sampling)


@dataclass(frozen=True, slots=True)
class Excluded:
    """A configuration that is not chosen whatever its speed."""

    candidate: Candidate
    why: str


@dataclass(frozen=True, slots=True)
class Band:
    """A range of requests in flight on one server.

    Attributes:
        level: The measured concurrency that stands for it.
        first: Lowest number of requests in it.
        last: Highest; None for the last band.
    """

    level: int
    first: int
    last: int | None

    def __str__(self) -> str:
        return f"{self.first}–{self.last}" if self.last is not None else f"{self.first} and more"


@dataclass(frozen=True, slots=True)
class Single:
    """One configuration for everything at one load.

    Attributes:
        speedup: Over the baseline, over all workloads of the mix.
        loss: What it loses to the best of each workload, which one server cannot be; 0.02 for 2 %.
    """

    concurrency: int
    candidate: Candidate
    speedup: float
    loss: float


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run.

    Attributes:
        bands: Load bands, ascending.
        winners: By workload, prompt length, sampling and load.
        works: Kinds of work that what is chosen for everything rests on.
        singles: The best single configuration at each load.
        everywhere: The best single configuration over all loads.
        by_band: The same for each load band, where another one is faster there by more than the precision.
        mixing_pays: Whether the best of each workload beats the best single one beyond noise at some load.
        excluded: What was too broken to be chosen.
        schedule: Rows (first batch size, last, N) of engine-side adaptive N, where that gains more than
            noise over one N for all loads.
    """

    bands: tuple[Band, ...]
    winners: tuple[Winner, ...]
    works: tuple[Work, ...]
    singles: tuple[Single, ...]
    everywhere: Candidate
    by_band: tuple[Candidate, ...]
    mixing_pays: bool
    excluded: tuple[Excluded, ...]
    schedule: tuple[tuple[int, int, int], ...]

    def winner(self, workload: str, concurrency: int) -> Winner | None:
        """The winner with plain requests, or with others where there were none; None without any."""
        found = [one for one in self.winners if (one.workload, one.concurrency) == (workload, concurrency)]
        return min(found, key=lambda one: not one.work.is_plain, default=None)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that were measured, in their order."""
        return tuple(dict.fromkeys(one.workload for one in self.winners))


class NothingMeasuredError(ValueError):
    """Measurements hold nothing to choose from; the text says why."""


def choose(evidence: Evidence, mix: Mapping[str, float] | None = None) -> Choice:
    """Choose from measurements.

    Args:
        evidence: All of them.
        mix: Shares of requests, as :func:`backends.sweep.mix.shares` has them.

    Raises:
        NothingMeasuredError: There is no baseline, or nothing but.
    """
    compared = {_condition(one) for one in evidence.measurements if one.is_baseline}
    usable = [one for one in evidence.measurements if one.speedup is not None and _condition(one) in compared]
    if not any(not one.is_baseline for one in usable):
        raise NothingMeasuredError("there is no speed-up: measure the baseline and a configuration alike")
    excluded = _excluded(usable)
    out = {one.candidate for one in excluded}
    good = [one for one in usable if candidate(one) not in out]
    bands = load_bands({one.concurrency for one in good})
    winners = tuple(
        _winner([one for one in good if _condition(one) == condition], evidence.precision)
        for condition in dict.fromkeys(map(_condition, good))
    )
    basis = counted(good, mix)
    singles = tuple(one for band in bands if (one := _single(basis, band.level, mix)) is not None)
    if not singles:
        raise NothingMeasuredError("no configuration was measured under all conditions of a load")
    everywhere = _everywhere(basis, singles, mix)
    return Choice(
        bands=bands,
        winners=winners,
        works=tuple(dict.fromkeys(map(work, basis))),
        singles=singles,
        everywhere=everywhere,
        by_band=tuple(_at_load(basis, everywhere, band.level, mix, evidence.precision) for band in bands),
        mixing_pays=any(one.loss > evidence.precision for one in singles),
        excluded=excluded,
        schedule=_schedule(basis, everywhere, bands, mix, evidence.precision),
    )


def load_bands(levels: Iterable[int]) -> tuple[Band, ...]:
    """Bands around measured concurrencies, parted at their geometric means."""
    ordered = sorted(levels)
    cuts = [math.isqrt(low * high) for low, high in pairwise(ordered)]
    firsts, lasts = [1, *(cut + 1 for cut in cuts)], [*cuts, None]
    return tuple(Band(*one) for one in zip(ordered, firsts, lasts, strict=True))


def _condition(one: Measurement) -> tuple[Work, int]:
    return work(one), one.concurrency


def _excluded(usable: Sequence[Measurement]) -> tuple[Excluded, ...]:
    found: dict[Candidate, str] = {}
    for one in usable:
        who, where = candidate(one), f"{one.workload} at {one.concurrency}"
        if one.is_baseline:
            continue
        if one.surely_different > MOST_DIFFERENT:
            why = f"{one.different} of {one.compared} greedy answers differ from the baseline's ({where})"
            found.setdefault(who, f"{why}: its draft changes what the model says")
        elif one.failures > MOST_FAILURES * (one.failures + one.requests):
            found.setdefault(
                who, f"{one.failures} of {one.failures + one.requests} requests failed ({where})"
            )
    return tuple(Excluded(*one) for one in found.items())


def _winner(cells: Sequence[Measurement], precision: float) -> Winner:
    best = max(cells, key=ratio)
    found = best.speedup
    if found is None:
        raise AssertionError("only cells with a speed-up are compared")
    if candidate(best) != BASELINE and (found.low is None or found.low <= 1.0):
        best = next((one for one in cells if one.is_baseline), best)
        found = best.speedup or found
    own = Interval(found.value, found.low, found.high)
    rivals = [
        (one, Interval(one.speedup.value, one.speedup.low, one.speedup.high))
        for one in sorted(cells, key=ratio, reverse=True)
        if one is not best and one.speedup is not None
    ]
    return Winner(
        best.workload, best.concurrency, best.prompt, best.sampling,
        candidate(best), found.value, found.low, found.high,
        tuple(candidate(one) for one, interval in rivals if may_exceed(interval, own)),
        any(may_exceed(interval, own, precision) for _, interval in rivals),
    )  # fmt: skip


def _single(cells: Sequence[Measurement], level: int, mix: Mapping[str, float] | None) -> Single | None:
    seconds, best = totals(cells, level, mix)
    if not seconds:
        return None
    who = min(seconds, key=lambda one: seconds[one])
    return Single(level, who, 1.0 / seconds[who], seconds[who] / best - 1.0)


def _everywhere(
    cells: Sequence[Measurement], singles: Sequence[Single], mix: Mapping[str, float] | None
) -> Candidate:
    """The candidate that loses least to the best single one, over all loads together."""
    losses: dict[Candidate, float] = {}
    tables = [(one, totals(cells, one.concurrency, mix)[0]) for one in singles]
    for who in tables[0][1]:
        if all(who in seconds for _, seconds in tables):
            losses[who] = sum(math.log(seconds[who] * single.speedup) for single, seconds in tables)
    return min(losses, key=lambda one: losses[one], default=singles[-1].candidate)


def _at_load(
    cells: Sequence[Measurement],
    everywhere: Candidate,
    level: int,
    mix: Mapping[str, float] | None,
    precision: float,
) -> Candidate:
    """What everything should run on at one load: what is usual, unless another one is faster beyond noise."""
    seconds, _ = totals(cells, level, mix)
    best = min(seconds, key=lambda one: seconds[one], default=everywhere)
    if seconds.get(everywhere, math.inf) > seconds.get(best, math.inf) * (1.0 + precision):
        return best
    return everywhere


def _schedule(
    cells: Sequence[Measurement],
    everywhere: Candidate,
    bands: Sequence[Band],
    mix: Mapping[str, float] | None,
    precision: float,
) -> tuple[tuple[int, int, int], ...]:
    """The best N of one draft by load, where that gains more than noise: what the engine can do by itself."""
    tables = [totals(cells, band.level, mix)[0] for band in bands]
    methods = {who.method for seconds in tables for who in seconds if not who.is_baseline}
    best: tuple[float, tuple[tuple[int, int, int], ...]] | None = None
    for method in sorted(methods):
        own = [
            {who: value for who, value in seconds.items() if who.is_baseline or who.method == method}
            for seconds in tables
        ]
        if any(len(seconds) < 2 for seconds in own):
            continue
        picks = [min(seconds, key=lambda one, by=seconds: by[one]) for seconds in own]  # type: ignore[misc]
        total = sum(math.log(seconds[pick]) for seconds, pick in zip(own, picks, strict=True))
        rows = tuple(
            (band.first, band.last if band.last is not None else MOST_BATCH, pick.draft_tokens)
            for band, pick in zip(bands, picks, strict=True)
        )
        if len({pick.draft_tokens for pick in picks}) > 1 and (best is None or total < best[0]):
            best = total, rows
    fixed = [seconds[everywhere] for seconds in tables if everywhere in seconds]
    if best is None or len(fixed) < len(tables):
        return ()
    gain = (sum(map(math.log, fixed)) - best[0]) / len(tables)
    return best[1] if gain > precision else ()


MOST_BATCH: Final = 512
"""Last batch size of a schedule."""
