"""A server's step time by the number of requests in its batch, learnt from what steps took."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST: Final = 256
"""Batch up to which a step table is published; vLLM's own default for ``max_num_seqs``."""

_BATCHES: Final = np.unique(np.round(2.0 ** np.arange(0.0, 8.01, 0.25)))
"""Batches at which sums are kept, four an octave: step times bend on the scale of factors."""

_X: Final = np.log2(_BATCHES)
_PLACES: Final = tuple(_X.tolist())
_TABLE_X: Final = np.log2(np.maximum(1.0, np.arange(MOST + 1)))

MEMORY: Final = 300.0
"""Requests after which evidence at one batch has lost most of its weight."""

_ELSEWHERE: Final = 600.0
"""The same for requests at other batches: the first ones, from before prompts could be told from steps, would
else stand for ever at batches that do not come again."""

_LEVEL: Final = 0.5
_TILT: Final = 30.0
"""Weight, in requests, of the belief that the prior is right in level, and in slope by log batch."""

_REACH: Final = 1.0
"""Octaves beyond what was seen that a tilt is believed in; farther away the prior's form holds."""

SEEN: Final = 0.1
"""Weight at a batch, in requests, from which it counts as seen."""

_SCALES: Final = ((0.5, 4.0), (0.1, 20.0))
"""Width in octaves and weight in requests of the two smoothings of what a tilted prior leaves unexplained.
The narrow one finds cliffs, where there is evidence enough."""

_KERNELS: Final = tuple(
    (np.exp(-(((_X[:, None] - _X[None, :]) / width) ** 2) / 2.0), weight) for width, weight in _SCALES
)

_DROP: Final = 0.92
"""Part of the step time at a smaller batch below which a step at a larger one is believed to be shorter."""

_CLIFF: Final = 0.9
"""Part of what a server gets done below which one request more is beyond a cliff."""

_WALL: Final = 4.0
"""Steps that crossing a cliff costs at most: all on the server lose by it, but where it is may be wrong."""

_PLACE: Final = 1.0
"""What the last place below a cliff is worth, in steps of a request that takes it ..."""

_FADES: Final = 0.4
"""... and over what part of the places that falls to 1/e. Narrower, and the price jumps with every request
that comes and goes, and so does who is let in; an empty server must cost next to nothing."""

_BORROWED: Final = 5.0
"""Weight, in requests, of what replicas of the same configuration have shown."""


def affine(first: float, growth: float) -> tuple[float, ...]:
    """A step table that begins at ``first`` seconds and is ``1 + growth`` times that at 64 requests."""
    return tuple((first * (1.0 + growth * np.maximum(0.0, np.arange(MOST + 1) - 1.0) / 63.0)).tolist())


def rising(table: Sequence[float]) -> tuple[float, ...]:
    """A step table without small dips, which are noise; where an engine shortens drafts it falls for good."""
    found: list[float] = []
    most = 0.0
    for seconds in table:
        most = seconds if seconds > most or seconds < _DROP * most else most
        found.append(most)
    return tuple(found)


