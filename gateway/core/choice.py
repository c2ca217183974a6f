"""Which of the servers that can take a request comes first: the cheapest, drawn where several are."""

from __future__ import annotations

import math
from collections import defaultdict
from operator import add
from typing import TYPE_CHECKING, Final

from gateway.core.candidates import Candidates, Costs
from gateway.core.policy import WeightedScorer
from gateway.core.scorers import SCORERS, seconds
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.scorers import Costing
    from gateway.core.standing import Standing

LEARNED: Final = (WeightedScorer("seconds", 1.0),)
"""What a policy that has learnt adds up."""

FEW: Final = 8
"""Replicas of one configuration that are all compared. Of more, as many as may be tried are drawn, at least
two: that is as good where their load is known late (power of two choices), and costs less."""


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
        return (self.tie * _SPREAD * math.sqrt(place + math.e)) % 1.0


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
        replicas: All servers of each configuration of which a few, drawn, are among these; None for none.
        explored: The first one is there to learn about it.
        others: Gives servers that come after all these; None where there are no more.
    """

    costs: Costs
    places: list[int]
    equals: int
    replicas: Mapping[object, Sequence[Standing]] | None = None
    explored: bool = False
    others: Callable[[], Ordered] | None = None

    @property
    def candidates(self) -> Candidates:
        """The servers in words, those that come after all these too."""
        others = self.others
        return Candidates(self.costs, self.places, None if others is None else lambda: others().candidates)

    @property
    def first(self) -> Standing:
        """The server that comes first."""
        return self.costs.servers[self.places[0]]

    @property
    def propensity(self) -> float:
        """Probability, over all draws, with which that one comes first."""
        return 1.0 / self.equals if self.replicas is None else self.chance(self.first)

    @property
    def cheapest(self) -> list[str]:
        """The equally cheap ones."""
        servers = self.costs.servers
        return [servers[at].name for at in self.places[: self.equals]]

    def chance(self, server: Standing) -> float:
        """Probability, over all draws, with which a server comes first."""
        return self.chance_among(self.places[: self.equals], server)

    def chance_among(self, places: Sequence[int], server: Standing) -> float:
        """Probability, over all draws, that one drawn from some places is a server.

        Of replicas of which a few are drawn each has the same part, as if all of them stood alike.
        """
        servers, kind = self.costs.servers, server.configuration
        if self.replicas and server in (alike := self.replicas.get(kind, ())):
            return sum([servers[at].configuration == kind for at in places]) / (len(places) * len(alike))
        return sum([servers[at] is server for at in places]) / len(places)

    def before(self, others: Callable[[], Ordered]) -> Ordered:
        """The same order, with others after all of these."""
        return Ordered(self.costs, self.places, self.equals, self.replicas, self.explored, others)

    def led_by(self, place: int) -> Ordered:
        """The same order, but for a server that is to be learnt about and comes first."""
        places = [place, *(at for at in self.places if at != place)]
        return Ordered(self.costs, places, 1, self.replicas, explored=True, others=self.others)


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


def learned(costing: Costing, draw: Draw, attempts: int) -> Ordered:
    """Candidates by predicted seconds, with a few replicas of each configuration drawn where there are many.

    Args:
        costing: The candidates; at least one.
        draw: This request's random numbers.
        attempts: Most servers that the request may try.
    """
    if len(costing.servers) <= FEW:
        sums = seconds(costing)
        return _by_cost(Costs(costing.servers, sums, (sums,), LEARNED), draw)
    places, replicas = _drawn(costing.servers, draw, max(2, attempts))
    few = costing.among(places)
    sums = seconds(few)
    usual = _by_cost(Costs(few.servers, sums, (sums,), LEARNED), draw)
    return Ordered(usual.costs, usual.places, usual.equals, replicas)


def _by_cost(costs: Costs, draw: Draw) -> Ordered:
    sums = costs.sums
    places = sorted(range(len(sums)), key=sums.__getitem__)
    return drawn(costs, places, sums.count(sums[places[0]]), draw)


def _drawn(
    servers: Sequence[Standing], draw: Draw, count: int
) -> tuple[list[int], Mapping[object, Sequence[Standing]]]:
    """Places of all servers of configurations with few and of so many drawn ones of others; and all those."""
    groups: dict[object, list[int]] = defaultdict(list)
    for at, one in enumerate(servers):
        groups[one.configuration].append(at)
    found: list[int] = []
    replicas = {}
    for configuration, members in groups.items():
        if len(members) <= FEW:
            found += members
        else:
            found += [members[at] for at in _sample(len(members), count, draw)]
            replicas[configuration] = [servers[at] for at in members]
    return found, replicas


def _sample(size: int, count: int, draw: Draw) -> list[int]:
    """So many different numbers below a size, in an order drawn."""
    found: list[int] = []
    for turn in range(min(size, count)):
        number = int(draw.another(turn) * (size - turn))
        for one in sorted(found):
            number += number >= one
        found.append(number)
    return found
