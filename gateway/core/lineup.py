"""Which servers of a pool a route may use, and at what cost, kept from one decision to the next."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import compress, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core import reasons
from gateway.core.candidates import Costs
from gateway.core.changes import changes
from gateway.core.choice import costs_of, drawn, order
from gateway.core.scorers import PREDICTING, Costing
from gateway.core.sorting import Line, Rejected, Sorted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.choice import Draw, Ordered
    from gateway.core.policy import Route
    from gateway.core.roster import Look
    from gateway.core.selectors import Ranking
    from gateway.core.standing import Standing


_FEW: Final = 32
"""Changes are put in their places one by one if they are at most one in so many; else all are sorted anew."""


class _Tally(NamedTuple):
    """Servers by what they cost by their load alone.

    Attributes:
        line: What it follows from.
        costs: Of those that may be used.
        places: Their places there, cheapest first.
        equals: How many are equally cheap.
    """

    line: Line
    costs: Costs
    places: list[int]
    equals: int


class Lineup:
    """The servers of a pool for the requests of a route.

    A request changes one of them: only of those that changed anything is worked out anew. What is returned is
    never changed, so that decisions may be made in several threads.

    Attributes:
        route: The route.
        predicts: Whether its scores depend on the request, too.
    """

    __slots__ = ("_all_named", "_line", "_never", "_ranking", "_tally", "predicts", "route")

    def __init__(self, route: Route, ranking: Ranking, names: Sequence[str]) -> None:
        """Look at a pool by a route.

        Args:
            route: The route.
            ranking: Ranks of the servers by its preferences.
            names: Theirs.
        """
        self.route = route
        self.predicts = not PREDICTING.isdisjoint([one.name for one in route.scorers])
        self._ranking = ranking
        self._all_named = not ranking.limited and ranking.unnamed not in ranking.ranks
        words = f"route {route.name} does not name it"
        self._never = [
            Rejected(name, reasons.NOT_PREFERRED, words) if rank == ranking.unnamed else None
            for name, rank in zip(names, ranking.ranks, strict=True)
        ]
        self._line: Line | None = None
        self._tally: _Tally | None = None

    def line(self, look: Look) -> Line:
        """Who may be used at this moment, whatever a request asks for."""
        line = self._line
        if line is None or line.look is not look:
            self._line = line = self._lined_up(look, line)
        return line

    def _lined_up(self, look: Look, before: Line | None) -> Line:
        standings, unnamed = look.standings, self._ranking.unnamed
        if before is None:
            ranks, why, free = [*self._ranking.ranks], [*self._never], [one is None for one in self._never]
            changed: Sequence[int] = range(len(standings))
        elif self._all_named and not look.out and not before.look.out:
            usable = Sorted(standings, before.ranks, (), capable=True)
            return Line(look, before.ranks, unnamed, before.why, before.free, usable)
        else:
            ranks, why, free = [*before.ranks], [*before.why], [*before.free]
            changed = changes(before.look.standings, standings)
        for at in changed:
            one = standings[at]
            ranks[at] = rank = self._ranking.under(at, one.queue)
            why[at] = no = self._why(at, rank, one)
            free[at] = no is None
        servers = [*compress(standings, free)]
        if before is not None and why == before.why:
            rejected = before.usable.rejected
        else:
            rejected = tuple(filter(None, why))
        usable = Sorted(servers, [*compress(ranks, free)], rejected, bool(servers))
        return Line(look, ranks, unnamed, why, free, usable)

    def _why(self, at: int, rank: int, one: Standing) -> Rejected | None:
        """Why a server may not take any request of the route."""
        if (never := self._never[at]) is not None:
            return never
        if rank == self._ranking.unnamed:
            full = f"{one.state.in_flight} requests in flight, more than route {self.route.name} lets it have"
            return Rejected(one.name, reasons.FULL, full)
        return None if one.out is None else Rejected(one.name, *one.out)

    def order(self, line: Line, costing: Costing, draw: Draw) -> Ordered:
        """Candidates by the route's scores."""
        if self.predicts or costing.servers is not line.usable.servers:
            return order(costing, self.route.scorers, draw)
        tally = self._tally
        if tally is None or tally.line is not line:
            self._tally = tally = self._tallied(line, costing, tally)
        return drawn(tally.costs, tally.places, tally.equals, draw)

    def _tallied(self, line: Line, costing: Costing, before: _Tally | None) -> _Tally:
        servers, scorers = costing.servers, self.route.scorers
        changed: Sequence[int] = range(len(servers))
        if before is not None and len(servers) > _FEW and before.line.free == line.free:
            changed = changes(before.costs.servers, servers)
        if before is None or len(changed) * _FEW > len(servers):
            costs = costs_of(costing, scorers)
            places = sorted(range(len(servers)), key=costs.sums.__getitem__)
        else:
            found = costs_of(costing.among(changed), scorers)
            columns = [_with(*one) for one in zip(before.costs.columns, found.columns, repeat(changed))]
            costs = Costs(servers, _with(before.costs.sums, found.sums, changed), columns, scorers)
            places = _moved(before.places, changed, costs.sums)
        sums = costs.sums
        return _Tally(line, costs, places, bisect_right(places, sums[places[0]], key=sums.__getitem__))


def _with(before: Sequence[float], found: Sequence[float], places: Sequence[int]) -> list[float]:
    """Numbers, with others at some places."""
    numbers = [*before]
    for at, one in zip(places, found, strict=True):
        numbers[at] = one
    return numbers


def _moved(before: Sequence[int], changed: Sequence[int], sums: Sequence[float]) -> list[int]:
    """Places by cost, equal ones in order, where some of the costs are others."""
    places = [*before]
    for at in changed:
        places.remove(at)
    for at in changed:
        insort(places, at, key=lambda one: (sums[one], one))
    return places
