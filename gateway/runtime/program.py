"""The fluid program: how much of what is wanted a fleet can serve, and which servers it takes (HiGHS)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gateway.core.plan import LEAST, OPEN, Solution, work
from gateway.runtime.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.plan import Kind, Wanted

    Counts = Mapping[tuple[int, str], int]
    """Servers by (configuration, role)."""

HEADROOM: Final = 1.1
"""Factor on the rate of classes with limits: it moves."""

_SHORT: Final = 1e3
"""Price of a token with limits that is not served, in tokens without."""

_SECONDS: Final = 1e-3
"""Price of a second that a request with limits is in the fleet, in tokens: of equal plans, the fastest."""

WIDER: Final = 1.1
"""Steps by which limits are widened until some server can keep them."""

_GAP: Final = 0.005
"""Relative distance to the best plan at which the search ends."""


def load_solver() -> None:
    """Load HiGHS: later that would hold up streams for 20 ms, as much of it keeps the interpreter's lock."""
    import scipy.optimize  # noqa: PLC0415, F401 - only who plans pays for the import


@dataclass(frozen=True, slots=True)
class _Flow:
    """Variables of one (configuration, role, class, workload): requests a second by batch size."""

    kind: int
    role: str
    service: int
    workload: int
    columns: NDArray[np.int64]


