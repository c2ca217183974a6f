"""Which configurations to run on so many servers: the fluid optimum of what was measured, over splits in two.

What a request takes of a server's time, in its batch and with its prompt, is fitted to all cells of a
configuration (:mod:`gateway.policy.pace`): workloads that were measured one by one share a server here. The
program of :mod:`backends.fleetsim.fluid` says what a fleet gives at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from backends.fleetsim.fluid import PREFILL_STEPS, InfeasibleError, Problem, closed
from backends.sweep.mix import candidate
from backends.sweep.model import GREEDY, SHORT, Candidate
from gateway.policy.pace import fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.sweep.choose import Choice
    from gateway.policy.evidence import Evidence, Measurement

WORTH_IT: Final = 0.02
"""Gain of a mixture over one configuration below which the one is planned: a router reaches only some."""

MOST_CONTENDERS: Final = 5
"""Configurations for all workloads that are mixed, besides those that win something."""

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


class Paces:
    """What measured configurations do with a mix of workloads."""

    def __init__(self, evidence: Evidence, mix: Mapping[str, float] | None = None) -> None:
        """Fit the greedy measurements of short prompts, or of whatever there is.

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
        self.tokens = np.array([_mean(cells, name, "output_tokens") or 1.0 for name in self.workloads])
        self.prompts = np.array([_mean(cells, name, "prompt_tokens") for name in self.workloads])
        self.most = max((one.concurrency for one in cells), default=1)
        found = {who: fit([one for one in cells if candidate(one) == who]) for who in map(candidate, cells)}
        self.known = {who: pace for who, pace in found.items() if pace is not None}

    def serves_all(self, who: Candidate) -> bool:
        """Whether every workload was measured with it at some load."""
        return all(name in self.known[who].steps for name in self.workloads)

    def problem(self, fleet: Mapping[Candidate, int]) -> Problem:
        """The program's tables: servers that are alike are one that works so many times as fast.

        Args:
            fleet: How many servers of each configuration.
        """
        sizes = np.unique(np.round(np.geomspace(1, self.most, _SIZES)))
        time = np.ones((len(fleet), len(sizes), len(self.workloads)))
        stay = np.ones_like(time)
        allowed = np.zeros((len(fleet), len(self.workloads)), dtype=bool)
        for b, (who, number) in enumerate(fleet.items()):
            pace = self.known[who]
            step = pace.seconds(sizes)
            for w, name in enumerate(self.workloads):
                if name in pace.steps:
                    one = self.tokens[w] * pace.steps[name] * step / sizes + pace.prefill * self.prompts[w]
                    allowed[b, w], time[b, :, w] = True, one / number
                    stay[b, :, w] = one * sizes + PREFILL_STEPS * step
        return Problem(sizes, self.share, time, stay, float(self.share @ self.tokens), allowed)


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
        The plan; None where no configuration was measured with every workload.
    """
    paces = Paces(evidence, mix)
    out = {one.candidate for one in choice.excluded}
    alone = sorted(
        (
            one
            for who in paces.known
            if who not in out and paces.serves_all(who)
            if (one := _solved(paces, {who: servers}, load)) is not None
        ),
        key=lambda one: -one[0].tokens_per_second,
    )
    if not alone:
        return None
    homogeneous, _ = alone[0]
    fastest = [who for split, _ in alone[:MOST_CONTENDERS] for who in split.servers]
    winning = [one.candidate for one in choice.winners if one.workload in paces.workloads]
    contenders = tuple(dict.fromkeys((*fastest, *winning)))
    step = max(1, servers // _SPLITS)
    splits = [
        one
        for first, second in combinations(contenders, 2)
        for number in range(step, servers, step)
        if (one := _solved(paces, {first: number, second: servers - number}, load)) is not None
    ]
    mixed = max((split for split, _ in splits), key=lambda one: one.tokens_per_second, default=None)
    least = 1.0 + max(WORTH_IT, evidence.precision / 2.0)  # errors of the cells partly cancel
    worth = mixed is not None and mixed.tokens_per_second > homogeneous.tokens_per_second * least
    chosen = mixed if worth and mixed is not None else homogeneous
    shares = next(found for split, found in (*alone, *splits) if split is chosen)
    return FleetPlan(load, chosen, homogeneous, mixed, shares)


def _solved(
    paces: Paces, fleet: Mapping[Candidate, int], load: int
) -> tuple[Split, Mapping[str, Mapping[Candidate, float]]] | None:
    try:
        found = closed(paces.problem(fleet), load * sum(fleet.values()))
    except InfeasibleError:
        return None
    shares = {
        name: {who: float(found.flow[b, w] / found.flow[:, w].sum()) for b, who in enumerate(fleet)}
        for w, name in enumerate(paces.workloads)
    }
    return Split(dict(fleet), found.tokens_per_second), shares


def _mean(cells: Sequence[Measurement], workload: str, length: str) -> float:
    """Mean length of the prompts of a workload, or of the answers: they are the target's, whatever drafts."""
    known = [
        (value, one.requests) for one in cells if one.workload == workload and (value := getattr(one, length))
    ]
    total = sum(number for _, number in known)
    return sum(value * number for value, number in known) / total if total else 0.0
