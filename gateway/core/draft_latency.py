"""How long a server drafts, estimated: no vLLM tells, so its steps are compared with the baseline's.

A step of a server with a draft verifies w·n tokens for n sequences, one more for each than was drafted, and
drafts. A step of the baseline computes one token a sequence. So with s(n) and s0(n) the seconds of a step,

    draft(n) ≈ s(n) - s0(w·n),     and certainly no more than     s(n) - s0(n),

the second because verification costs something. The first is a little low, as w·n sequences of the baseline
read w times as much of the KV cache.

Both sides are taken from windows of the servers' own counters: ``vllm:inter_token_latency_seconds`` counts
steps of sequences, so over a window its sum by its count is the mean step, and its count by that of
``vllm:iteration_tokens_total``, which counts steps of the engine, the sequences in one. Prompts that are
computed in between make steps longer. What a prompt token takes is learnt from how windows of the same batch
differ (least squares, both servers together) and taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, log2, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.counters import restarted
from gateway.core.gain import student

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.core.counters import Counters

LEAST_WINDOWS: Final = 5.0
"""Fewer windows of a batch than this on either side tell nothing."""

MEMORY: Final = 500.0
"""Windows after which a window has lost most of its weight."""

_PER_OCTAVE: Final = 4
_ROUNDING: Final = 1e-9
_LEAST_STEPS: Final = 20.0


class StepWindow(NamedTuple):
    """Means of a window of a server's counters.

    Attributes:
        batch: Sequences that were decoded at a time.
        seconds: Of a step.
        width: Tokens computed for a sequence in a step: 1, and those drafted for it.
        prompt: Prompt tokens computed in a step.
    """

    batch: float
    seconds: float
    width: float
    prompt: float


MOST: Final = StepWindow(batch=1e5, seconds=3600.0, width=1e3, prompt=1e7)
"""More than any server does: a window beyond one of these has counters that are wrong."""


def window(before: Counters, after: Counters) -> StepWindow | None:
    """What steps were like between two scrapes of one server.

    Returns:
        None where the server does not tell, did next to nothing, was started anew in between, or counts what
        cannot be.
    """
    if restarted(before, after) or after.at <= before.at:
        return None
    steps, seconds = _grown(before.steps, after.steps), _grown(before.step_seconds, after.step_seconds)
    if steps is None or seconds is None or steps < _LEAST_STEPS or seconds <= 0.0:
        return None
    drafted, computed = _grown(before.drafted, after.drafted), _grown(before.computed, after.computed)
    if before.speculates and drafted is None:
        return None
    iterations = _grown(before.iterations, after.iterations) or 0.0
    # Several processes of one server count its iterations each for itself; but there are at least as many
    # sequences as there were on average (Little), and a step has one.
    batch = max(1.0, seconds / (after.at - before.at), steps / iterations if iterations > 0.0 else 0.0)
    found = StepWindow(
        batch, seconds / steps, 1.0 + (drafted or 0.0) / steps, (computed or 0.0) * batch / steps
    )
    possible = all(0.0 <= value <= most for value, most in zip(found, MOST, strict=True))
    return found if possible else None


def _grown(before: float | None, after: float | None) -> float | None:
    """By how much a counter grew; None where it is not there on both sides."""
    return None if before is None or after is None else after - before


@dataclass(slots=True)
class _Bin:
    """Sums over windows of about the same batch."""

    windows: float = 0.0
    batch: float = 0.0
    width: float = 0.0
    seconds: float = 0.0
    prompt: float = 0.0
    ss: float = 0.0
    sp: float = 0.0
    pp: float = 0.0

    def add(self, one: StepWindow) -> None:
        self.windows += 1.0
        self.batch += one.batch
        self.width += one.width
        self.seconds += one.seconds
        self.prompt += one.prompt
        self.ss += one.seconds**2
        self.sp += one.seconds * one.prompt
        self.pp += one.prompt**2

    def fade(self, keep: float) -> None:
        for name in self.__slots__:
            setattr(self, name, keep * getattr(self, name))

    @property
    def spread(self) -> tuple[float, float, float]:
        """Centred sums of squares: of seconds, of seconds and prompts, of prompts."""
        seconds, prompt = self.seconds / self.windows, self.prompt / self.windows
        return (
            max(0.0, self.ss - self.windows * seconds**2),
            self.sp - self.windows * seconds * prompt,
            max(0.0, self.pp - self.windows * prompt**2),
        )


@dataclass(slots=True)
class StepTimes:
    """Step times of one server by batch, four bins an octave. One owner adds windows to it."""

    bins: dict[int, _Bin] = field(default_factory=dict)

    def add(self, one: StepWindow) -> None:
        """Take in a window."""
        for known in self.bins.values():
            known.fade(1.0 - 1.0 / MEMORY)
        self.bins.setdefault(floor(_PER_OCTAVE * log2(one.batch) + 0.5), _Bin()).add(one)

    def known(self) -> list[_Bin]:
        """Those with enough windows, by batch."""
        return [one for _, one in sorted(self.bins.items()) if one.windows >= LEAST_WINDOWS]


class Estimate(NamedTuple):
    """What drafting takes at a batch, in seconds a step.

    Attributes:
        batch: Sequences decoded at a time.
        width: Tokens computed for each in a step.
        step: Seconds of the whole step, without prompts.
        seconds: Of them for the draft; None where the baseline was never seen at ``width · batch`` sequences,
            or surely takes longer there than the whole step, so that the two cannot be compared.
        low: Lower end of its 95 % interval, as far as chance goes; at least 0.
        high: Upper end.
        most: Drafting and the verification of drafts together, with the upper end of its interval: more it
            cannot be. None where the baseline was never seen at this batch, or surely takes longer there.
        windows: Windows of the drafting server behind it.
    """

    batch: float
    width: float
    step: float
    seconds: float | None
    low: float
    high: float | None
    most: float | None
    windows: float


class _Point(NamedTuple):
    """A step time and what it rests on: seconds without prompts = seconds - slope · prompt."""

    seconds: float
    prompt: float
    variance: float


def estimates(drafting: StepTimes, baselines: Iterable[StepTimes]) -> list[Estimate]:
    """What a server's drafts take at each batch that was seen often enough.

    Args:
        drafting: Of the server.
        baselines: Of servers of the same target and hardware without speculation.
    """
    own = drafting.known()
    plain = sorted(
        (one for each in baselines for one in each.known()), key=lambda one: one.batch / one.windows
    )
    if not own or not plain:
        return []
    slope, slope_variance, noise, freedom = _noise([*own, *plain])
    wide = student(freedom)

    def compared(mine: _Point, theirs: _Point) -> tuple[float, float]:
        difference = mine.seconds - theirs.seconds - slope * (mine.prompt - theirs.prompt)
        variance = mine.variance + theirs.variance + slope_variance * (mine.prompt - theirs.prompt) ** 2
        return difference, wide * sqrt(variance)

    found = []
    for one in own:
        mine = _point(one, noise)
        batch, width = one.batch / one.windows, one.width / one.windows
        seconds = high = most = None
        low = 0.0
        nothing = -_ROUNDING * mine.seconds
        if (theirs := _between(plain, width * batch, noise)) is not None:
            difference, error = compared(mine, theirs)
            if difference + error >= nothing:
                seconds, low = max(0.0, difference), max(0.0, difference - error)
                high = max(0.0, difference + error)
        if (theirs := _between(plain, batch, noise)) is not None:
            together = sum(compared(mine, theirs))
            most = max(0.0, together) if together >= nothing else None
        step = mine.seconds - slope * mine.prompt
        if step <= -nothing:
            continue
        found.append(Estimate(batch, width, step, seconds, low, high, most, one.windows))
    return found


def _noise(bins: Sequence[_Bin]) -> tuple[float, float, float, float]:
    """Seconds of a prompt token with their variance, and of a window's noise the variance and its freedom."""
    ss, sp, pp = (sum(column) for column in zip(*(one.spread for one in bins), strict=True))
    freedom = sum(one.windows for one in bins) - len(bins) - 1.0
    tells = pp > _ROUNDING * sum(one.pp for one in bins)
    slope = max(0.0, sp / pp) if tells else 0.0
    noise = max(0.0, ss - 2.0 * slope * sp + slope**2 * pp) / freedom
    return slope, noise / pp if tells else 0.0, noise, freedom


def _point(one: _Bin, noise: float) -> _Point:
    return _Point(one.seconds / one.windows, one.prompt / one.windows, noise / one.windows)


NEAR: Final = 2.0 ** (0.75 / _PER_OCTAVE)
"""Factor by which a batch may lie beyond the bins that are known: within the next bin."""


def _between(bins: Sequence[_Bin], batch: float, noise: float) -> _Point | None:
    """The baseline's step at a batch, between those seen in proportion; None far beyond them."""
    batches = [one.batch / one.windows for one in bins]
    if not batches[0] / NEAR <= batch <= batches[-1] * NEAR:
        return None
    above = next((at for at, one in enumerate(batches) if one >= batch), len(bins) - 1)
    high = _point(bins[above], noise)
    if above == 0 or batches[above] <= batch:
        return high
    low = _point(bins[above - 1], noise)
    share = (batch - batches[above - 1]) / (batches[above] - batches[above - 1])
    return _Point(
        low.seconds + share * (high.seconds - low.seconds),
        low.prompt + share * (high.prompt - low.prompt),
        (1.0 - share) ** 2 * low.variance + share**2 * high.variance,
    )
