"""What a fleet gains by being routed, and what another fleet of the same size would give (HiGHS)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.plan import LEAST, work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gateway.core.plan import Kind, Wanted
    from gateway.core.predict import ServerModel

WORTH: Final = 0.02
"""Gain below which something is said not to pay: predictions are no better than that."""

BLEND: Final = 0.03
"""Gain that a blend of configurations must promise over one: routing reaches a little less of what a blend
could give than of what one configuration gives."""

_SIGMAS: Final = 1.96
_USED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Option:
    """Another fleet of the same size.

    Attributes:
        servers: Servers by fingerprint of their configuration.
        tokens_per_second: What it could give of the same requests.
        gain: That over what the fleet as it is could give, less 1.
        error: Half the width of the 95 % interval of the gain, as far as acceptance is unsure.
    """

    servers: Mapping[str, int]
    tokens_per_second: float
    gain: float
    error: float

    def __str__(self) -> str:
        named = " and ".join(f"{count} x {name}" for name, count in self.servers.items())
        return f"{named}: {self.gain:+.1%} (± {self.error:.1%})"


@dataclass(frozen=True, slots=True)
class Advice:
    """What is to be said of a fleet, from what was learnt of it and what is asked of it.

    Attributes:
        tokens_per_second: What it could give at most as it is.
        routing: What telling workloads apart adds to spreading load alone: a gain.
        options: One configuration on all servers, best first.
    """

    tokens_per_second: float
    routing: float
    options: tuple[Option, ...]

    @property
    def consolidate(self) -> Option | None:
        """The fleet of one configuration that is better than this one by more than predictions err."""
        best = self.options[0] if self.options else None
        return best if best is not None and best.gain > max(WORTH, best.error) else None

    def __str__(self) -> str:
        if len(self.options) < 2:
            first = "all servers are alike: routing by workload does not pay here"
        elif self.routing < WORTH:
            first = f"routing by workload does not pay here ({self.routing:+.1%} over spreading load alone)"
        else:
            first = f"routing by workload pays {self.routing:+.1%} over spreading load alone"
        best = self.consolidate
        return first if best is None else f"{first}; consolidate on {best}"


def advise(kinds: Sequence[Kind], wanted: Sequence[Wanted]) -> Advice:
    """Compare a fleet with fleets of one of its configurations, at the present load.

    Classes and their limits are left out of account: all requests count alike.

    Args:
        kinds: The servers that can take requests.
        wanted: What the classes ask for.

    Raises:
        ValueError: There is no server or no request.
    """
    demand = _Demand.of(wanted)
    models = [kind.model for kind in kinds]
    counts = [len(kind.backends) for kind in kinds]
    if not sum(counts):
        raise ValueError("there is nothing to advise on: no server")
    own = _solve(models, demand, counts)
    alone = _solve(models, demand.blended(), counts)
    options = []
    for at, model in enumerate(models):
        other = _solve([model], demand, [sum(counts)])
        gain = other.tokens / own.tokens - 1.0
        error = _error(own, other, at, models, demand)
        options.append(Option({model.fingerprint: sum(counts)}, other.tokens, gain, error))
    options.sort(key=lambda one: -one.gain)
    return Advice(own.tokens, max(0.0, own.tokens / alone.tokens - 1.0), tuple(options))


def compose(models: Sequence[ServerModel], servers: int, wanted: Sequence[Wanted]) -> Option:
    """The fleet of so many servers that gives most, of configurations that are known.

    One configuration is preferred; a blend must promise more by :data:`BLEND`.

    Args:
        models: One of each configuration.
        servers: How many servers there will be.
        wanted: What is asked for.

    Returns:
        The fleet; its gain is over the best one configuration.

    Raises:
        ValueError: There is no configuration or no request.
    """
    demand = _Demand.of(wanted)
    if not models or servers < 1:
        raise ValueError("there is nothing to compose: give a configuration and a server at least")
    single = [_solve([model], demand, [servers]) for model in models]
    best = max(range(len(models)), key=lambda at: single[at].tokens)
    blend = _solve(models, demand, None, servers)
    gain = blend.tokens / single[best].tokens - 1.0
    if gain < BLEND:
        return Option({models[best].fingerprint: servers}, single[best].tokens, 0.0, 0.0)
    parts = {
        model.fingerprint: round(count)
        for model, count in zip(models, blend.servers, strict=True)
        if count > _USED
    }
    error = _error(blend, single[best], best, models, demand)
    return Option(parts, blend.tokens, gain, error)


@dataclass(frozen=True, slots=True)
class _Demand:
    """Requests by workload, and how many are under way.

    Attributes:
        mixes: Share of each workload in what is told apart: one row a kind of request, adding up to its share
            of all.
    """

    workloads: tuple[str, ...]
    mixes: NDArray[np.float64]
    in_flight: float

    @classmethod
    def of(cls, wanted: Sequence[Wanted]) -> _Demand:
        rates: Counter[str] = Counter()
        for one in wanted:
            rates.update({name: rate for name, rate in one.rates.items() if rate > 0.0})
        if not rates:
            raise ValueError("there is nothing to advise on: no request")
        total = sum(rates.values())
        mixes = np.diag([rate / total for rate in rates.values()])
        return cls(tuple(rates), mixes, sum(one.in_flight for one in wanted))

    def blended(self) -> _Demand:
        """The same where nobody tells workloads apart: every server gets the whole mix."""
        return _Demand(self.workloads, self.mixes.sum(axis=0, keepdims=True), self.in_flight)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the program says.

    Attributes:
        tokens: Output tokens a second.
        decoding: Share of the servers' time by (model, kind of request) that decodes it.
        servers: By model.
    """

    tokens: float
    decoding: NDArray[np.float64]
    servers: NDArray[np.float64]


