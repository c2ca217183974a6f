"""Which of the servers that can take a request comes first: by cost, with a little chance where that pays."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING, Final

from gateway.core.candidates import Candidates, Costs
from gateway.core.policy import WeightedScorer
from gateway.core.scorers import SCORERS, seconds
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.predict import Ask
    from gateway.core.scorers import Costing
    from gateway.core.standing import Standing

LEARNED: Final = (WeightedScorer("seconds", 1.0),)
"""What a policy that has learnt adds up."""

FEW: Final = 8
"""Replicas of one configuration that are all compared. Of more, as many as may be tried are drawn, at least
two: that is as good where their load is known late (power of two choices), and costs less."""

_OPTIMISM: Final = 1.645
"""Standard deviations by which a prediction may be too high: one in twenty is by more."""

_DEAREST: Final = 4.0
_DEAREST_IN_LIMITS: Final = 2.0
"""An exploratory request costs at most so many times what the best is believed to cost; one whose answer must
keep limits less, as missing them makes a server five times as dear."""


@value(frozen=True, slots=True)
class Draw:
    """This request's random numbers, uniform in [0, 1), so that a decision can be replayed.

    Attributes:
        explore: Decides whether the request goes to the baseline share, or explores.
        tie: Breaks ties between equal costs, and draws replicas.
    """

    explore: float
    tie: float

    @classmethod
    def nth(cls, number: int) -> Draw:
        """Numbers that any run of consecutive requests has evenly spread."""
        return cls(*((number * step + 0.5) % 1.0 for step in _EVEN))

    def another(self, place: int) -> float:
        """Further numbers, one for each place, as good as independent of the two."""
        return (self.tie * _SPREAD + (place + 1) * _GOLDEN) % 1.0


_SPREAD: Final = 2.0**20
_GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0
_EVEN: Final = (_GOLDEN, math.sqrt(2.0) - 1.0)


@value(frozen=True, slots=True)
class Ordered:
    """Servers by cost; the cheapest ones, equal to each other, come in the order of the draw.

    Attributes:
        costs: What each costs.
        places: Their places there, in order.
        equals: How many are equally cheap.
        chances: Probability, over all draws, with which a server comes first, by name; None where each of the
            cheapest has the same and no other has one.
        explored: The first one is there to learn about it.
        others: Gives servers that come after all these; None where there are no more.
    """

    costs: Costs
    places: list[int]
    equals: int
    chances: Mapping[str, float] | None = None
    explored: bool = False
    others: Callable[[], Ordered] | None = None

    @property
    def candidates(self) -> Candidates:
        """The servers in words, those that come after all these too."""
        others = self.others
        return Candidates(self.costs, self.places, None if others is None else lambda: others().candidates)

    @property
    def first(self) -> str:
        """The server that comes first."""
        return self.costs.servers[self.places[0]].name

    @property
    def propensity(self) -> float:
        """Probability, over all draws, with which that one comes first."""
        return 1.0 / self.equals if self.chances is None else self.chances[self.first]

    @property
    def cheapest(self) -> list[str]:
        """The equally cheap ones."""
        servers = self.costs.servers
        return [servers[at].name for at in self.places[: self.equals]]

    def chance(self, backend: str) -> float:
        """Probability, over all draws, with which a server comes first."""
        if self.chances is not None:
            return self.chances.get(backend, 0.0)
        return 1.0 / self.equals if backend in self.cheapest else 0.0

    def before(self, others: Callable[[], Ordered]) -> Ordered:
        """The same order, with others after all of these."""
        return Ordered(self.costs, self.places, self.equals, self.chances, self.explored, others)

    def mixed(self, other: Ordered, share: float) -> Ordered:
        """The same order, where it is taken with a probability and another order otherwise."""
        chances: dict[str, float] = defaultdict(float)
        for one, part in ((self, share), (other, 1.0 - share)):
            for backend in one.chances or one.cheapest:
                chances[backend] += part * (one.chances[backend] if one.chances else 1.0 / one.equals)
        return replace(self, chances=chances)


def drawn(costs: Costs, places: list[int], equals: int, draw: Draw) -> Ordered:
    """Servers in order, so many cheapest ones put in the order of a draw."""
    turn = int(draw.tie * equals)
    if turn:
        places = places[turn:equals] + places[:turn] + places[equals:]
    return Ordered(costs, places, equals)


def order(costing: Costing, scorers: tuple[WeightedScorer, ...], draw: Draw) -> Ordered:
    """Servers by the weighted sum of their costs."""
    return _by_cost(costs_of(costing, scorers), draw)


def costs_of(costing: Costing, scorers: tuple[WeightedScorer, ...]) -> Costs:
    """What servers cost by each scorer, and the weighted sums."""
    columns, sums = [], list[float]()
    for scorer in scorers:
        column, weight = SCORERS[scorer.name](costing), scorer.weight
        columns.append(column)
        weighted = column if weight == 1.0 else [cost * weight for cost in column]
        sums = [*map(add, sums, weighted)] if sums else weighted
    return Costs(costing.servers, sums, columns, scorers)


def _by_cost(costs: Costs, draw: Draw) -> Ordered:
    sums = costs.sums
    places = sorted(range(len(sums)), key=sums.__getitem__)
    return drawn(costs, places, sums.count(sums[places[0]]), draw)


def learned(costing: Costing, draw: Draw, attempts: int, explore: float, roll: float) -> Ordered:
    """Candidates by predicted seconds, with a few replicas of each configuration drawn where there are many.

    Args:
        costing: The candidates; at least one.
        draw: This request's random numbers.
        attempts: Most servers that the request may try.
        explore: Share of such requests that explore. Those go to one of the servers that may be the best, as
            far as is known, each with the same probability.
        roll: A uniform number: this one explores where it is below.
    """
    if len(costing.servers) > FEW:
        costing = costing.among(_drawn(costing.servers, draw, attempts))
    sums = seconds(costing)
    usual = _by_cost(Costs(costing.servers, sums, (sums,), LEARNED), draw)
    may_be = _may_be_best(usual, costing) if explore > 0.0 else []
    if not may_be:
        return usual
    chances = dict.fromkeys(usual.cheapest, (1.0 - explore) / usual.equals)
    chances |= {costing.servers[at].name: explore / len(may_be) for at in may_be}
    if roll >= explore:
        return Ordered(usual.costs, usual.places, usual.equals, chances)
    first = may_be[int(roll / explore * len(may_be))]
    others = [at for at in usual.places if at != first]
    return Ordered(usual.costs, [first, *others], 1, chances, explored=True)


def _drawn(servers: Sequence[Standing], draw: Draw, attempts: int) -> list[int]:
    """Places of all servers of configurations with few and some of the others, in an order drawn."""
    groups: dict[object, list[int]] = defaultdict(list)
    for at, one in enumerate(servers):
        groups[one.configuration].append(at)
    found: list[int] = []
    for members in groups.values():
        if len(members) <= FEW:
            found += members
        else:
            places = {int(draw.another(at) * len(members)): None for at in range(max(2, attempts))}
            found += [members[at] for at in places]
    return found


def _may_be_best(usual: Ordered, costing: Costing) -> list[int]:
    """Places of those that cost less than the best if what is known of them is as wrong as it may be."""
    sums = usual.costs.sums
    best = sums[usual.places[0]]
    limited = costing.limits is not None and costing.limits.any
    dearest = _DEAREST_IN_LIMITS if limited else _DEAREST
    found = []
    for at in usual.places[usual.equals :]:
        if sums[at] > dearest * best:
            break
        if sums[at] * math.exp(-_OPTIMISM * _spread(costing.servers[at], costing.ask)) < best:
            found.append(at)
    return found


def _spread(server: Standing, ask: Ask) -> float:
    """Standard deviation of the logarithm of a prediction."""
    known, other, accepted = server.model.spread, server.model.other_spread, 0.0
    for cell, share in ask.classes:
        accepted += share * known.get(cell[0], other)
    return math.hypot(accepted, server.doubt)