def crowding(table: Sequence[float]) -> tuple[float, ...]:
    """What one more request costs all others together, in seconds a step.

    All n requests on a server take W(n) = n·s(n) a step; one more costs the others W(n+1) - W(n) - s(n+1).
    Steps are padded to captured graphs, so that this is nothing at most batches and much at a few. But while
    a request is answered others come and go: the slope of W is taken over the batches that it is likely to
    meet, one standard deviation (√n) to both sides.

    Where the captured graphs end, or an engine stops drafting, a server gets less done with one request more.
    Nobody meets the other side of such a cliff by chance, as requests only get there by being sent there: the
    slope is taken on one side of it. Across, until as much gets done as at the edge, one more costs a step
    and what it brings to go back, for each request that goes; ``_WALL`` steps at most. So servers are filled
    to the edge, and of several beyond one those that gain most go back, and another takes the rest.

    Who takes one of the last places below a cliff keeps out the next one, who may have more of it: what that
    one loses elsewhere is the price of a place, in a linear program the dual of the server's time. Without it
    places go to whoever comes first. It rises towards the edge, so that it is higher where more is asked for.

    Args:
        table: Step table.

    Returns:
        By requests on the server. Negative where more requests make steps shorter.
    """
    seconds = np.asarray(table)
    last = len(seconds) - 1
    batches = np.arange(last + 1.0)
    work, done = batches * seconds, batches / seconds
    now, then = batches[:-1], seconds[1:]
    cliffs = np.flatnonzero(done[1:] < _CLIFF * done[:-1])
    before = np.searchsorted(cliffs, now)
    ends = np.concatenate([[-1.0], cliffs, [last]])
    middle = now + 0.5
    half = np.sqrt(middle)
    low = np.maximum.reduce([np.zeros(last), middle - half, ends[before] + 1.0])
    high = np.minimum.reduce([np.full(last, last), middle + half, np.maximum(ends[before + 1], now + 1.0)])
    costs = (np.interp(high, batches, work) - np.interp(low, batches, work)) / (high - low) - then
    costs[cliffs] = 0.0  # no slope
    edges = np.zeros(last + 1)
    edges[cliffs] = done[cliffs]
    most = np.maximum.accumulate(edges)[:-1]
    fewer = np.maximum(1.0, now - np.searchsorted(most, most))  # by so many as much got done as at the edge
    back = 1.0 + (most - done[1:]) / fewer * then
    costs = np.where(done[1:] < most, np.maximum(costs, np.minimum(_WALL, back) * then), costs)
    _price_places(costs, then, cliffs)
    found: list[float] = costs.tolist()
    return tuple(found)


def _price_places(costs: NDArray[np.float64], then: NDArray[np.float64], cliffs: NDArray[np.intp]) -> None:
    """Raise costs below each cliff to what a place there is worth.

    Args:
        costs: Seconds a step by the requests on the server; changed in place.
        then: Step times with one more.
        cliffs: Most requests before each cliff.
    """
    for before, edge in pairwise([-1, *cliffs.tolist()]):
        below = slice(before + 1, edge)
        left = edge - 1.0 - np.arange(below.start, edge)
        price = _PLACE * np.exp(-left / (_FADES * edge)) * then[below]
        np.maximum(costs[below], price, out=costs[below])


def falls(table: Sequence[float]) -> tuple[int, ...]:
    """Batches with so much shorter a step than with one request less that it must hold fewer drafts."""
    pairs = enumerate(pairwise(table), 1)
    return tuple(batch for batch, (before, after) in pairs if after < _DROP * before)


