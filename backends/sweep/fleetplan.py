"""Which configurations to run on so many servers: the fluid optimum of measured rates, over splits in two.

A server that holds n requests of workload w gives rate(n, w) tokens a second, as was measured with n clients.
Between measured loads it is interpolated; above them it is taken to grow no more, below them to be in
proportion, both of which are too low rather than too high. So a request takes tokens / rate of its server's
time, and the program of :mod:`backends.fleetsim.fluid` says what a fleet gives at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.fleetsim.fluid import InfeasibleError, Problem, closed
from backends.sweep.choose import candidate
from backends.sweep.model import GREEDY, SHORT, Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from backends.sweep.choose import Choice
    from gateway.policy.evidence import Evidence, Measurement

WORTH_IT: Final = 0.02
"""Gain of a mixture over one configuration below which the one is planned: a router reaches only some."""

MOST_CONTENDERS: Final = 5
"""Configurations for all workloads that are looked at, besides those that win something."""

_SPLITS: Final = 16
_SIZES: Final = 17


@dataclass(frozen=True, slots=True)
class Split:
    """A fleet and what it gives at most.

    Attributes:
        servers: How many of each configuration.
        tokens_per_second: Output at the load that was planned for.
    """

    servers: Mapping[Candidate, int]
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What to run at one load.

    Attributes:
        load: Requests in flight per server.
        chosen: What to run.
        homogeneous: The best fleet of one configuration.
        mixed: The best fleet of two; None where no two contend.
        shares: For the chosen fleet, share of each workload's requests by configuration.
    """

    load: int
    chosen: Split
    homogeneous: Split
    mixed: Split | None
    shares: Mapping[str, Mapping[Candidate, float]]

    @property
    def gain(self) -> float:
        """What the best mixture could give over one configuration; 0.02 for 2 %."""
        if self.mixed is None:
            return 0.0
        return self.mixed.tokens_per_second / self.homogeneous.tokens_per_second - 1.0

    @property
    def is_homogeneous(self) -> bool:
        """Whether one configuration everywhere is the answer."""
        return len(self.chosen.servers) == 1


