"""Which of the servers that can take a request comes first: by cost, with a little chance where that pays."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.policy import WeightedScorer
from gateway.core.scorers import SCORERS
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.predict import Ask
    from gateway.core.scorers import Costing
    from gateway.core.standing import Ranked, Standing

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
class CostPart:
    """One scorer's part of a candidate's cost.

    Attributes:
        scorer: YAML name of the scorer.
        value: Its cost, in the scorer's own unit; lower is better.
        weight: What the policy multiplies it by.
    """

    scorer: str
    value: float
    weight: float


# A decision holds one of these for each backend of the target, which may be a thousand. As a tuple it is
# immutable too, and made in a fraction of the time.
class Candidate(NamedTuple):
    """A backend that may take the request, with what it costs.

    Attributes:
        cost: The sum of ``values``, weighted.
        values: The cost by each scorer, in the order of ``scorers``.
        scorers: Those that were added up.
    """

    backend: str
    cost: float
    values: tuple[float, ...]
    scorers: tuple[WeightedScorer, ...] = ()

    @property
    def parts(self) -> tuple[CostPart, ...]:
        """What the cost is made of."""
        return tuple(
            CostPart(scorer.name, value, scorer.weight)
            for scorer, value in zip(self.scorers, self.values, strict=True)
        )


@value(frozen=True, slots=True)
class Ordered:
    """Candidates by cost; the cheapest ones, equal to each other, come in the order of the draw.

    Attributes:
        equals: How many are equally cheap.
        chances: Probability, over all draws, with which a candidate comes first; None where each of the
            cheapest has the same and no other has one.
        explored: The first one is there to learn about it.
    """

    candidates: tuple[Candidate, ...]
    equals: int
    chances: Mapping[str, float] | None = None
    explored: bool = False

    @property
    def cheapest(self) -> tuple[Candidate, ...]:
        """The equally cheap ones."""
        return self.candidates[: self.equals]

    def chance(self, candidate: Candidate) -> float:
        """Probability, over all draws, with which the candidate comes first."""
        if self.chances is not None:
            return self.chances.get(candidate.backend, 0.0)
        return (candidate.backend in [one.backend for one in self.cheapest]) / self.equals

    def before(self, others: Ordered) -> Ordered:
        """The same order, with others after all of these."""
        return replace(self, candidates=(*self.candidates, *others.candidates))

    def mixed(self, other: Ordered, share: float) -> Ordered:
        """The same order, where it is taken with a probability and another order otherwise."""
        chances: dict[str, float] = defaultdict(float)
        for one, part in ((self, share), (other, 1.0 - share)):
            for backend in one.chances or (each.backend for each in one.cheapest):
                chances[backend] += part * (one.chances[backend] if one.chances else 1.0 / one.equals)
        return replace(self, chances=chances)


_candidate: Final[Callable[[tuple[object, ...]], Candidate]] = partial(tuple.__new__, Candidate)
"""Makes a candidate of its fields, in a quarter of the time of a call by names."""

_cost: Final = itemgetter(Candidate._fields.index("cost"))


def order(costing: Costing, scorers: tuple[WeightedScorer, ...], draw: Draw) -> Ordered:
    """Candidates by the weighted sum of their costs."""
    columns = [SCORERS[one.name](costing) for one in scorers]
    weight = scorers[0].weight
    costs = [value * weight for value in columns[0]]
    for scorer, column in zip(scorers[1:], columns[1:], strict=True):
        weight = scorer.weight
        costs = [cost + value * weight for cost, value in zip(costs, column, strict=True)]
    names = [one.name for one, _ in costing.candidates]
    found = [*map(_candidate, zip(names, costs, zip(*columns, strict=True), repeat(scorers), strict=False))]
    found.sort(key=_cost)
    equals = costs.count(found[0].cost)
    if equals > 1:
        turn = int(draw.tie * equals)
        found = [*found[turn:equals], *found[:turn], *found[equals:]]
    return Ordered(tuple(found), equals)


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
    if len(costing.candidates) > FEW:
        costing = costing.among(_drawn(costing.candidates, draw, attempts))
    usual = order(costing, LEARNED, draw)
    may_be = _may_be_best(usual, costing) if explore > 0.0 else []
    if not may_be:
        return usual
    chances = {one.backend: (1.0 - explore) / usual.equals for one in usual.cheapest}
    chances |= {one.backend: explore / len(may_be) for one in may_be}
    if roll >= explore:
        return Ordered(usual.candidates, usual.equals, chances)
    first = may_be[int(roll / explore * len(may_be))]
    others = tuple(one for one in usual.candidates if one is not first)
    return Ordered((first, *others), 1, chances, explored=True)


def _drawn(servers: Sequence[Ranked], draw: Draw, attempts: int) -> list[Ranked]:
    """All servers of configurations with few, and some of the others, in an order that the draw decides."""
    groups: dict[object, list[Ranked]] = defaultdict(list)
    for one in servers:
        groups[one[0].configuration].append(one)
    found: list[Ranked] = []
    for members in groups.values():
        if len(members) <= FEW:
            found += members
        else:
            places = {int(draw.another(at) * len(members)): None for at in range(max(2, attempts))}
            found += [members[at] for at in places]
    return found


def _may_be_best(usual: Ordered, costing: Costing) -> list[Candidate]:
    """Candidates that cost less than the best if what is known of them is as wrong as it may be."""
    best = usual.candidates[0].cost
    limited = costing.limits is not None and costing.limits.any
    dearest = _DEAREST_IN_LIMITS if limited else _DEAREST
    servers = {one.name: one for one, _ in costing.candidates}
    found = []
    for one in usual.candidates[usual.equals :]:
        if one.cost > dearest * best:
            break
        if one.cost * math.exp(-_OPTIMISM * _spread(servers[one.backend], costing.ask)) < best:
            found.append(one)
    return found


def _spread(server: Standing, ask: Ask) -> float:
    """Standard deviation of the logarithm of a prediction."""
    known, other, accepted = server.model.spread, server.model.other_spread, 0.0
    for cell, share in ask.classes:
        accepted += share * known.get(cell[0], other)
    return math.hypot(accepted, server.doubt)
