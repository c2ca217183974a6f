"""The planned fleet against all others of its size, simulated: python -m tests.bench.fleet_plan.

For each target a sweep in virtual time gives evidence, and the plan follows from it as in ``specroute sweep``. The
fluid optimum over the true engines ranks every fleet of one configuration and every split in two; the best of them and
the planned one are simulated on the same requests, seed by seed. Fleets of one configuration are routed by least
requests, splits by what the sweep wrote for the learner.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backends.fleetsim import beliefs, catalogue, compare, fluid
from backends.fleetsim.gateway import GatewayRouter
from backends.fleetsim.setup import Setup
from backends.fleetsim.traffic import MIXES, Source, constant, steady
from backends.sim import profiles
from backends.sweep.choose import choose
from backends.sweep.evidence import evidence
from backends.sweep.fleetplan import plan_fleet
from backends.sweep.model import Candidate, Cell
from backends.sweep.plan import Plan, Settings
from backends.sweep.results import Results
from backends.sweep.setup import conditions, of_simulator
from backends.sweep.virtual import VirtualServers
from gateway.core.features import WORKLOADS
from gateway.core.gain import student
from gateway.policy.evidence import Machine
from gateway.policy.prior import priors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from backends.fleetsim.model import Model
    from gateway.policy.evidence import Evidence

    Fleet = Mapping[Candidate, int]

LEVELS = (1, 8, 32)
SINGLES, SPLITS = 2, 3
"""Fleets of one configuration and splits that are simulated beside the planned one, the best by the fluid optimum."""


class Ratio(NamedTuple):
    """A mean over seeds with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f}" + (f" ({self.low:.3f}–{self.high:.3f})" if self.low < self.high else "")


