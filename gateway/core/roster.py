"""What follows from a fleet's backends alone, worked out once for all decisions: pools and their ranks."""

from __future__ import annotations

import math
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.selectors import rank
from gateway.core.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.fleet import Backend, BackendState
    from gateway.core.policy import Selector
    from gateway.core.selectors import Ranking


class _Seen(NamedTuple):
    """How the servers of a pool stood at the last decision.

    Attributes:
        standings: Of each, in order.
        states: What they follow from.
        stale_after: What they were looked at with.
        at: Monotonic seconds of the decision.
        until: Monotonic seconds up to which no standing changes by time alone.
    """

    standings: list[Standing]
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

    __slots__ = ("_backends", "_rankings", "_seen", "baselines", "names", "positions")

    def __init__(self, backends: Sequence[Backend], target: str) -> None:
        """Pick the backends of a target; an empty name stands for all."""
        self.positions = tuple(at for at, one in enumerate(backends) if not target or one.target == target)
        self._backends = tuple(backends[at] for at in self.positions)
        self.names = tuple(one.name for one in self._backends)
        self.baselines = tuple(at for at, one in enumerate(self._backends) if one.is_baseline)
        self._rankings: dict[tuple[Selector, ...], Ranking] = {}
        self._seen: _Seen | None = None

    def ranking(self, prefer: tuple[Selector, ...]) -> Ranking:
        """Ranks of the backends in a list of preferences; remembered, as a policy has few such lists."""
        if (known := self._rankings.get(prefer)) is None:
            known = self._rankings[prefer] = rank(prefer, self._backends)
        return known

    def standings(self, states: Sequence[BackendState], now: float, stale_after: float) -> Sequence[Standing]:
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
            until = min([one.until for one in standings], default=math.inf)
            self._seen = _Seen(standings, states, stale_after, now, until)
            return standings
        standings, until, late = seen.standings.copy(), seen.until, now > seen.until
        for at, same in enumerate(map(is_, states, seen.states)):
            if not same or (late and now > standings[at].until):
                one = standings[at] = Standing(states[at], now, stale_after)
                until = min(until, one.until)
        if late:
            until = min([one.until for one in standings], default=math.inf)
        self._seen = _Seen(standings, states, stale_after, now, until)
        return standings


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
