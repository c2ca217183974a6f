"""How an engine that adapts N shortens its drafts under load, and how many more steps a token then takes.

With acceptance a at each position a step of N drafts gives (1 - a^(N+1)) / (1 - a) tokens. So what whole
drafts give tells a, and a what shorter ones give: how short they are at which load is all there is to learn.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.curve import MEMORY, MOST, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.predict import Cell

WHOLE: Final = 0.95
"""Share of N drafts a step from which drafts count as whole; a last step is cut short by the answer's end."""

_HALVINGS: Final = 30


def length(rate: float, draft_tokens: float) -> float:
    """Tokens of a step whose drafts are accepted with the same probability at each position."""
    return (1.0 - math.pow(rate, draft_tokens + 1.0)) / (1.0 - rate)


@lru_cache(1 << 12)
def rate_of(steps_per_token: float, draft_tokens: int) -> float:
    """Probability of acceptance at each position by which whole drafts take so many steps a token."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if length(middle, draft_tokens) * steps_per_token < 1.0 else (low, middle)
    return low


def excess(steps_per_token: float, draft_tokens: int, share: float) -> float:
    """Factor on the steps a token of whole drafts where only a share of each is drafted."""
    if share >= WHOLE:
        return 1.0
    rate = rate_of(steps_per_token, draft_tokens)
    return length(rate, draft_tokens) / length(rate, share * draft_tokens)


def falling(sums: Iterable[tuple[float, float]]) -> list[float]:
    """Means that never rise, nearest to those of sums and their weights: neighbours that rise are pooled."""
    pools: list[tuple[float, float, int]] = []
    for total, weight in sums:
        pool = (total, weight, 1)
        while pools and pools[-1][0] * pool[1] < pool[0] * pools[-1][1]:
            before = pools.pop()
            pool = (before[0] + pool[0], before[1] + pool[1], before[2] + pool[2])
        pools.append(pool)
    return [total / weight for total, weight, count in pools for _ in range(count)]


@dataclass(slots=True)
class Shortening:
    """Which share of N is drafted a step: discounted sums for each batch, as an engine switches at one.

    Attributes:
        falls: Batches at which steps were believed to get shorter before there was evidence, ascending: what
            shortens them is fewer drafts.
        weight: Evidence in requests.
        drafted: Sum of weight times share.
    """

    falls: Sequence[int] = ()
    weight: list[float] = field(default_factory=lambda: [0.0] * (MOST + 1))
    drafted: list[float] = field(default_factory=lambda: [0.0] * (MOST + 1))
    _known: tuple[list[float], list[float]] | None = None  # what replicas ask for one after the other

    def add(self, batch: float, share: float, weight: float) -> None:
        """Take in what a request was drafted, and the mean requests on the server meanwhile."""
        self._known = None
        at = min(round(batch), MOST)
        keep = 1.0 - weight / MEMORY
        self.weight[at] = keep * self.weight[at] + weight
        self.drafted[at] = keep * self.drafted[at] + weight * share

    def _seen(self) -> Iterator[tuple[int, float]]:
        """Batches that were seen, ascending, and the share that is drafted there.

        So near a fall (√n) that requests meet both of its sides, that is the median of what was seen between
        this fall and the next: each side has its own N.
        """
        known = [(at, self.drafted[at] / weight) for at, weight in enumerate(self.weight) if weight > SEEN]
        for _, between in groupby(known, lambda one: bisect_right(self.falls, one[0])):
            members = list(between)
            usual = self._median(members)
            for at, share in members:
                mixed = any(abs(at + 0.5 - fall) < math.sqrt(at) for fall in self.falls)
                yield at, usual if mixed else share

    def _median(self, members: Iterable[tuple[int, float]]) -> float:
        ranked = sorted((share, self.weight[at]) for at, share in members)
        sums = list(accumulate(weight for _, weight in ranked))
        return ranked[bisect_left(sums, sums[-1] / 2.0)][0]

    def table(self, steps_per_token: float, draft_tokens: int) -> NDArray[np.float64]:
        """Factor on steps a token by batch, as in a step table.

        Args:
            steps_per_token: Of whole drafts.
            draft_tokens: N.
        """
        places, shares = self._shares()
        logs = [math.log(excess(steps_per_token, draft_tokens, share)) for share in shares]
        batches = np.maximum(1, np.arange(MOST + 1))
        factors: NDArray[np.float64] = np.exp(np.interp(batches, places, logs))
        return factors

    def relative(
        self, steps_per_token: Mapping[Cell, float], usual: float, draft_tokens: int, batch: float
    ) -> Mapping[Cell, float]:
        """Steps a token by which a step table with :meth:`table` of the usual ones is right at a batch.

        Short drafts cost those most that accept most.

        Args:
            steps_per_token: Of whole drafts, by cell.
            usual: The ones in the step table.
            draft_tokens: N.
            batch: The batch.
        """
        places, shares = self._shares()
        after = bisect_right(places, batch)
        around = shares[after - 1], shares[min(after, len(shares) - 1)]
        if min(around) >= WHOLE:
            return steps_per_token
        before, next_ = places[after - 1], places[min(after, len(places) - 1)]
        part = (batch - before) / (next_ - before) if next_ > before else 0.0

        def factor(theta: float) -> float:
            here, there = (excess(theta, draft_tokens, share) for share in around)
            return math.pow(here, 1.0 - part) * math.pow(there, part)

        within = factor(usual)
        return {cell: theta * factor(theta) / within for cell, theta in steps_per_token.items()}

    def _shares(self) -> tuple[list[float], list[float]]:
        if self._known is None:
            self._known = self._changes()
        return self._known

    def _changes(self) -> tuple[list[float], list[float]]:
        """Batches, and the share that is drafted there; between them the factor changes evenly in logarithm.

        Load is what shortens drafts, so they are whole below the smallest batch at which short ones were
        seen, never longer at a larger one, and beyond the largest as short as there. Between two batches that
        were seen they change where steps get shorter, and evenly where they do not.
        """
        seen = list(self._seen())
        shares = falling([(share * self.weight[at], self.weight[at]) for at, share in seen])
        places, drafted = [0.0], [1.0]
        if not shares or shares[-1] >= WHOLE:
            return places, drafted
        for (at, _), share in zip(seen, shares, strict=True):
            between = [fall for fall in self.falls if places[-1] < fall <= at]
            if between or len(places) == 1:
                changes = between[-1] if between else at
                places += [changes - 1.0, float(changes)]
                drafted += [drafted[-1], share]
            places.append(float(at))
            drafted.append(share)
        return places, drafted