def paired(one: Sequence[float], other: Sequence[float]) -> Ratio:
    """One over another, seed by seed; without bounds of a single seed."""
    logs = [math.log(first / second) for first, second in zip(one, other, strict=True)]
    half = student(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return Ratio(*(math.exp(fmean(logs) + side) for side in (0.0, -half, half)))


@dataclass(frozen=True, slots=True)
class Case:
    """One plan and what came of it; tokens/s by seed.

    Attributes:
        load: Requests in flight a server.
        promised: Gain of the best split over one configuration by the plan's own reckoning.
        planned: Of the planned fleet.
        single: Of the fleet of one configuration that is the best over all seeds.
        split: Of the split in two that is.
    """

    target: str
    mix: str
    load: int
    servers: int
    chosen: str
    promised: float
    planned: Sequence[float]
    best_single: str
    single: Sequence[float]
    best_split: str
    split: Sequence[float]

    @property
    def of_single(self) -> Ratio:
        """Planned over the best fleet of one configuration."""
        return paired(self.planned, self.single)

    @property
    def of_best(self) -> Ratio:
        """Planned over the best of all."""
        return paired(self.planned, max(self.single, self.split, key=fmean))


def swept(target: str, levels: Sequence[int] = LEVELS, settings: Settings | None = None) -> Evidence:
    """What a sweep of the simulator finds, all six workloads at these loads."""
    under = conditions(list(WORKLOADS), levels, ["short"], ["greedy"])
    plan = Plan(under, of_simulator(target).families, Results(), settings or Settings())
    servers = VirtualServers(target)
    while (who := plan.visit()) is not None:
        while (condition := plan.next_round(who)) is not None:
            cell = Cell(who, condition)
            number, requests = plan.results.rounds(cell), plan.settings.of_round(condition)
            plan.results.add(*servers.measure(cell, number, requests))
    return evidence(
        plan,
        target,
        Machine(simulated=True),
        measured="2026-01-01",
        failures={},
        seconds=plan.results.seconds,
    )


class Bench:
    """The true engines of a target."""

    def __init__(
        self, target: str, found: Evidence, *, window: float, seeds: int, contenders: int | None = None
    ) -> None:
        """Take a target.

        Args:
            target: With a profile.
            found: By a sweep.
            window: Virtual seconds of a simulation.
            seeds: Simulations of each fleet.
            contenders: Configurations that are mixed, the best ones alone; None for all.
        """
        self.target = target
        self.contenders = contenders
        self.evidence = found
        self.window = window
        self.seeds = seeds
        self.models = {
            Candidate(one.method, one.draft_tokens): catalogue.engine(target, one.method, one.draft_tokens)
            for one in profiles.configurations(target)
            if one.cells
        }
        self._known: dict[tuple[str, int, frozenset[tuple[Candidate, int]]], list[float]] = {}

    def optimum(self, fleet: Fleet, mix: str, clients: int) -> float:
        """Tokens/s that a fleet could give at most; servers that are alike work as one so many times as fast."""
        own = fluid.problem([self.models[who] for who in fleet], MIXES[mix])
        counts = np.array(list(fleet.values()), dtype=float)
        return fluid.closed(replace(own, time=own.time / counts[:, None, None]), clients).tokens_per_second

    def simulated(self, fleet: Fleet, mix: str, clients: int) -> list[float]:
        """Tokens/s of a fleet under the gateway, by seed; without seeds the optimum."""
        if not self.seeds:
            return [self.optimum(fleet, mix, clients)]
        key = mix, clients, frozenset(fleet.items())
        if key not in self._known:
            self._known[key] = [self._run(fleet, mix, clients, seed) for seed in range(self.seeds)]
        return self._known[key]

    def _run(self, fleet: Fleet, mix: str, clients: int, seed: int) -> float:
        models: list[Model] = [self.models[who] for who, count in fleet.items() for _ in range(count)]
        source = Source(constant(MIXES[mix]), clients=steady(clients))
        setup = Setup(models, [source], warm_up=self.window / 3.0, window=self.window, seed=seed)
        router = compare.least_requests(models, seed) if len(fleet) == 1 else self._learned(models, seed)
        return compare.run("", setup, router).tokens_per_second

    def _learned(self, models: Sequence[Model], seed: int) -> GatewayRouter:
        names = [f"{place}-{model.name}" for place, model in enumerate(models)]
        backends = [
            beliefs.backend(name, model, self.target) for name, model in zip(names, models, strict=True)
        ]
        known = priors(self.evidence, backends)
        policy = beliefs.policy(target=self.target)
        return GatewayRouter(
            models, policy, names=names, priors=[known.get(name) for name in names], seed=seed
        )

    def rivals(self, mix: str, clients: int, servers: int) -> tuple[list[Fleet], list[Fleet]]:
        """The best fleets of one configuration and the best splits in two, by the fluid optimum."""

        def ranked(fleets: Iterable[Fleet]) -> list[Fleet]:
            return sorted(fleets, key=lambda one: -self.optimum(one, mix, clients))

        singles = ranked({who: servers} for who in self.models)
        best = [who for fleet in singles[: self.contenders] for who in fleet]
        splits = ranked(
            {first: number, second: servers - number}
            for first, second in combinations(best, 2)
            for number in range(1, servers)
        )
        return singles[:SINGLES], splits[:SPLITS]

    def case(self, mix: str, load: int, servers: int) -> Case:
        """Plan a fleet and hold it against its rivals."""
        shares, clients = MIXES[mix], load * servers
        plan = plan_fleet(self.evidence, choose(self.evidence, shares), servers, load, shares)
        assert plan is not None
        singles, splits = self.rivals(mix, clients, servers)
        by_single = {_named(one): self.simulated(one, mix, clients) for one in singles}
        by_split = {_named(one): self.simulated(one, mix, clients) for one in splits}
        single, split = max(by_single, key=_mean_of(by_single)), max(by_split, key=_mean_of(by_split))
        return Case(
            self.target, mix, load, servers,
            _named(plan.chosen.servers), plan.gain, self.simulated(plan.chosen.servers, mix, clients),
            single, by_single[single], split, by_split[split],
        )  # fmt: skip


def _mean_of(known: Mapping[str, Sequence[float]]) -> Callable[[str], float]:
    return lambda name: fmean(known[name])


def _named(fleet: Fleet) -> str:
    return " + ".join(f"{count} x {who.label}" for who, count in fleet.items())


def table(cases: Sequence[Case]) -> str:
    """Cases as Markdown."""
    rows = [
        f"| {one.target.partition('/')[2]} | {one.mix} | {one.load} | {one.chosen} | {fmean(one.planned):,.0f} | "
        f"{one.of_single} | {one.of_best} | "
        f"{one.best_split if fmean(one.split) > fmean(one.single) else one.best_single} |"
        for one in cases
    ]
    head = (
        "| target | mix | in flight a server | planned | tokens/s | of the best of one | of the best of all | best of all |\n"
        "|---|---|---:|---|---:|---:|---:|---|"
    )
    return "\n".join([head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default="", help="with commas; all if left out")
    parser.add_argument("--mixes", default=",".join(MIXES))
    parser.add_argument("--loads", default="8,32", help="requests in flight a server")
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=4, help="0: the fluid optimum instead of simulations")
    parser.add_argument("--window", type=float, default=60.0, help="virtual seconds")
    parser.add_argument(
        "--out", type=Path, default=Path(".bench-fleet-plan"), help="kept cases, and evidence"
    )
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    for target in args.targets.split(",") if args.targets else profiles.targets():
        file = args.out / f"{target.replace('/', '--')}.jsonl"
        if file.exists():
            continue
        bench = Bench(target, swept(target), window=args.window, seeds=args.seeds)
        cases = [
            bench.case(mix, int(load), args.servers)
            for mix in args.mixes.split(",")
            for load in args.loads.split(",")
        ]
        file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in cases), encoding="utf-8")
        print(table(cases), flush=True)
    kept = [Case(**json.loads(line)) for file in sorted(args.out.glob("*.jsonl")) for line in file.open()]
    print(table(kept))
    print(
        f"\nworst: {min(one.of_single for one in kept)} of the best of one, {min(one.of_best for one in kept)} of all"
    )


if __name__ == "__main__":
    main()
