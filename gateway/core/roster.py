"""What follows from a fleet's backends alone, worked out once for all decisions: pools and their ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.changes import changes
from gateway.core.lineup import Lineup
from gateway.core.selectors import rank
from gateway.core.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.fleet import Backend, BackendState
    from gateway.core.policy import Route, Selector
    from gateway.core.selectors import Ranking


_MOST_LISTS: Final = 1024
"""Lists of preferences that are remembered: each reload of a policy brings its own."""

_MOST_LINEUPS: Final = 64
"""Routes of which it is remembered how they see the backends."""


class Look(NamedTuple):
    """How the servers of a pool stand.

    Attributes:
        standings: Of each, in order.
        out: How many of them cannot take any request.
        wary: How many were seen to refuse some.
        room: Tokens of prompt and answer that each of them takes.
        refuses: Parameters that some of them are said to refuse.
        states: What they follow from.
        stale_after: What they were looked at with.
        at: Monotonic seconds of the look.
        until: Monotonic seconds up to which no standing changes by time alone.
    """

    standings: list[Standing]
    out: int
    wary: int
    room: float
    refuses: frozenset[str]
    states: Sequence[BackendState]
    stale_after: float
    at: float
    until: float


class Pool:
    """The backends that serve one target.

    Attributes:
        positions: Their places among all backends, in order.
        names: Theirs.
        baselines: Places in the pool of those without speculation.
    """

    __slots__ = (
        "_backends",
        "_baselines",
        "_lineups",
        "_rankings",
        "_refuses",
        "_room",
        "_seen",
        "baselines",
        "names",
        "positions",
    )

    def __init__(self, backends: Sequence[Backend], target: str) -> None:
        """Pick the backends of a target; an empty name stands for all."""
        self.positions = tuple(at for at, one in enumerate(backends) if not target or one.target == target)
        self._backends = tuple(backends[at] for at in self.positions)
        self._room = min([one.room for one in self._backends], default=math.inf)
        self._refuses = frozenset[str]().union(*(one.refuses for one in self._backends))
        self.names = tuple(one.name for one in self._backends)
        self.baselines = tuple(at for at, one in enumerate(self._backends) if one.is_baseline)
        self._baselines = frozenset(self.names[at] for at in self.baselines)
        self._rankings: dict[int, tuple[tuple[Selector, ...], Ranking]] = {}
        self._lineups: dict[int, Lineup] = {}
        self._seen: Look | None = None

    def ranking(self, prefer: tuple[Selector, ...]) -> Ranking:
        """Ranks of the backends in a list of preferences; remembered, as a policy has few such lists."""
        # By identity, as to hash such a list takes long; it is kept, so that no other gets its identity.
        known = self._rankings.get(id(prefer))
        if known is None:
            if len(self._rankings) >= _MOST_LISTS:
                self._rankings.clear()
            equal = (ranking for other, ranking in [*self._rankings.values()] if other == prefer)
            found = next(equal, None) or rank(prefer, self._backends)
            known = self._rankings[id(prefer)] = prefer, found
        return known[1]

    def named(self, baselines: Sequence[int]) -> frozenset[str]:
        """Names of some of the baselines."""
        if baselines is self.baselines:  # as good as always
            return self._baselines
        return frozenset([self.names[at] for at in baselines])

    def lineup(self, route: Route) -> Lineup:
        """The backends for the requests of a route; remembered, as a policy has few routes."""
        known = self._lineups.get(id(route))  # which keeps the route, so that no other gets its identity
        if known is None:
            if len(self._lineups) >= _MOST_LINEUPS:
                self._lineups.clear()
            known = self._lineups[id(route)] = Lineup(route, self.ranking(route.prefer), self.names)
        return known

    def look(self, states: Sequence[BackendState], now: float, stale_after: float) -> Look:
        """How the servers of the pool stand.

        A request changes one of them; of the others what was found at the last decision is remembered. What
        is returned is never changed, so that decisions may be made in several threads.

        Args:
            states: Of all backends of the fleet.
            now: Monotonic seconds.
            stale_after: Age in seconds beyond which scraped load is ignored.
        """
        seen = self._seen
        if len(self.positions) < len(states):
            states = [states[at] for at in self.positions]
        if seen is None or seen.stale_after != stale_after or now < seen.at:
            standings = [Standing(state, now, stale_after) for state in states]
            out, wary = sum([one.out is not None for one in standings]), sum([one.wary for one in standings])
            until = _earliest(standings)
        else:
            changed = changes(seen.states, states)
            late = now > seen.until
            if late:
                changed += [at for at, one in enumerate(seen.standings) if now > one.until]
            elif not changed:
                return seen
            standings, out, wary, until = seen.standings.copy(), seen.out, seen.wary, seen.until
            for at in changed:
                before = standings[at]
                standings[at] = one = Standing(states[at], now, stale_after, before)
                out += (one.out is not None) - (before.out is not None)
                wary += one.wary - before.wary
                until = min(until, one.until)
            if late:
                until = _earliest(standings)
        self._seen = found = Look(
            standings, out, wary, self._room, self._refuses, states, stale_after, now, until
        )
        return found


def _earliest(standings: Sequence[Standing]) -> float:
    """Monotonic seconds up to which none of them changes by time alone."""
    return min([one.until for one in standings], default=math.inf)


_EMPTY: Final = Pool((), "")


class Roster:
    """The backends of one fleet file, by target."""

    __slots__ = ("_pools",)

    def __init__(self, backends: Sequence[Backend]) -> None:
        """Sort backends into pools."""
        targets = {"", *(backend.target for backend in backends)}
        self._pools = {target: Pool(backends, target) for target in targets}

    def pool(self, target: str) -> Pool:
        """The backends of a target, empty where nobody serves it; an empty name stands for all."""
        return self._pools.get(target, _EMPTY)