def _error(own: _Found, other: _Found, at: int, models: Sequence[ServerModel], demand: _Demand) -> float:
    """Half the width of the 95 % interval of the logarithm of one output over another's.

    Acceptance of each (configuration, workload) errs by itself, and counts for as much of an output as the
    servers' time that decodes by it; what it counts for in both outputs is no difference.

    Args:
        own: Of all the models.
        other: Of one of them alone.
        at: Its place.
        models: The configurations.
        demand: What is asked for.
    """
    counts = -own.decoding
    counts[at] += other.decoding[0]
    unsure = [[one.spread.get(name, one.other_spread) for name in demand.workloads] for one in models]
    return _SIGMAS * float(np.linalg.norm(counts * np.array(unsure)))


def _solve(
    models: Sequence[ServerModel], demand: _Demand, counts: Sequence[int] | None, servers: int = 0
) -> _Found:
    """Most requests a second; ``counts`` by model, or None to choose them among ``servers``.

    Variables: x, requests a second by (model, batch size, kind of request); servers by model; their sum Θ.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - only who asks for advice pays for the import
    from scipy.sparse import lil_matrix  # noqa: PLC0415 - same

    works = [work(model, demand.workloads) for model in models]
    shares = demand.mixes.sum(axis=1)
    within = demand.mixes / shares[:, None]
    times = [of.time @ within.T for of in works]
    stays = [of.stay @ within.T for of in works]
    sizes = [time.size for time in times]
    first = np.concatenate([[0], np.cumsum(sizes)])
    count, kinds = int(first[-1]), len(shares)
    theta = count + len(models)
    upper = lil_matrix((len(models) + 1, theta + 1))
    equal = lil_matrix((kinds + 1, theta + 1))
    for at, (time, stay) in enumerate(zip(times, stays, strict=True)):
        columns = range(first[at], first[at + 1])
        upper[at, columns] = time.ravel()
        upper[at, count + at] = -1.0
        upper[len(models), columns] = stay.ravel()
        for kind in range(kinds):
            equal[kind, range(first[at] + kind, first[at + 1], kinds)] = 1.0
    equal[:kinds, theta] = -shares[:, None]
    equal[kinds, range(count, theta)] = 1.0
    bounds = np.tile([0.0, np.inf], (theta + 1, 1))
    if counts is not None:
        bounds[count:theta] = np.array(counts, dtype=float)[:, None]
    integral = np.zeros(theta + 1)
    integral[count:theta] = counts is None
    cost = np.zeros(theta + 1)
    cost[theta] = -1.0
    found = linprog(
        cost,
        A_ub=upper.tocsr(),
        b_ub=[*np.zeros(len(models)), max(LEAST, demand.in_flight)],
        A_eq=equal.tocsr(),
        b_eq=[*np.zeros(kinds), float(sum(counts) if counts is not None else servers)],
        bounds=bounds,
        method="highs",
        integrality=None if counts is not None else integral,
        options={} if counts is not None else {"mip_rel_gap": 0.002},
    )
    if not found.success:
        raise ValueError(f"the program has no solution: {found.message}")
    decoding = np.array(
        [
            (found.x[first[at] : first[at + 1]].reshape(-1, kinds) * (of.decode @ within.T)).sum(axis=0)
            for at, of in enumerate(works)
        ]
    )
    tokens = float(found.x[theta]) * float(demand.mixes.sum(axis=0) @ works[0].tokens)
    return _Found(tokens, decoding / found.x[count:theta].sum(), found.x[count:theta])
