"""How an engine that adapts N shortens its drafts under load, and how many more steps a token then takes.

With acceptance a at each position a step of N drafts gives (1 - a^(N+1)) / (1 - a) tokens. So what whole
drafts give tells a, and a what shorter ones give: how short they are at which load is all there is to learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.curve import MEMORY, SEEN, TABLE_X, X, between

if TYPE_CHECKING:
    from numpy.typing import NDArray

WHOLE: Final = 0.95
"""Share of N drafts a step from which drafts count as whole; a last step is cut short by the answer's end."""

_HALVINGS: Final = 30


def length(rate: float, draft_tokens: float) -> float:
    """Tokens of a step whose drafts are accepted with the same probability at each position."""
    return (1.0 - math.pow(rate, draft_tokens + 1.0)) / (1.0 - rate)


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


@dataclass(slots=True)
class Shortening:
    """Which share of N is drafted a step: discounted sums by batch, at the places of ``curve.X``.

    Attributes:
        weight: Evidence in requests.
        drafted: Sum of weight times share.
    """

    weight: list[float] = field(default_factory=lambda: [0.0] * len(X))
    drafted: list[float] = field(default_factory=lambda: [0.0] * len(X))

    def add(self, batch: float, share: float, weight: float) -> None:
        """Take in what a request was drafted, and the mean requests on the server meanwhile."""
        for at, near in between(batch):
            part = near * weight
            keep = 1.0 - part / MEMORY
            self.weight[at] = keep * self.weight[at] + part
            self.drafted[at] = keep * self.drafted[at] + part * share

    def table(self, steps_per_token: float, draft_tokens: int) -> NDArray[np.float64]:
        """Factor on steps a token by batch, as in a step table.

        Load is what shortens drafts, so they are whole below the smallest batch at which short ones were
        seen, and beyond the largest as short as there.

        Args:
            steps_per_token: Of whole drafts.
            draft_tokens: N.
        """
        seen = [at for at, weight in enumerate(self.weight) if weight > SEEN]
        shares = [self.drafted[at] / self.weight[at] for at in seen]
        logs = [math.log(excess(steps_per_token, draft_tokens, share)) for share in shares]
        if not any(logs):
            return np.ones(len(TABLE_X))
        if seen[0] > 0:
            seen, logs = [seen[0] - 1, *seen], [0.0, *logs]
        factors: NDArray[np.float64] = np.exp(np.interp(TABLE_X, X[seen], logs))
        return factors