@dataclass(slots=True)
class Curve:
    """Discounted sums of log ratios of step times to a prior's, by batch. Sums of two curves add up.

    Attributes:
        prior: Step table that is believed in before there is evidence, see ``ServerModel.step_seconds``.
        weight: Evidence in requests by batch.
        total: Sum of weight times log ratio by batch.
        offset: Logarithm of what all of the prior is multiplied by, after changes of the server's speed.
    """

    prior: Sequence[float]
    weight: list[float] = field(default_factory=lambda: [0.0] * len(_PLACES))
    total: list[float] = field(default_factory=lambda: [0.0] * len(_PLACES))
    offset: float = 0.0

    def add(self, batch: float, ratio: float, weight: float) -> None:
        """Take in a log ratio of an observed step time to :meth:`expected`, seen at a batch."""
        x = math.log2(batch) if batch > 1.0 else 0.0
        high = min(max(1, bisect_left(_PLACES, x)), len(_PLACES) - 1)
        low = high - 1
        share = min(1.0, (x - _PLACES[low]) / (_PLACES[high] - _PLACES[low]))
        keep = 1.0 - weight / _ELSEWHERE
        self.weight = [keep * one for one in self.weight]
        self.total = [keep * one for one in self.total]
        for at, part in ((low, (1.0 - share) * weight), (high, share * weight)):
            if part > 0.0:
                keep = 1.0 - part * (1.0 / MEMORY - 1.0 / _ELSEWHERE)
                self.weight[at] = keep * self.weight[at] + part
                self.total[at] = keep * self.total[at] + part * ratio

    def expected(self, batch: float) -> float:
        """The prior's step time at a batch, seconds."""
        last = len(self.prior) - 1
        low = min(int(batch), last)
        before, after = self.prior[low], self.prior[min(low + 1, last)]
        return math.exp(self.offset) * (before + min(1.0, batch - low) * (after - before))

    def likely(self, batch: float) -> float:
        """Step time at a batch by the level of what was seen alone, seconds; cheap, for each sample."""
        return self.expected(batch) * math.exp(sum(self.total) / (self.evidence + _LEVEL))

    @property
    def evidence(self) -> float:
        """Requests behind it, discounted."""
        return sum(self.weight)

    def shifted(self, jump: float, keep: float) -> None:
        """Believe that all steps take exp(jump) times as long as before, and keep a share of the evidence.

        Where there was none the prior moves along.
        """
        self.offset += jump
        self.weight = [keep * one for one in self.weight]
        self.total = [keep * one for one in self.total]

    def table(self, kin: Pool | None = None) -> NDArray[np.float64]:
        """The step table as far as it is known: the prior, tilted, and what that leaves unexplained.

        Args:
            kin: What servers with the same prior have seen, this one among them.
        """
        weight, total = np.array(self.weight), np.array(self.total)
        if kin is not None:
            lent = np.maximum(0.0, kin.weight - weight)
            others = kin.total - (total + self.offset * weight) - self.offset * lent
            scale = min(1.0, _BORROWED / max(float(lent.sum()), 1e-9))
            weight, total = weight + scale * lent, total + scale * others
        fit = _tilted(weight, total)
        for kernel, strength in _KERNELS:
            fit = fit + kernel @ (total - weight * fit) / (kernel @ weight + strength)
        prior = np.asarray(self.prior)
        known = np.interp(np.arange(MOST + 1), np.arange(len(prior)), prior)
        table: NDArray[np.float64] = known * np.exp(self.offset + np.interp(_TABLE_X, _X, fit))
        return table

    def relative(self) -> NDArray[np.float64]:
        """The table over its own mean where it was learnt: how it changes with load, whatever its level."""
        table, weight = self.table(), np.array(self.weight)
        mean = weight @ table[_BATCHES.astype(int)] / weight.sum() if self.evidence else table[0]
        relative: NDArray[np.float64] = table / float(mean)
        return relative

    @property
    def level(self) -> float:
        """Factor by which steps are known to take longer than the prior said in the beginning."""
        return math.exp(self.offset) * self.mean_ratio

    @property
    def mean_ratio(self) -> float:
        """Mean ratio of what was seen to what was expected, 1 without evidence."""
        if not self.evidence:
            return 1.0
        seen = [pair for pair in zip(self.weight, self.total, strict=True) if pair[0] > 0.0]
        return sum(weight * math.exp(total / weight) for weight, total in seen) / self.evidence


@dataclass(slots=True)
class Pool:
    """What several servers with the same prior have seen together, by batch.

    Attributes:
        weight: Evidence in requests.
        total: Sum of weight times log ratio to the prior as it was in the beginning.
    """

    weight: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(_X)))
    total: NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(_X)))

    def add(self, curve: Curve) -> None:
        """Take in one of them."""
        own = np.array(curve.weight)
        self.weight += own
        self.total += np.array(curve.total) + curve.offset * own


def _tilted(weight: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted least squares of the log ratio on 1 and log batch, drawn to zero."""
    everything = float(weight.sum())
    centre = float((weight * _X).sum()) / everything if everything else 0.0
    x = _X - centre
    level = float(total.sum()) / (everything + _LEVEL)
    tilt = float((total * x).sum() - level * (weight * x).sum()) / (float((weight * x * x).sum()) + _TILT)
    seen = np.flatnonzero(weight > SEEN)
    if not len(seen):
        return np.full(len(_X), level)
    reach = np.clip(_X, _X[seen[0]] - _REACH, _X[seen[-1]] + _REACH)
    return level + tilt * (reach - centre)
