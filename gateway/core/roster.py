"""What follows from a fleet's backends alone, worked out once for all decisions: pools and their ranks."""

from __future__ import annotations

import math
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.selectors import rank
from gateway.core.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.fleet import Backend, BackendState
    from gateway.core.policy import Selector
    from gateway.core.selectors import Ranking


_MOST_LISTS: Final = 1024
"""Lists of preferences that are remembered: each reload of a policy brings its own."""


class Look(NamedTuple):
    """How the servers of a pool stand.

    Attributes:
        standings: Of each, in order.
        held: How many of them are out, or were seen to refuse some requests.
        room: Tokens of prompt and answer that each of them takes.
        refuses: Parameters that some of them are said to refuse.
        states: What they follow from.
        stale_after: What they were looked at with.
        at: Monotonic seconds of the look.
        until: Monotonic seconds up to which no standing changes by time alone.
    """

    standings: list[Standing]
    held: int
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
        "_places",
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
        self._places = range(len(self.positions))
        self._room = min([one.room for one in self._backends], default=math.inf)
        self._refuses = frozenset[str]().union(*(one.refuses for one in self._backends))
        self.names = tuple(one.name for one in self._backends)
        self.baselines = tuple(at for at, one in enumerate(self._backends) if one.is_baseline)
        self._rankings: dict[int, tuple[tuple[Selector, ...], Ranking]] = {}
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
            held, until = sum([one.held for one in standings]), _earliest(standings)
        else:
            changed = [*compress(self._places, map(is_not, states, seen.states))]
            late = now > seen.until
            if late:
                changed += [at for at, one in enumerate(seen.standings) if now > one.until]
            elif not changed:
                return seen
            standings, held, until = seen.standings.copy(), seen.held, seen.until
            for at in changed:
                one = Standing(states[at], now, stale_after, standings[at])
                held += one.held - standings[at].held
                until = min(until, one.until)
                standings[at] = one
            if late:
                until = _earliest(standings)
        self._seen = found = Look(standings, held, self._room, self._refuses, states, stale_after, now, until)
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
