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
from backends.sweep.mix import candidate, shares, work
from gateway.policy.pace import fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backends.sweep.choose import Choice
    from backends.sweep.model import Candidate, Work
    from gateway.policy.evidence import Evidence, Measurement
    from gateway.policy.pace import Pace

WORTH_IT: Final = 0.01
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
    """What measured configurations do with a mix of work."""

    def __init__(self, cells: Sequence[Measurement], mix: Mapping[str, float] | None = None) -> None:
        """Fit measurements, prompts of each length and each sampling by themselves: steps differ with both.

        Args:
            cells: Those that count.
            mix: Shares of requests, as :func:`backends.sweep.mix.shares` has them.
        """
        of = shares(map(work, cells), mix)
        self.works = tuple(of)
        self.share = np.array(list(of.values()))
        self.tokens = np.array([_mean(cells, one, "output_tokens") or 1.0 for one in self.works])
        self.prompts = np.array([_mean(cells, one, "prompt_tokens") for one in self.works])
        self.most = max((one.concurrency for one in cells), default=1)
        self.known: dict[Candidate, dict[Work, Pace]] = {}
        for who in dict.fromkeys(map(candidate, cells)):
            own = [one for one in cells if candidate(one) == who]
            self.known[who] = {
                one: pace
                for one in self.works
                if (pace := fit([each for each in own if _alike(each, one)])) and one.workload in pace.steps
            }

    def serves_all(self, who: Candidate) -> bool:
        """Whether all kinds of work were measured with it at some load."""
        return all(one in self.known[who] for one in self.works)

    def problem(self, fleet: Mapping[Candidate, int]) -> Problem:
        """The program's tables: servers that are alike are one that works so many times as fast.

        Args:
            fleet: How many servers of each configuration.
        """
        sizes = np.unique(np.round(np.geomspace(1, self.most, _SIZES)))
        time = np.ones((len(fleet), len(sizes), len(self.works)))
        stay = np.ones_like(time)
        allowed = np.zeros((len(fleet), len(self.works)), dtype=bool)
        for b, (who, number) in enumerate(fleet.items()):
            for w, kind in enumerate(self.works):
                if (pace := self.known[who].get(kind)) is not None:
                    step = pace.seconds(sizes)
                    one = (
                        self.tokens[w] * pace.steps[kind.workload] * step / sizes
                        + pace.prefill * self.prompts[w]
                    )
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
        mix: Shares of requests, as :func:`backends.sweep.mix.shares` has them.

    Returns:
        The plan; None where no configuration was measured with every workload.
    """
    paces = Paces([one for one in evidence.measurements if work(one) in choice.works], mix)
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
    winning = [one.candidate for one in choice.winners if one.work in paces.works]
    contenders = tuple(dict.fromkeys((*fastest, *winning)))
    step = max(1, servers // _SPLITS)
    splits = [
        one
        for first, second in combinations(contenders, 2)
        for number in range(step, servers, step)
        if (one := _solved(paces, {first: number, second: servers - number}, load)) is not None
    ]
    mixed = max((split for split, _ in splits), key=lambda one: one.tokens_per_second, default=None)
    least = 1.0 + max(WORTH_IT, evidence.precision / 3.0)  # errors of the cells partly cancel
    worth = mixed is not None and mixed.tokens_per_second > homogeneous.tokens_per_second * least
    chosen = mixed if worth and mixed is not None else homogeneous
    routed = next(found for split, found in (*alone, *splits) if split is chosen)
    return FleetPlan(load, chosen, homogeneous, mixed, routed)


def _solved(
    paces: Paces, fleet: Mapping[Candidate, int], load: int
) -> tuple[Split, Mapping[str, Mapping[Candidate, float]]] | None:
    try:
        found = closed(paces.problem(fleet), load * sum(fleet.values()))
    except InfeasibleError:
        return None
    flow = {
        name: found.flow[:, [one.workload == name for one in paces.works]].sum(axis=1)
        for name in dict.fromkeys(one.workload for one in paces.works)
    }
    split = {
        name: {who: float(part / parts.sum()) for who, part in zip(fleet, parts, strict=True)}
        for name, parts in flow.items()
    }
    return Split(dict(fleet), found.tokens_per_second), split


def _alike(one: Measurement, kind: Work) -> bool:
    """Whether a cell has prompts of this length and this sampling, of whichever workload."""
    return (one.prompt, one.sampling) == (kind.prompt, kind.sampling)


def _mean(cells: Sequence[Measurement], kind: Work, length: str) -> float:
    """Mean length of prompts, or of answers: they are the target's, whatever drafts."""
    known = [(value, one.requests) for one in cells if work(one) == kind and (value := getattr(one, length))]
    total = sum(number for _, number in known)
    return sum(value * number for value, number in known) / total if total else 0.0
