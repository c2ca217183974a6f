"""From request facts, a snapshot and a policy to an ordered plan with reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from gateway.core import reasons
from gateway.core.filters import incapable, unavailable
from gateway.core.predict import ask
from gateway.core.refusal import back_in, refusal, why_rejected
from gateway.core.scorers import SCORERS, Costing
from gateway.core.selectors import Ranking, matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.policy import Policy, Route, WeightedScorer
    from gateway.core.predict import Home

    Ranked = tuple[BackendState, int]
    """A state with its rank in the route's preferences."""


@dataclass(frozen=True, slots=True)
class Draw:
    """This request's random numbers, uniform in [0, 1), so that a decision can be replayed.

    Attributes:
        explore: Decides whether the request goes to the baseline share.
        tie: Breaks ties between equal costs.
    """

    explore: float
    tie: float


@dataclass(frozen=True, slots=True)
class CostPart:
    """One scorer's part of a candidate's cost.

    Attributes:
        scorer: YAML name of the scorer.
        value: Its cost, in the scorer's own unit; lower is better.
        weight: What the policy multiplies it by.
    """

    scorer: str
    value: float
    weight: float


# A decision holds one of the next two for each backend of the target. As tuples they are immutable too, and
# made in half the time that a frozen dataclass takes: with 1,000 backends that is 0.2 ms of 1.
class Candidate(NamedTuple):
    """A backend that may take the request, with what it costs.

    Attributes:
        cost: The sum of ``values``, weighted.
        values: The cost by each scorer, in the order of ``scorers``.
        scorers: Those of the route.
    """

    backend: str
    cost: float
    values: tuple[float, ...]
    scorers: tuple[WeightedScorer, ...] = ()

    @property
    def parts(self) -> tuple[CostPart, ...]:
        """What the cost is made of."""
        return tuple(
            CostPart(scorer.name, value, scorer.weight)
            for scorer, value in zip(self.scorers, self.values, strict=True)
        )


class Rejected(NamedTuple):
    """A backend that may not take the request.

    Attributes:
        reason: A code of :mod:`gateway.core.reasons`.
        detail: The same in words.
    """

    backend: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decision:
    """An ordered plan: try the candidates in turn.

    Attributes:
        route: Name of the route that took the request.
        target: The target model that every candidate serves.
        reason: Why the first candidate is first, a code of :mod:`gateway.core.reasons`.
        propensity: Probability with which this policy sends such a request to the first candidate.
    """

    route: str
    target: str
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]
    reason: str
    propensity: float
    max_attempts: int
    policy_revision: str
    fleet_revision: str


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """No backend can take the request: a value, not an exception.

    Attributes:
        kind: One of :data:`gateway.core.reasons.REFUSALS`.
        busy: A backend that could take the request is only busy, so the client may try again.
        back_in: Seconds until a backend is let through again, where that is known.
    """

    kind: str
    detail: str
    busy: bool
    route: str | None
    rejected: tuple[Rejected, ...]
    policy_revision: str
    fleet_revision: str
    back_in: float | None = None


