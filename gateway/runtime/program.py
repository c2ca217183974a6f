"""The fluid program: how much of what is wanted a fleet can serve, and which servers it takes (HiGHS)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gateway.core.plan import LEAST, OPEN, Solution
from gateway.runtime.rows import Rows
from gateway.runtime.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gateway.runtime.table import Counts, Flow

_SHORT: Final = 1e3
"""Price of a token with limits that is not served, in tokens without."""

_SECONDS: Final = 1e-3
"""Price of a second that a request with limits is in the fleet, in tokens: of equal plans, the fastest."""

_GAP: Final = 0.005
"""Relative distance to the best plan at which the search ends."""


def load_solver() -> None:
    """Load HiGHS: later that would hold up streams for 20 ms, as much of it keeps the interpreter's lock."""
    import scipy.optimize  # noqa: PLC0415, F401 - only who plans pays for the import


class Program(Table):
    """One fleet and what is wanted of it.

    Variables: y, servers by configuration and role; x, requests a second by configuration, role, batch size,
    class and workload; a shortfall for each class with limits; Θ, by which the rates of all classes without
    limits are multiplied.

        Σ T·x ≤ y            the servers of a configuration in a role have so much time
        Σ y = servers        of each configuration
        Σ x = rate·(1 - u)   for a class with limits, in batches that keep them
        Σ x = rate·Θ         for the others
        Σ (n·T + c·s)·x ≤ C  those in flight of the others

    Most tokens without limits are wanted, and before that the least shortfall. Classes without limits flow
    through servers that are kept for them, or where there are none through part of the room of others.
    """

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
        if counts is not None:
            return self._worth(counts)[1]
        if len(self.roles) == 1:
            return self._worth({(at, self.roles[0]): len(one.backends) for at, one in enumerate(self.kinds)})[
                1
            ]
        cost, best = self._worth(self._chosen(keeping or {}, within))
        if not all(one.limits.any for one in self.wanted):
            with suppress(ValueError):  # not where some server keeps nobody's limits
                less, other = self._worth(self._chosen(keeping or {}, within, shared=True))
                best = other if less < cost else best
        return best

    def _worth(self, counts: Counts) -> tuple[float, Solution]:
        """What roles cost, and what they are worth."""
        shared = not any(count for (_, role), count in counts.items() if role == OPEN)
        found, flows = self._run(counts, shared=shared)
        return float(found.fun), self._read(found, flows, counts)

    def _chosen(self, keeping: Counts, within: Counts | None, *, shared: bool = False) -> Counts:
        """The best roles with servers for classes without limits, or with none for those."""
        found, _ = self._run(None, keeping, within, shared=shared)
        if self.without(self._counts(found)):
            with suppress(ValueError):  # what must be kept may leave no room for all
                found, _ = self._run(None, keeping, within, shared=shared, for_all=True)
        return self._counts(found)

    def _counts(self, found: Any) -> Counts:  # noqa: ANN401 - scipy's result
        return {key: round(float(found.x[at])) for at, key in enumerate(self.places())}

    def _run(
        self,
        counts: Counts | None,
        keeping: Counts | None = None,
        within: Counts | None = None,
        *,
        shared: bool,
        for_all: bool = False,
    ) -> tuple[Any, list[Flow]]:
        from scipy.optimize import linprog  # noqa: PLC0415 - only who plans pays for the import

        flows, places = self.flows(shared=shared), len(self.kinds) * len(self.roles)
        extra = (int(flows[-1].columns[-1]) if flows else places - 1) + 1
        theta = extra + len(self.wanted)
        width = theta + 1
        cost, upper, equal = np.zeros(width), Rows(), Rows()
        bounds = np.tile([0.0, np.inf], (width, 1))
        bounds[extra:theta, 1] = 1.0
        self._servers(upper, equal, bounds, counts)
        if counts is None:
            self._bound(bounds, keeping or {}, within, shared=shared)
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

    def _bound(
        self, bounds: NDArray[np.float64], keeping: Counts, within: Counts | None, *, shared: bool
    ) -> None:
        """Classes with limits have so many servers at least and at most, and none that cannot keep them."""
        for column, key in enumerate(self.places()):
            if key[1] == OPEN:
                bounds[column, 1] = 0.0 if shared else np.inf
            elif not self.most[key]:
                bounds[column, 1] = 0.0
            else:
                bounds[column, 0] = keeping.get(key, 0)
                if within is not None:
                    bounds[column, 1] = within.get(key, 0)

    def _at_least_one(self, upper: Rows) -> None:
        """Each class with limits has a server that keeps them, however little it asks for."""
        places = self.places()
        for service in self._owed:
            row, usable = upper.new(-1.0), self.usable(service, places)
            for column, key in enumerate(places):
                if key in usable:
                    upper.one(row, column, -1.0)

    def _balance(self, flows: list[Flow], extra: int, into: tuple[NDArray[np.float64], Rows, Rows]) -> None:
        """What is wanted is served or falls short, and takes its time; ``extra`` is the first shortfall."""
        cost, upper, equal = into
        theta = extra + len(self.wanted)
        served = {
            (service, int(workload)): equal.new(self.demand(service, int(workload)))
            for service in range(len(self.wanted))
            for workload in np.flatnonzero(self.rates[service])
        }
        open_ = [one for one in self.wanted if not one.limits.any]
        in_flight = sum(one.in_flight for one in open_)
        crowd = upper.new(max(LEAST, in_flight))
        for flow in flows:
            of, one = self.works[flow.kind], self.wanted[flow.service]
            bins = slice(0, len(flow.columns))
            row = flow.kind * len(self.roles) + self.roles.index(flow.role)
            upper.put(row, flow.columns, of.time[bins, flow.workload])
            equal.put(served[flow.service, flow.workload], flow.columns, np.ones(len(flow.columns)))
            if one.limits.any:
                cost[flow.columns] = _SECONDS * of.stay[bins, flow.workload]
            else:
                upper.put(crowd, flow.columns, of.stay[bins, flow.workload])
        tokens = self.tokens()
        for (service, workload), row in served.items():
            if self.wanted[service].limits.any:
                equal.one(row, extra + service, self.demand(service, workload))
                cost[extra + service] += _SHORT * self.demand(service, workload) * tokens[workload]
            else:
                equal.one(row, theta, -self.rates[service, workload])
                cost[theta] -= self.rates[service, workload] * tokens[workload]

    def _read(self, found: Any, flows: list[Flow], counts: Counts) -> Solution:  # noqa: ANN401 - scipy's result
        flow: dict[tuple[int, str, str], float] = {}
        seconds = requests = open_tokens = all_tokens = 0.0
        for one in flows:
            x = np.maximum(0.0, found.x[one.columns])
            amount = float(x.sum())
            key = (one.kind, self.wanted[one.service].service, self.workloads[one.workload])
            flow[key] = flow.get(key, 0.0) + amount
            requests += amount
            seconds += float((x * self.works[one.kind].stay[: len(x), one.workload]).sum())
            all_tokens += amount * self.tokens()[one.workload]
            if not self.wanted[one.service].limits.any:
                open_tokens += amount * self.tokens()[one.workload]
        wanted = sum(
            self.demand(service, workload)
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
