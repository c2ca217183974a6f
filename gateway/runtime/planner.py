"""Turns demand and what is known of the servers into roles, and keeps them while they are good enough."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from gateway.core.observe import fingerprint, runs
from gateway.core.plan import OPEN, Kind, Plan
from gateway.runtime.program import Program
from gateway.runtime.table import HEADROOM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.core.fleet import BackendState
    from gateway.core.plan import Solution, Wanted
    from gateway.runtime.table import Counts

GAIN: Final = 0.05
"""Share by which other roles must be better for servers to change theirs."""

SWAP: Final = 0.2
"""The same for servers that get a class with limits in place of others."""

SLACK: Final = (0.2, 0.3)
"""Share of the demand with limits that present roles may fall short by more than the best would: the program
is asked for more than there is, and rates of late are noisy. The second holds where answers do keep their
limits."""

DWELL: Final = 60.0
"""Seconds between two changes of roles, except where limits are missed."""

URGENT: Final = 10.0
"""The same where they are."""

KEPT: Final = (0.90, 0.93)
"""Share of the answers that keep their limits between which a plan is as it should be: nine of ten are meant
to, and more than that costs what has no limits."""

FACTORS: Final = (0.75, 1.2)
"""Least and most that limits are multiplied by in a plan, for what the models do not know."""

FULL: Final = 0.9
"""Share of the room on its servers that a class must have taken in the mean for its limits to be planned
looser than they are: answers of servers that are less full do not tell what they hold when they are full."""

ROOM: Final = 0.6
"""Standard deviations above its largest mean batch that a server of a class with limits may have. The class
waits for room, so that the server stays at this batch for as long as many of its requests come."""

LOOK: Final = 15.0
"""Seconds between two looks at how many answers kept their limits."""


@dataclass(slots=True)
class _Margin:
    """How much looser than they are the limits of a class are planned.

    Attributes:
        factor: What they are multiplied by.
        room: Requests that its servers may have under the last plan.
        taken: Shares of that room that it took, since the last look.
    """

    factor: float = 1.0
    room: int = 0
    taken: list[float] = field(default_factory=list)
    _looked: float = -math.inf

    def look(self, one: Wanted, now: float) -> None:
        """Follow how many of its answers keep the limits that it has."""
        if one.kept is None:
            self.taken.clear()
            return
        self.taken.append(one.in_flight / self.room if self.room else 0.0)
        if now - self._looked < LOOK:
            return
        chance = math.sqrt(KEPT[0] * (1.0 - KEPT[0]) / max(1.0, one.answers))
        if one.kept < KEPT[0] - chance:
            self.factor = max(FACTORS[0], self.factor * 0.93)
        elif one.kept > KEPT[1] + chance:
            most = FACTORS[1] if fmean(self.taken) >= FULL else max(1.0, self.factor)
            self.factor = min(most, self.factor * 1.04)
        self._looked = now
        self.taken.clear()


class Planner:
    """Roles of the servers of one target. Has one owner; solving takes tens of milliseconds."""

    def __init__(self) -> None:
        self._role: dict[str, str] = {}
        self._roles = frozenset[str]()
        self._margins: dict[str, _Margin] = defaultdict(_Margin)
        self._changed = -math.inf

    def plan(self, kinds: Sequence[Kind], wanted: Sequence[Wanted], now: float) -> Plan:
        """The plan for now.

        Args:
            kinds: The servers that can take requests.
            wanted: What the classes ask for.
            now: Monotonic seconds.

        Raises:
            ValueError: There is nothing to plan.
        """
        for one in wanted:
            self._margins[one.service].look(one, now)
        program = Program(kinds, wanted, {name: one.factor for name, one in self._margins.items()})
        held = self._held(program)
        roles = frozenset(program.roles)
        known = roles <= self._roles  # a class that comes need not wait
        best = self._next(program, held, now) if known and held is not None else program.solve()
        if held is None or roles != self._roles or best.counts != held:
            self._changed, self._roles = now, roles
            self._assign(program, best.counts)
        return self._as_plan(program, best)

    def follow(self, plan: Plan) -> None:
        """Take over the roles of a plan that another made: servers keep theirs if this one goes on."""
        self._role = {
            backend: service if backend in plan.caps else OPEN
            for service, members in plan.roles.items()
            if service not in plan.sharing
            for backend in members
        }

    def _next(self, program: Program, held: Counts, now: float) -> Solution:
        """The roles as they are, or those to change to.

        A server that gets a class with limits is full of other work at first, so where limits are missed
        servers are added and none is swapped, unless that does not help, as one class has what another one
        needs. For a mere gain they are swapped only where that is worth much more than to give some back.
        """
        present, best, out = program.solve(held), program.solve(), program.without(held)
        limited = [one for one in program.wanted if one.limits.any]
        kept = all(one.kept is not None and one.kept >= KEPT[0] for one in limited)
        missed = bool(out) or present.kept < best.kept - SLACK[kept]
        rested = now - self._changed
        if rested < (URGENT if missed else DWELL):
            return present
        if missed:
            more = program.solve(keeping=held)
            helps = not program.without(more.counts) and more.kept >= best.kept - SLACK[kept]
            return best if not helps and (out or rested >= DWELL) else more
        if any(count > held.get(key, 0) for key, count in best.counts.items() if key[1] != OPEN):
            fewer = program.solve(within=held)
            if best.tokens_per_second <= (1.0 + SWAP) * fewer.tokens_per_second:
                best = fewer
        return best if best.tokens_per_second > (1.0 + GAIN) * present.tokens_per_second else present

    def _held(self, program: Program) -> Counts | None:
        """Servers by role as they are, those of a class that is gone with whatever has no limits.

        None where some have no role that is wanted.
        """
        counts: dict[tuple[int, str], int] = defaultdict(int)
        for at, kind in enumerate(program.kinds):
            for backend in kind.backends:
                if (role := self._role.get(backend)) is None:
                    return None
                if role not in program.roles:
                    role = OPEN
                counts[at, role] += 1
        return dict(counts) if all(role in program.roles for _, role in counts) else None

    def _assign(self, program: Program, counts: Counts) -> None:
        """Give roles to servers; who can keep its own does."""
        roles: dict[str, str] = {}
        for at, kind in enumerate(program.kinds):
            left = {role: counts.get((at, role), 0) for role in program.roles}
            movable = []
            for backend in kind.backends:
                own = self._role.get(backend, OPEN)
                if left.get(own, 0) > 0:
                    left[own] -= 1
                    roles[backend] = own
                else:
                    movable.append(backend)
            free = [role for role, count in left.items() for _ in range(count)]
            roles.update(zip(movable, free, strict=True))
        self._role = roles

    def _as_plan(self, program: Program, solution: Solution) -> Plan:
        with_roles = len(program.roles) > 1
        members: dict[str, set[str]] = {role: set() for role in (*program.roles, OPEN)}
        caps: dict[str, int] = {}
        places: dict[str, tuple[int, str]] = {}
        for at, kind in enumerate(program.kinds):
            for backend in kind.backends:
                role = self._role[backend]
                if role != OPEN and (most := solution.most[at, role]):
                    caps[backend] = math.floor(min(kind.room, most + ROOM * math.sqrt(most)))
                    places[backend] = at, role
                    members[role].add(backend)
                else:  # one that cannot keep the limits any more holds what has none
                    members[OPEN].add(backend)
        limited = {one.service for one in program.wanted if one.limits.any}
        sharing = {name for name in limited if not members[name]}
        for name in sharing:
            usable = program.usable(name, places.values())
            members[name] = {backend for backend, place in places.items() if place in usable}
        for name in limited:
            self._margins[name].room = sum(caps.get(backend, 0) for backend in members[name])
        roles = {
            one.service: frozenset(members[one.service if one.service in limited else OPEN])
            for one in program.wanted
        }
        missed = sum(amount for (_, service, _), amount in solution.flow.items() if service in program.beyond)
        asked = sum(sum(one.rates.values()) for one in program.wanted if one.service in limited)
        return Plan(
            roles=roles if with_roles else {},
            caps=caps,
            shares=_shares(program, solution),
            prices=_prices(program, solution),
            tokens_per_second=solution.tokens_per_second,
            kept=max(0.0, solution.kept - missed / (HEADROOM * asked)) if program.beyond else solution.kept,
            beyond=program.beyond,
            sharing=frozenset(sharing),
            since=self._changed,
        )


def kinds_of(states: Iterable[BackendState], target: str, now: float) -> list[Kind]:
    """The servers of a target that are up at monotonic seconds, alike ones together."""
    kinds: dict[tuple[str, int], Kind] = {}
    for state in states:
        backend, model = state.backend, state.model
        up = state.healthy and state.breaker.until <= now
        if up and backend.target == target and model is not None:
            key = fingerprint(backend), min(backend.max_in_flight, model.max_running)
            alike = kinds.get(key) or Kind((), model, runs(backend), key[1])
            kinds[key] = replace(alike, backends=(*alike.backends, backend.name))
    return list(kinds.values())


def _shares(program: Program, solution: Solution) -> Mapping[tuple[str, str], Mapping[str, float]]:
    flow: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (kind, service, workload), amount in solution.flow.items():
        flow[service, workload][program.kinds[kind].model.fingerprint] += amount
    return {
        key: {name: amount / total for name, amount in parts.items()}
        for key, parts in flow.items()
        if (total := sum(parts.values())) > 0.0
    }


def _prices(program: Program, solution: Solution) -> Mapping[str, float]:
    prices: dict[str, float] = {}
    for kind, price in zip(program.kinds, solution.prices, strict=True):
        prices[kind.model.fingerprint] = max(price, prices.get(kind.model.fingerprint, 0.0))
    return prices