class Program:
    """One fleet and what is wanted of it.

    Variables: y, servers by configuration and role; x, requests a second by configuration, role, batch size,
    class and workload; a shortfall for each class with limits; Θ, by which the rates of all classes without
    limits are multiplied.

        Σ T·x ≤ y            the servers of a configuration in a role have so much time
        Σ y = servers        of each configuration
        Σ x = rate·(1 - u)   for a class with limits, in batches that keep them
        Σ x = rate·Θ         for the others
        Σ (n·T + c·s)·x ≤ C  those in flight of the others

    Most tokens without limits are wanted, and before that the least shortfall.
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
        self._work = [work(kind.model, self.workloads, kind.room) for kind in self.kinds]
        self._rates = np.array([[one.rates.get(name, 0.0) for name in self.workloads] for one in self.wanted])
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
            return [int(of.sizes[-1]) for of in self._work], 1.0
        at = next(at for at, one in enumerate(self.wanted) if one.service == role)
        weights = self._rates[at] / self._rates[at].sum()
        limits, wider = self.wanted[at].limits.scaled(factor), 1.0
        while not any(found := [of.most(limits, weights) for of in self._work]):
            limits, wider = limits.scaled(WIDER), wider * WIDER
        return found, wider

    def solve(
        self, counts: Counts | None = None, *, keeping: Counts | None = None, within: Counts | None = None
    ) -> Solution:
        """Find the best roles, or what given ones are worth.

        Args:
            counts: Servers by (configuration, role); None to choose them.
            keeping: Servers of classes with limits that keep their roles where they are chosen.
            within: Servers that classes with limits may have at most.

        Raises:
            ValueError: The program has no solution, as the counts are not those of the servers.
        """
        if counts is None and len(self.roles) > 1:
            counts = self._chosen(keeping or {}, within)
            if self.without(counts):
                with suppress(ValueError):  # what must be kept may leave no room for all
                    counts = self._chosen(keeping or {}, within, for_all=True)
        elif counts is None:
            counts = {(at, self.roles[0]): len(kind.backends) for at, kind in enumerate(self.kinds)}
        found, flows = self._run(counts, {})
        return self._read(found, flows, counts)

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

    def _chosen(self, keeping: Counts, within: Counts | None, *, for_all: bool = False) -> Counts:
        found, _ = self._run(None, keeping, within, for_all=for_all)
        return {key: round(float(found.x[at])) for at, key in enumerate(self._places())}

    def _places(self) -> list[tuple[int, str]]:
        """Each (configuration, role), in the order of the variables y."""
        return [(kind, role) for kind in range(len(self.kinds)) for role in self.roles]

    def _flows(self) -> list[_Flow]:
        """All that may flow, numbered after the servers."""
        flows: list[_Flow] = []
        first = len(self.kinds) * len(self.roles)
        for kind, of in enumerate(self._work):
            for role in self.roles:
                bins = int((of.sizes <= self.most[kind, role]).sum())
                for service, one in enumerate(self.wanted):
                    strict = one.limits.any and (
                        role == OPEN or self.most[kind, role] > self.most[kind, one.service]
                    )
                    for workload in np.flatnonzero(self._rates[service]):
                        if bins and not strict:
                            columns = np.arange(first, first + bins)
                            flows.append(_Flow(kind, role, service, int(workload), columns))
                            first += bins
        return flows

    def _run(
        self, counts: Counts | None, keeping: Counts, within: Counts | None = None, *, for_all: bool = False
    ) -> tuple[Any, list[_Flow]]:
        from scipy.optimize import linprog  # noqa: PLC0415 - only who plans pays for the import

        flows, places = self._flows(), len(self.kinds) * len(self.roles)
        extra = (int(flows[-1].columns[-1]) if flows else places - 1) + 1
        theta = extra + len(self.wanted)
        width = theta + 1
        cost, upper, equal = np.zeros(width), Rows(), Rows()
        bounds = np.tile([0.0, np.inf], (width, 1))
        bounds[extra:theta, 1] = 1.0
        self._servers(upper, equal, bounds, counts)
        if counts is None:
            self._bound(bounds, keeping, within)
        if for_all:
            self._at_least_one(upper)
        self._balance(flows, extra, (cost, upper, equal))
        integral = np.zeros(width)
        integral[:places] = counts is None
        found = linprog(
            cost,
            A_ub=upper.matrix(width),
            b_ub=upper.bounds,
            A_eq=equal.matrix(width),
            b_eq=equal.bounds,
            bounds=bounds,
            method="highs",
            integrality=integral if counts is None else None,
            options={"mip_rel_gap": _GAP} if counts is None else {},
        )
        if not found.success:
            raise ValueError(f"the program has no solution: {found.message}")
        return found, flows

    def _servers(
        self,
        upper: Rows,
        equal: Rows,
        bounds: NDArray[np.float64],
        counts: Counts | None,
    ) -> None:
        """Every server has one role; how long it works in it is the row of that role."""
        for kind, of in enumerate(self.kinds):
            total = equal.new(len(of.backends))
            for place, role in enumerate(self.roles):
                column = kind * len(self.roles) + place
                upper.one(upper.new(0.0), column, -1.0)
                equal.one(total, column, 1.0)
                if counts is not None:
                    bounds[column] = counts.get((kind, role), 0)

    def _bound(self, bounds: NDArray[np.float64], keeping: Counts, within: Counts | None) -> None:
        """Classes with limits have so many servers at least and at most, and none that cannot keep them."""
        for column, key in enumerate(self._places()):
            if key[1] == OPEN:
                continue
            if not self.most[key]:
                bounds[column, 1] = 0.0
                continue
            bounds[column, 0] = keeping.get(key, 0)
            if within is not None:
                bounds[column, 1] = within.get(key, 0)

    def _at_least_one(self, upper: Rows) -> None:
        """Each class with limits has a server that keeps them, however little it asks for."""
        places = self._places()
        for service in self._owed:
            row, usable = upper.new(-1.0), self.usable(service, places)
            for column, key in enumerate(places):
                if key in usable:
                    upper.one(row, column, -1.0)

    def _balance(self, flows: list[_Flow], extra: int, into: tuple[NDArray[np.float64], Rows, Rows]) -> None:
        """What is wanted is served or falls short, and takes its time; ``extra`` is the first shortfall."""
        cost, upper, equal = into
        theta = extra + len(self.wanted)
        served = {
            (service, int(workload)): equal.new(self._demand(service, int(workload)))
            for service in range(len(self.wanted))
            for workload in np.flatnonzero(self._rates[service])
        }
        open_ = [one for one in self.wanted if not one.limits.any]
        in_flight = sum(one.in_flight for one in open_)
        crowd = upper.new(max(LEAST, in_flight))
        for flow in flows:
            of, one = self._work[flow.kind], self.wanted[flow.service]
            bins = slice(0, len(flow.columns))
            row = flow.kind * len(self.roles) + self.roles.index(flow.role)
            upper.put(row, flow.columns, of.time[bins, flow.workload])
            equal.put(served[flow.service, flow.workload], flow.columns, np.ones(len(flow.columns)))
            if one.limits.any:
                cost[flow.columns] = _SECONDS * of.stay[bins, flow.workload]
            else:
                upper.put(crowd, flow.columns, of.stay[bins, flow.workload])
        tokens = self._tokens()
        for (service, workload), row in served.items():
            if self.wanted[service].limits.any:
                equal.one(row, extra + service, self._demand(service, workload))
                cost[extra + service] += _SHORT * self._demand(service, workload) * tokens[workload]
            else:
                equal.one(row, theta, -self._rates[service, workload])
                cost[theta] -= self._rates[service, workload] * tokens[workload]

    def _demand(self, service: int, workload: int) -> float:
        """Right side of a class' balance: 0 for one without limits, whose rate is free."""
        return HEADROOM * float(self._rates[service, workload]) if self.wanted[service].limits.any else 0.0

    def _tokens(self) -> NDArray[np.float64]:
        """Output tokens of a request by workload: they are the target model's, so any server tells."""
        return self._work[0].tokens

    def _read(self, found: Any, flows: list[_Flow], counts: Counts) -> Solution:  # noqa: ANN401 - scipy's result
        flow: dict[tuple[int, str, str], float] = {}
        seconds = requests = open_tokens = all_tokens = 0.0
        for one in flows:
            x = np.maximum(0.0, found.x[one.columns])
            amount = float(x.sum())
            key = (one.kind, self.wanted[one.service].service, self.workloads[one.workload])
            flow[key] = flow.get(key, 0.0) + amount
            requests += amount
            seconds += float((x * self._work[one.kind].stay[: len(x), one.workload]).sum())
            all_tokens += amount * self._tokens()[one.workload]
            if not self.wanted[one.service].limits.any:
                open_tokens += amount * self._tokens()[one.workload]
        wanted = sum(
            self._demand(service, workload)
            for service, one in enumerate(self.wanted)
            if one.limits.any
            for workload in range(len(self.workloads))
        )
        limited = {one.service for one in self.wanted if one.limits.any}
        kept = sum(amount for (_, service, _), amount in flow.items() if service in limited)
        marginals = -np.asarray(found.ineqlin.marginals)
        prices = marginals[: len(self.kinds) * len(self.roles)].reshape(len(self.kinds), -1).max(axis=1)
        return Solution(
            counts=dict(counts),
            most=self.most,
            flow=flow,
            prices=tuple(prices.tolist()),
            tokens_per_second=float(open_tokens if len(limited) < len(self.wanted) else all_tokens),
            kept=kept / wanted if wanted else 1.0,
            seconds=seconds / requests if requests else 0.0,
        )
