"""A little chance for servers of which too little is known to say that they are not the best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.choice import Ordered
    from gateway.core.predict import Ask
    from gateway.core.scorers import Costing
    from gateway.core.standing import Standing

_OPTIMISM: Final = 1.645
"""Standard deviations by which a prediction may be too high: one in twenty is by more."""

_DEAREST: Final = 4.0
_DEAREST_IN_LIMITS: Final = 2.0
"""An exploratory request costs at most so many times what the best is believed to cost; one whose answer must
keep limits less, as missing them makes a server five times as dear."""


class Way(NamedTuple):
    """How servers come in order by one of those who may decide.

    Attributes:
        usual: Where it does not explore.
        part: Probability, over all draws, with which this one decides.
        explore: Share of the requests that it explores with.
        may_be: Places of the servers that one of those goes to, each with the same probability.
    """

    usual: Ordered
    part: float = 1.0
    explore: float = 0.0
    may_be: Sequence[int] = ()

    def order(self, roll: float) -> Ordered:
        """The servers by a uniform number below 1."""
        if roll >= self.explore:
            return self.usual
        return self.usual.led_by(self.may_be[int(roll / self.explore * len(self.may_be))])

    def chance(self, server: Standing) -> float:
        """Probability, over all draws, with which a server comes first where this one decides."""
        usual = self.usual.chance(server)
        if not self.explore:
            return usual
        explored = self.usual.chance_among(self.may_be, server)
        return (1.0 - self.explore) * usual + self.explore * explored


def exploring(usual: Ordered, costing: Costing, part: float, explore: float) -> Way:
    """An order by predicted seconds with so much exploration, if there is anything to explore.

    Args:
        usual: The order.
        costing: What it was made from.
        part: Probability with which it decides.
        explore: Share of the requests that explore.
    """
    may_be = _may_be_best(usual, costing)
    return Way(usual, part, explore, may_be) if may_be else Way(usual, part)


def _may_be_best(usual: Ordered, costing: Costing) -> list[int]:
    """Places of those that cost less than the best if what is known of them is as wrong as it may be."""
    servers, sums = usual.costs.servers, usual.costs.sums
    best = sums[usual.places[0]]
    limited = costing.limits is not None and costing.limits.any
    dearest = _DEAREST_IN_LIMITS if limited else _DEAREST
    found = []
    for at in usual.places[usual.equals :]:
        if sums[at] > dearest * best:
            break
        if sums[at] * math.exp(-_OPTIMISM * _spread(servers[at], costing.ask)) < best:
            found.append(at)
    return found


def _spread(server: Standing, ask: Ask) -> float:
    """Standard deviation of the logarithm of a prediction."""
    known, other, accepted = server.model.spread, server.model.other_spread, 0.0
    for cell, share in ask.classes:
        accepted += share * known.get(cell[0], other)
    return math.hypot(accepted, server.doubt)