class Rates:
    """Measured tokens/s by configuration, workload and load."""

    def __init__(self, evidence: Evidence, mix: Mapping[str, float] | None = None) -> None:
        """Take the greedy measurements of short prompts, or of whatever there is.

        Args:
            evidence: All measurements.
            mix: Share of requests by workload; equal if left out.
        """
        greedy = [one for one in evidence.measurements if one.sampling == GREEDY]
        cells = [one for one in greedy if one.prompt == SHORT] or greedy
        self.workloads = tuple(
            name
            for name in dict.fromkeys(one.workload for one in cells)
            if mix is None or mix.get(name, 0.0) > 0.0
        )
        weights = np.array([1.0 if mix is None else mix[name] for name in self.workloads])
        self.share = weights / weights.sum() if len(weights) else weights
        self.tokens = np.array([_tokens(cells, name) for name in self.workloads])
        self.levels = tuple(sorted({one.concurrency for one in cells}))
        self._cells = {
            (candidate(one), one.workload, one.concurrency): one.tokens_per_second.value for one in cells
        }

    def contenders(self) -> list[Candidate]:
        """Configurations that were measured with every workload at some load, the fastest ones first."""
        found: dict[Candidate, float] = {}
        for who in dict.fromkeys(one[0] for one in self._cells):
            losses = [self._loss(who, level) for level in self.levels]
            known = [one for one in losses if one is not None]
            if known:
                found[who] = min(known)
        return sorted(found, key=lambda one: found[one])[:MOST_CONTENDERS]

    def _loss(self, who: Candidate, level: int) -> float | None:
        """Seconds for the mix at a load; None where a workload is missing."""
        rates = [self._cells.get((who, name, level)) for name in self.workloads]
        if not rates or any(one is None for one in rates):
            return None
        work = self.share * self.tokens / np.array(rates, dtype=float)
        fastest = [
            max(rate for (_, name, at), rate in self._cells.items() if (name, at) == (workload, level))
            for workload in self.workloads
        ]
        return float(work.sum() / (self.share * self.tokens / np.array(fastest)).sum())

    def problem(self, fleet: Mapping[Candidate, int]) -> Problem:
        """The program's tables: servers that are alike are one that works so many times as fast.

        Args:
            fleet: How many servers of each configuration.
        """
        sizes = np.unique(np.round(np.geomspace(1, self.levels[-1], _SIZES)))
        time = np.ones((len(fleet), len(sizes), len(self.workloads)))
        stay = np.ones_like(time)
        allowed = np.zeros((len(fleet), len(self.workloads)), dtype=bool)
        for b, (who, number) in enumerate(fleet.items()):
            for w, name in enumerate(self.workloads):
                rate = self._rate(who, name, sizes)
                allowed[b, w] = rate is not None
                if rate is not None:
                    time[b, :, w] = self.tokens[w] / rate / number
                    stay[b, :, w] = self.tokens[w] / rate * sizes
        return Problem(sizes, self.share, time, stay, float(self.share @ self.tokens), allowed)

    def serves_all(self, who: Candidate) -> bool:
        """Whether every workload was measured with it at some load."""
        return all(any((who, name, level) in self._cells for level in self.levels) for name in self.workloads)

    def _rate(self, who: Candidate, workload: str, sizes: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Tokens/s at batch sizes; None where it was not measured at any."""
        known = [(level, rate) for level in self.levels if (rate := self._cells.get((who, workload, level)))]
        if not known:
            return None
        levels, rates = np.log(np.array(known)).T
        below = np.minimum(0.0, np.log(sizes) - levels[0])
        return np.asarray(np.exp(np.interp(np.log(sizes), levels, rates) + below))


def plan_fleet(
    evidence: Evidence, choice: Choice, servers: int, load: int, mix: Mapping[str, float] | None = None
) -> FleetPlan | None:
    """Find the best fleet of one or two configurations.

    Args:
        evidence: All measurements.
        choice: Made from them: what it excludes is not planned with.
        servers: How many there are.
        load: Requests in flight per server; within the measured loads.
        mix: Share of requests by workload; equal if left out.

    Returns:
        The plan; None where no configuration was measured with every workload at every load.
    """
    rates = Rates(evidence, mix)
    out = {one.candidate for one in choice.excluded}
    complete = [one for one in rates.contenders() if one not in out]
    winning = [one.candidate for one in choice.winners if one.workload in rates.workloads]
    contenders = tuple(dict.fromkeys((*complete, *winning)))
    alone = [
        one
        for who in contenders
        if rates.serves_all(who) and (one := _solved(rates, {who: servers}, load)) is not None
    ]
    if not alone:
        return None
    homogeneous = max((split for split, _ in alone), key=lambda one: one.tokens_per_second)
    step = max(1, servers // _SPLITS)
    splits = [
        one
        for first, second in combinations(contenders, 2)
        for number in range(step, servers, step)
        if (one := _solved(rates, {first: number, second: servers - number}, load)) is not None
    ]
    mixed = max((split for split, _ in splits), key=lambda one: one.tokens_per_second, default=None)
    least = 1.0 + max(WORTH_IT, evidence.precision / 2.0)  # errors of the cells partly cancel
    worth = mixed is not None and mixed.tokens_per_second > homogeneous.tokens_per_second * least
    chosen = mixed if worth and mixed is not None else homogeneous
    shares = next(found for split, found in (*alone, *splits) if split is chosen)
    return FleetPlan(load, chosen, homogeneous, mixed, shares)


def _solved(
    rates: Rates, fleet: Mapping[Candidate, int], load: int
) -> tuple[Split, Mapping[str, Mapping[Candidate, float]]] | None:
    try:
        found = closed(rates.problem(fleet), load * sum(fleet.values()))
    except InfeasibleError:
        return None
    shares = {
        name: {who: float(found.flow[b, w] / found.flow[:, w].sum()) for b, who in enumerate(fleet)}
        for w, name in enumerate(rates.workloads)
    }
    return Split(dict(fleet), found.tokens_per_second), shares


def _tokens(cells: Sequence[Measurement], workload: str) -> float:
    """Mean length of the answers to a workload: they are the target's, whatever drafts."""
    known = [
        (one.output_tokens, one.requests) for one in cells if one.workload == workload and one.output_tokens
    ]
    total = sum(number for _, number in known)
    return sum(length * number for length, number in known) / total if total else 1.0
