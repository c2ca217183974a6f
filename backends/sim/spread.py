"""Acceptance of single requests: how requests of one workload differ without moving the published mean."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np

LEAST: Final = 0.05
"""Smallest factor a request can have; the normal distribution would allow a negative one."""

_NODES: Final = 256
_CEILING: Final = 64.0


@lru_cache(maxsize=4096)
def thresholds(survival: tuple[float, ...], spread: float) -> tuple[float, ...]:
    """Acceptance thresholds ``s`` such that ``u < s_i * h`` reproduces ``survival``.

    A request draws ``h`` around 1 once and ``u`` uniformly at each step. Two things would pull the mean
    below the published one if ``s`` were ``survival``: acceptance cannot exceed 1, and requests that
    accept less take more steps. Both are undone here.

    Args:
        survival: Probability over all steps that the draft at each position is accepted.
        spread: Standard deviation of ``h``.
    """
    if not survival or spread == 0.0:
        return survival
    normal = NormalDist(1.0, spread)
    factors = np.array([max(LEAST, normal.inv_cdf((k + 0.5) / _NODES)) for k in range(_NODES)])
    wanted = np.array(survival)
    weights = np.full(_NODES, 1.0 / _NODES)
    found = wanted
    for _ in range(8):  # the weights move little: eight rounds leave an error far below the published digits
        low, high = np.zeros_like(wanted), np.full_like(wanted, _CEILING)
        for _ in range(40):
            found = (low + high) / 2.0
            short = np.minimum(1.0, found[:, None] * factors) @ weights < wanted
            low, high = np.where(short, found, low), np.where(short, high, found)
        steps = 1.0 / (1.0 + np.minimum(1.0, found[:, None] * factors).sum(axis=0))
        weights = steps / steps.sum()
    return tuple(found.tolist())
