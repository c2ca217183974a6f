"""Acceptance draws of a simulation, laid out so that the steps of a whole answer are one look-up."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from backends.sim.spread import LEAST, thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = NDArray[np.int64]
    """Tokens after so many steps of the sequence of draws; ``size + 1`` values, the first is 0."""


class Draws:
    """One long sequence of uniform draws that every request reads from a place of its own.

    Whether a draft is accepted does not depend on what else is in the batch, so the number of steps of an
    answer follows from its place, its factor and the survival curve. The running sum of accepted tokens is
    tabulated once for each curve and factor; then a whole answer costs one bisection. The same request meets
    the same draws whichever server takes it: policies are compared on the same luck.

    The sequence is a shuffled even grid, so over all of it acceptance is the curve's to the last digit.

    Args:
        seed: Of the order of the draws.
        size: Length of the sequence; answers that reach its end go on at its beginning.
        levels: How many factors there are that tell requests of one workload apart, all equally likely.
    """

    def __init__(self, seed: int, *, size: int = 16_384, levels: int = 32) -> None:
        self.size = size
        self.levels = levels
        grid = (np.arange(size) + 0.5) / size
        self._uniform = np.random.default_rng(seed).permutation(grid)
        self._z = tuple(NormalDist().inv_cdf((level + 0.5) / levels) for level in range(levels))
        self._tables: dict[tuple[tuple[float, ...], float, int], Table] = {}

    def factor(self, level: int, spread: float) -> float:
        """What a request of this level multiplies acceptance by."""
        return max(LEAST, 1.0 + spread * self._z[level])

    def table(self, survival: tuple[float, ...], spread: float, level: int) -> Table | None:
        """Running sum of tokens by step, or None without drafts, where each step gives one."""
        if not survival:
            return None
        key = survival, spread, level
        found = self._tables.get(key)
        if found is None:
            limits = np.array(thresholds(survival, spread)[::-1])
            accepted = len(survival) - limits.searchsorted(
                self._uniform / self.factor(level, spread), "right"
            )
            found = self._tables[key] = np.concatenate(([0], np.cumsum(accepted + 1)))
        return found

    def steps(self, table: Table | None, place: int, tokens: int) -> int:
        """Steps until at least ``tokens`` tokens have come, from a place in the sequence."""
        if table is None:
            return tokens
        wanted = int(table[place]) + tokens
        total = int(table[-1])
        if wanted <= total:
            return int(table.searchsorted(wanted)) - place
        rounds, rest = divmod(wanted - 1, total)
        return rounds * self.size + int(table.searchsorted(rest + 1)) - place

    def tokens(self, table: Table | None, place: int, steps: int) -> int:
        """Tokens that so many steps give, from a place in the sequence; the last step is not cut."""
        if table is None:
            return steps
        rounds, rest = divmod(place + steps, self.size)
        return rounds * int(table[-1]) + int(table[rest]) - int(table[place])


def steps_per_token(survival: tuple[float, ...], spread: float, *, levels: int = 32) -> float:
    """Mean over requests of steps a token, ``E[1/τ]``, as long answers take them."""
    if not survival:
        return 1.0
    limits = np.array(thresholds(survival, spread))
    normal = NormalDist()
    z = np.array([normal.inv_cdf((level + 0.5) / levels) for level in range(levels)])
    factors = np.maximum(LEAST, 1.0 + spread * z)
    lengths = 1.0 + np.minimum(1.0, limits[:, None] * factors).sum(axis=0)
    return float(np.mean(1.0 / lengths))