def decide(
    features: Features,
    classification: Classification,
    snapshot: Snapshot,
    policy: Policy,
    draw: Draw,
    now: float,
    home: Home | None = None,
) -> Decision | NoCandidate:
    """Choose where a request goes.

    Availability is a hard filter. Capability is a preference between backends: where no available one is
    capable, the request goes out all the same, so that the server answers for itself with its own error.

    Args:
        features: Facts of the request; an empty model name stands for every target.
        classification: Its workload.
        snapshot: The fleet at this moment.
        policy: The routes in force.
        draw: This request's random numbers.
        now: Monotonic seconds.
        home: Where the conversation was answered last, if that is known.
    """
    target = policy.aliases.get(features.model, features.model)
    pool = snapshot.roster.pool(target)
    states = [snapshot.states[at] for at in pool.positions]
    route = next((route for route in policy.routes if matches(route.match, features, classification)), None)
    refused = refusal(features, policy, snapshot, states)
    if refused or route is None:
        kind, detail = refused or (reasons.NO_ROUTE, "no route of the policy takes this request")
        return NoCandidate(
            kind=kind,
            detail=detail,
            busy=False,
            route=route.name if route else None,
            rejected=(),
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
        )

    sorted_pool = _sort_out(states, pool.ranking(route.prefer), features, route, now)
    chosen_from = sorted_pool.capable or sorted_pool.incapable
    if not chosen_from:
        return NoCandidate(
            kind=reasons.ALL_REJECTED,
            detail=why_rejected(sorted_pool.rejected, route),
            busy=any(one.reason in reasons.BUSY for one in sorted_pool.rejected),
            route=route.name,
            rejected=tuple(sorted_pool.rejected),
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
            back_in=back_in(sorted_pool.rejected, states, now),
        )

    costing = Costing(chosen_from, now, policy.stale_after, ask(features, classification), home)
    usual = _order(costing, route, draw)
    ordered, rejected, share = usual.candidates, sorted_pool.rejected, route.baseline_share
    reason, propensity = _reason(features, sorted_pool), usual.chance(ordered[0])
    baselines = {state.backend.name for state, _ in sorted_pool.baselines}
    # All of the cheapest are looked at, not only the drawn one: a baseline among them has its chance already,
    # and the share must not depend on the draw between equals.
    if baselines and sorted_pool.capable and any(one.backend not in baselines for one in usual.cheapest):
        explored = draw.explore < share
        propensity *= 1.0 - share
        # What the baselines cost matters only where one of them comes first.
        if explored or ordered[0].backend in baselines:
            measured = _order(replace(costing, candidates=sorted_pool.baselines), route, draw)
            if explored:
                reason = reasons.BASELINE_SHARE
                others = (one for one in ordered if one.backend not in baselines)
                ordered = (*measured.candidates, *others)
                rejected = [one for one in rejected if one.backend not in baselines]
            first = ordered[0]
            propensity = share * measured.chance(first) + (1.0 - share) * usual.chance(first)
    return Decision(
        route=route.name,
        target=target,
        candidates=ordered,
        rejected=tuple(rejected),
        reason=reason,
        propensity=propensity,
        max_attempts=route.max_attempts,
        policy_revision=policy.revision,
        fleet_revision=snapshot.revision,
    )


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A pool sorted out.

    Attributes:
        baselines: Those that the route's baseline share may go to, named by the route or not.
    """

    capable: list[Ranked]
    incapable: list[Ranked]
    baselines: list[Ranked]
    rejected: list[Rejected]


def _sort_out(
    states: Sequence[BackendState], ranking: Ranking, features: Features, route: Route, now: float
) -> _Sorted:
    pool = _Sorted([], [], [], [])
    pin = features.hints.backend
    if pin is not None:
        others = [state.backend.name for state in states if state.backend.name != pin]
        pool.rejected.extend(Rejected(name, reasons.NOT_PINNED, f"the caller chose {pin}") for name in others)
        states, ranking = [state for state in states if state.backend.name == pin], Ranking((0,), unnamed=1)
    unnamed = f"route {route.name} does not name it"
    for state, rank in zip(states, ranking.ranks, strict=True):
        name = state.backend.name
        down = unavailable(state, now)
        unable = None if down else incapable(state, features)
        if route.baseline_share and state.backend.is_baseline and not down and not unable:
            pool.baselines.append((state, rank))
        if rank == ranking.unnamed:
            pool.rejected.append(Rejected(name, reasons.NOT_PREFERRED, unnamed))
        elif down:
            pool.rejected.append(Rejected(name, *down))
        elif unable:
            pool.rejected.append(Rejected(name, *unable))
            pool.incapable.append((state, rank))
        else:
            pool.capable.append((state, rank))
    return pool


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Candidates by cost; the cheapest ones, equal to each other, come in the order of the draw."""

    candidates: tuple[Candidate, ...]
    equals: int

    @property
    def cheapest(self) -> tuple[Candidate, ...]:
        return self.candidates[: self.equals]

    def chance(self, candidate: Candidate) -> float:
        """Probability, over all draws, with which the candidate comes first."""
        return (candidate in self.cheapest) / self.equals


def _order(costing: Costing, route: Route, draw: Draw) -> _Ordered:
    scorers, states = route.scorers, costing.candidates
    columns = [SCORERS[one.name](costing) for one in scorers]
    costs = [0.0] * len(states)
    for scorer, column in zip(scorers, columns, strict=True):
        costs = [cost + value * scorer.weight for cost, value in zip(costs, column, strict=True)]
    values = list(zip(*columns, strict=True))
    turns = sorted(range(len(states)), key=costs.__getitem__)
    equals = costs.count(costs[turns[0]])
    turn = int(draw.tie * equals)
    ordered = (*turns[turn:equals], *turns[:turn], *turns[equals:])
    return _Ordered(
        tuple(Candidate(states[at][0].backend.name, costs[at], values[at], scorers) for at in ordered), equals
    )


def _reason(features: Features, pool: _Sorted) -> str:
    if features.hints.backend is not None:
        return reasons.PINNED
    if not pool.capable:
        return reasons.NONE_CAPABLE
    return reasons.ONLY_CANDIDATE if len(pool.capable) == 1 else reasons.LOWEST_COST
