"""One fleet under several policies, and other fleets of the same size beside it, on the same requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backends.fleetsim import fluid
from backends.fleetsim.beliefs import ENDLESS, policy
from backends.fleetsim.fleet import simulate
from backends.fleetsim.gateway import GatewayRouter
from gateway.core.policy import Learning, WeightedScorer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backends.fleetsim.fleet import Setup
    from backends.fleetsim.measured import Log
    from backends.fleetsim.model import Model
    from backends.fleetsim.view import Router
    from gateway.core.fleet import Backend
    from gateway.core.policy import Waiting


class Kept(NamedTuple):
    """A source with limits, and the share of its requests that kept them."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Result:
    """What one run showed.

    Attributes:
        name: Policy, and fleet where it is another.
        tokens_per_second: Output tokens in the window.
        share: Of the fluid optimum of this fleet; None where the loop is open or the load changes.
        mean: Seconds from arrival to the last token, mean of the requests that arrived in the window and were
            answered.
        p99: The same, 99th percentile.
        first: Seconds to the first token, mean.
        answered: Requests that arrived in the window and were answered, until the end of the drain.
        failed: Requests that arrived in the window and were refused, turned away or broken off.
        waiting: Requests still held in the gateway at the end.
        preemptions: Over the whole run.
        shares: Share of the answers since the window began that each server gave, in the order of the fleet.
        kept: Sources with limits.
    """

    name: str
    tokens_per_second: float
    share: float | None
    mean: float
    p99: float
    first: float
    answered: int
    failed: int
    waiting: int
    preemptions: int
    shares: tuple[float, ...]
    kept: tuple[Kept, ...]


def least_requests(
    models: Sequence[Model], seed: int, *, backends: Sequence[Backend] = (), queue: Waiting = ENDLESS
) -> GatewayRouter:
    """The gateway with nothing but load in its score.

    Args:
        models: What each server runs.
        seed: Of the draws between equals.
        backends: As the fleet file declares them; without it nothing limits what is open on one.
        queue: Of the policy that it is compared with.
    """
    usual = policy(target=models[0].target, learning=Learning())
    (route,) = usual.routes
    scorers = (WeightedScorer("load", 1.0),)
    by_load = replace(usual, routes=(replace(route, scorers=scorers),), queue=queue)
    return GatewayRouter(models, by_load, backends=backends, seed=seed)


def run(
    name: str, setup: Setup, router: Router, *, on_progress: Callable[[float], None] | None = None
) -> Result:
    """Simulate, and add up."""
    log = simulate(setup, router, on_progress=on_progress)
    arrived = log.arrivals()
    waited = log.completion()
    return Result(
        name=name,
        tokens_per_second=log.tokens_per_second(),
        share=_share(setup, log),
        mean=float(waited.mean()) if len(waited) else 0.0,
        p99=float(np.percentile(waited, 99)) if len(waited) else 0.0,
        first=float(np.mean([row.first - row.arrived for row in arrived])) if arrived else 0.0,
        answered=len(arrived),
        failed=log.failed(),
        waiting=log.late,
        preemptions=log.preemptions,
        shares=tuple(log.shares(len(setup.models))),
        kept=tuple(
            Kept(source.name, log.kept(source.limits, index))
            for index, source in enumerate(setup.sources)
            if source.limits is not None
        ),
    )


def _share(setup: Setup, log: Log) -> float | None:
    """Share of the optimum, where there is one closed loop that does not change."""
    if len(setup.sources) != 1 or setup.events or setup.trace:
        return None
    (source,) = setup.sources
    if source.clients is None or len(source.clients.values) > 1 or len(source.mix.phases) > 1:
        return None
    mix = {}
    for workload, share in source.mix.at(0.0).items():
        refused = source.refused_share.get(workload, 0.0)
        mix[workload] = share * (1.0 - refused)
        mix[f"{workload}!"] = share * refused
    try:
        best = fluid.closed(fluid.problem(setup.models, mix, lengths=source.lengths), source.clients(0.0))
    except fluid.InfeasibleError:
        return None
    return log.tokens_per_second() / best.tokens_per_second


def alternatives(setup: Setup, baseline: Model, *, drafts: bool) -> list[tuple[str, Setup]]:
    """The same number of servers of one configuration: the fleets that this one must beat.

    The same servers fall and slow down; none changes what it runs.

    Args:
        setup: What is simulated.
        baseline: What a server without a draft runs.
        drafts: Each configuration of the fleet; if not, servers without a draft alone.
    """
    count = len(setup.models)
    events = [event for event in setup.events if event.model is None]
    kinds = {("none", 0): baseline}
    if drafts:
        kinds |= {(model.method, model.draft_tokens): model for model in setup.models}
    return [
        (f"{count} x {model.name}", replace(setup, models=[model] * count, events=events))
        for model in kinds.values()
    ]
