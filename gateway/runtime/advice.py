"""What a fleet gains by being routed, and what another fleet of the same size would give (HiGHS)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.plan import LEAST, work
from gateway.core.standing import step_spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
        error: Half the width of the 95 % interval of the gain, as acceptance and step times are unsure.
    """

    servers: Mapping[str, int]
    tokens_per_second: float
    gain: float
    error: float

    def words(self, names: Mapping[str, str]) -> str:
        """In words, with other names for some fingerprints."""
        named = " and ".join(f"{count} x {names.get(one, one)}" for one, count in self.servers.items())
        return f"{named}: {self.gain:+.1%} (± {self.error:.1%})"

    def __str__(self) -> str:
        return self.words({})


@dataclass(frozen=True, slots=True)
class Advice:
    """What is to be said of a fleet, from what was learnt of it and what is asked of it.

    Attributes:
        tokens_per_second: What it could give at most as it is.
        routing: What telling workloads apart adds to spreading load alone, as configurations differ: a gain.
        options: What one kind of servers runs on all of them, best first.
    """

    tokens_per_second: float
    routing: float
    options: tuple[Option, ...]

    @property
    def consolidate(self) -> Option | None:
        """The fleet of one configuration that is better than this one by more than predictions err."""
        best = self.options[0] if self.options else None
        return best if best is not None and best.gain > max(WORTH, best.error) else None

    def words(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """In sentences, with other names for some fingerprints."""
        if self.routing >= WORTH:
            first = f"routing by workload pays {self.routing:+.1%} over spreading load alone"
        elif len(self.options) < 2:
            first = "all servers run the same: routing by workload does not pay here"
        else:
            first = f"routing by workload does not pay here ({self.routing:+.1%} over spreading load alone)"
        best = self.consolidate
        return (first,) if best is None else (first, f"consolidate on {best.words(names)}")

    def __str__(self) -> str:
        return "; ".join(self.words({}))


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
    counts = [len(kind.backends) for kind in kinds]
    total = sum(counts)
    if not total:
        raise ValueError("there is nothing to advise on: no server")
    alike = defaultdict[str, list[int]](list)
    for at, kind in enumerate(kinds):
        alike[kind.configuration].append(at)
    models = _pooled(kinds, alike.values())
    own = _solve(models, demand, counts)
    alone = _solve(models, demand.blended(), counts)
    # Told apart, requests of one workload have batches of their own, which the program takes for a gain on
    # servers that are all alike, too.
    batches = 0.0
    options = []
    for places in alike.values():
        of, servers = [models[at] for at in places], sum(counts[at] for at in places)
        spread = [counts[at] * total / servers for at in places]
        other = _solve(of, demand, spread)
        batches += servers / total * other.tokens / _solve(of, demand.blended(), spread).tokens
        gain = other.tokens / own.tokens - 1.0
        error = _error(own, other, places, models, demand)
        options.append(Option({of[0].fingerprint: total}, other.tokens, gain, error))
    options.sort(key=lambda one: -one.gain)
    return Advice(own.tokens, max(0.0, own.tokens / alone.tokens / batches - 1.0), tuple(options))


def _pooled(kinds: Sequence[Kind], alike: Iterable[Sequence[int]]) -> list[ServerModel]:
    """What is known of the kinds, where those that run the same accept the same: the mean, by evidence."""
    models = [kind.model for kind in kinds]
    for places in alike:
        if len(places) == 1:
            continue
        of = [models[at] for at in places]
        cells = {cell for one in of for cell in one.steps_per_token}
        accepted = {
            cell: float(
                np.average(
                    [one.steps_per_token.get(cell, one.other_steps_per_token) for one in of],
                    weights=[1.0 + one.evidence.get(cell.workload, 0.0) for one in of],
                )
            )
            for cell in cells
        }
        other = float(np.mean([one.other_steps_per_token for one in of]))
        for at in places:
            models[at] = replace(models[at], steps_per_token=accepted, other_steps_per_token=other)
    return models


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
    error = _error(blend, single[best], [best], models, demand)
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


def _error(
    own: _Found, other: _Found, places: Sequence[int], models: Sequence[ServerModel], demand: _Demand
) -> float:
    """Half the width of the 95 % interval of the logarithm of one output over another's.

    Acceptance of each (configuration, workload) errs by itself, and counts for as much of an output as the
    servers' time that decodes by it; step times of each configuration do, and count for its share of the
    servers. What counts for both outputs is no difference.

    Args:
        own: Of all the models.
        other: Of some of them alone.
        places: Those.
        models: The configurations.
        demand: What is asked for.
    """
    counts = -own.decoding
    counts[list(places)] += other.decoding
    unsure = [[one.spread.get(name, one.other_spread) for name in demand.workloads] for one in models]
    servers = -own.servers / own.servers.sum()
    servers[list(places)] += other.servers / other.servers.sum()
    steps = [step_spread(one.measured) for one in models]
    return _SIGMAS * float(
        np.hypot(np.linalg.norm(counts * np.array(unsure)), np.linalg.norm(servers * np.array(steps)))
    )


def _solve(
    models: Sequence[ServerModel], demand: _Demand, counts: Sequence[float] | None, servers: int = 0
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
