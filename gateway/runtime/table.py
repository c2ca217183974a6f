"""What can be planned for a fleet: who asks for what, and what each kind of server can hold of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.plan import OPEN, work
from gateway.core.roles import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.plan import Kind, Wanted

    Counts = Mapping[tuple[int, str], int]
    """Servers by (configuration, role)."""

HEADROOM: Final = 1.1
"""Factor on the rate of classes with limits: it moves."""

WIDER: Final = 1.1
"""Steps by which limits are widened until some server can keep them."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Variables of one (configuration, role, class, workload): requests a second by batch size."""

    kind: int
    role: str
    service: int
    workload: int
    columns: NDArray[np.int64]


class Table:
    """One fleet and what is wanted of it.

    Attributes:
        kinds: The servers.
        wanted: What the classes ask for.
        workloads: What they ask for it in.
        roles: Names of the classes with limits, and that of the servers which hold all others.
        most: Largest mean batch by (configuration, role).
        beyond: Classes whose limits no server keeps.
    """

    def __init__(
        self, kinds: Sequence[Kind], wanted: Sequence[Wanted], factors: Mapping[str, float] | None = None
    ) -> None:
        """Tabulate.

        Args:
            kinds: The servers.
            wanted: What the classes ask for; those without requests are left out.
            factors: What limits are multiplied by in the plan, by class; 1 where left out.

        Raises:
            ValueError: There is nothing to plan.
        """
        self.kinds = tuple(kinds)
        self.wanted = tuple(one for one in wanted if sum(one.rates.values()) > 0.0)
        if not self.wanted or not self.kinds:
            raise ValueError("there is nothing to plan: no server or no request")
        self.workloads = tuple(dict.fromkeys(name for one in self.wanted for name in one.rates))
        self.works = [work(kind.model, self.workloads, kind.room) for kind in self.kinds]
        self.rates = np.array([[one.rates.get(name, 0.0) for name in self.workloads] for one in self.wanted])
        limited = [one.service for one in self.wanted if one.limits.any]
        self.roles = tuple(limited) if len(self.wanted) == 1 and limited else (*limited, OPEN)
        self.most: dict[tuple[int, str], int] = {}
        self.beyond = frozenset[str]()
        for role in self.roles:
            factor = (factors or {}).get(role, 1.0)
            found, wider = self._most(role, factor)
            self.most |= {(kind, role): most for kind, most in enumerate(found)}
            if wider * factor >= WIDER:
                self.beyond |= {role}
        self._owed = [role for role in self.roles if role != OPEN and role not in self.beyond]

    def _most(self, role: str, factor: float) -> tuple[list[int], float]:
        """Largest mean batch of each configuration in a role; limits that nobody can keep are widened."""
        if role == OPEN:
            return [int(of.sizes[-1]) for of in self.works], 1.0
        at = next(at for at, one in enumerate(self.wanted) if one.service == role)
        weights = self.rates[at] / self.rates[at].sum()
        limits, wider = self.wanted[at].limits.scaled(factor), 1.0
        while not any(found := [of.most(limits, weights) for of in self.works]):
            limits, wider = limits.scaled(WIDER), wider * WIDER
        return found, wider

    def without(self, counts: Counts) -> frozenset[str]:
        """Classes whose limits can be kept that have none of so many servers by (configuration, role)."""
        kept = [key for key, count in counts.items() if count]
        return frozenset(service for service in self._owed if not self.usable(service, kept))

    def usable(self, service: str, places: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
        """Those of some (configuration, role) whose servers keep the limits of a class, or stricter ones."""
        return {
            (kind, role)
            for kind, role in places
            if role != OPEN and 0 < self.most[kind, role] <= self.most[kind, service]
        }

    def places(self) -> list[tuple[int, str]]:
        """Each (configuration, role), in the order of the variables y."""
        return [(kind, role) for kind in range(len(self.kinds)) for role in self.roles]

    def flows(self, *, shared: bool) -> list[Flow]:
        """All that may flow, numbered after the servers.

        Args:
            shared: No server is kept for classes without limits, so that they get part of the room of others.
        """
        flows: list[Flow] = []
        first = len(self.kinds) * len(self.roles)
        for kind, of in enumerate(self.works):
            for role in self.roles:
                most = self.most[kind, role]
                for service, one in enumerate(self.wanted):
                    if one.limits.any:  # it may use the servers of a stricter class
                        room = most if role != OPEN and most <= self.most[kind, one.service] else 0.0
                    elif role == OPEN:
                        room = most
                    else:
                        room = PART * most if shared else 0.0
                    if bins := int((of.sizes <= room).sum()):
                        for workload in np.flatnonzero(self.rates[service]):
                            columns = np.arange(first, first + bins)
                            flows.append(Flow(kind, role, service, int(workload), columns))
                            first += bins
        return flows

    def demand(self, service: int, workload: int) -> float:
        """Right side of a class' balance: 0 for one without limits, whose rate is free."""
        return HEADROOM * float(self.rates[service, workload]) if self.wanted[service].limits.any else 0.0

    def tokens(self) -> NDArray[np.float64]:
        """Output tokens of a request by workload: they are the target model's, so any server tells."""
        return self.works[0].tokens
