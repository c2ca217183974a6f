"""From request facts, a snapshot and a policy to an ordered plan with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.core import reasons
from gateway.core.filters import incapable, unavailable
from gateway.core.scorers import SCORERS, Costing
from gateway.core.selectors import matches, rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classify import Classification
    from gateway.core.features import Features
    from gateway.core.fleet import BackendState, Snapshot
    from gateway.core.policy import Policy, Route


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A backend that may take the request, with what it costs."""

    backend: str
    cost: float
    parts: tuple[CostPart, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
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
        busy: A backend that could take the request is only full, so the client may try again.
    """

    kind: str
    detail: str
    busy: bool
    route: str | None
    rejected: tuple[Rejected, ...]
    policy_revision: str
    fleet_revision: str


def decide(
    features: Features,
    classification: Classification,
    snapshot: Snapshot,
    policy: Policy,
    draw: Draw,
    now: float,
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
        now: Monotonic seconds, for the age of scraped load.
    """
    target = policy.aliases.get(features.model, features.model)
    pool = [state for state in snapshot.states if not target or state.backend.target == target]
    route = next((route for route in policy.routes if matches(route.match, features, classification)), None)
    if refusal := _refusal(features, policy, snapshot, pool, route):
        kind, detail = refusal
        return NoCandidate(
            kind=kind,
            detail=detail,
            busy=False,
            route=route.name if route else None,
            rejected=(),
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
        )
    assert route is not None  # noqa: S101 - _refusal answers for it

    sorted_pool = _sort_out(pool, features, route)
    chosen_from = sorted_pool.capable or sorted_pool.incapable
    if not chosen_from:
        return NoCandidate(
            kind=reasons.ALL_REJECTED,
            detail="; ".join(f"{one.backend}: {one.detail}" for one in sorted_pool.rejected),
            busy=any(one.reason == reasons.FULL for one in sorted_pool.rejected),
            route=route.name,
            rejected=sorted_pool.rejected,
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
        )

    usual = _order(chosen_from, route, policy, draw, now)
    ordered, rejected = usual.candidates, sorted_pool.rejected
    reason, propensity = _reason(features, sorted_pool), usual.chance(ordered[0])
    baselines = {state.backend.name for state, _ in sorted_pool.baselines}
    # All of the cheapest are looked at, not only the drawn one: a baseline among them has its chance already,
    # and the share must not depend on the draw between equals.
    if baselines and sorted_pool.capable and any(one.backend not in baselines for one in usual.cheapest):
        measured = _order(sorted_pool.baselines, route, policy, draw, now)
        if draw.explore < route.baseline_share:
            reason = reasons.BASELINE_SHARE
            others = (one for one in ordered if one.backend not in baselines)
            ordered = (*measured.candidates, *others)
            rejected = tuple(one for one in rejected if one.backend not in baselines)
        first, share = ordered[0], route.baseline_share
        propensity = share * measured.chance(first) + (1.0 - share) * usual.chance(first)
    return Decision(
        route=route.name,
        target=target,
        candidates=ordered,
        rejected=rejected,
        reason=reason,
        propensity=propensity,
        max_attempts=route.max_attempts,
        policy_revision=policy.revision,
        fleet_revision=snapshot.revision,
    )


def _refusal(
    features: Features, policy: Policy, snapshot: Snapshot, pool: Sequence[BackendState], route: Route | None
) -> tuple[str, str] | None:
    """Refuse what no state of the fleet could change: kind and words, or None."""
    if not pool:
        if features.model and features.model not in policy.aliases:
            known = sorted({*policy.aliases, *(state.backend.target for state in snapshot.states)})
            return (
                reasons.UNKNOWN_MODEL,
                f"The model `{features.model}` does not exist; there are: {', '.join(known)}",
            )
        return (
            reasons.EMPTY_POOL,
            f"no backend serves `{features.model}`" if features.model else "the fleet is empty",
        )
    if route is None:
        return reasons.NO_ROUTE, "no route of the policy takes this request"
    pin = features.hints.backend
    if pin is not None and not policy.allow_pin:
        return reasons.PIN_NOT_ALLOWED, "the policy does not allow the caller to choose a backend"
    if pin is not None and all(state.backend.name != pin for state in pool):
        names = ", ".join(state.backend.name for state in pool)
        return reasons.UNKNOWN_BACKEND, f"no backend of this model is called `{pin}`; there are: {names}"
    return None


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A pool sorted out; each kept state comes with its rank in the route's preferences.

    Attributes:
        baselines: Those that the route's baseline share may go to, named by the route or not.
    """

    capable: tuple[tuple[BackendState, int], ...]
    incapable: tuple[tuple[BackendState, int], ...]
    baselines: tuple[tuple[BackendState, int], ...]
    rejected: tuple[Rejected, ...]


def _sort_out(pool: Sequence[BackendState], features: Features, route: Route) -> _Sorted:
    pin = features.hints.backend
    capable: list[tuple[BackendState, int]] = []
    incapable_ones: list[tuple[BackendState, int]] = []
    baselines: list[tuple[BackendState, int]] = []
    rejected: list[Rejected] = []
    for state in pool:
        backend = state.backend
        if pin is not None and backend.name != pin:
            rejected.append(Rejected(backend.name, reasons.NOT_PINNED, f"the caller chose {pin}"))
            continue
        position = rank(route.prefer, backend) if pin is None else 0
        down, unable = unavailable(state), incapable(state, features)
        if route.baseline_share and backend.is_baseline and not down and not unable:
            baselines.append((state, len(route.prefer) if position is None else position))
        if position is None:
            rejected.append(
                Rejected(backend.name, reasons.NOT_PREFERRED, f"route {route.name} does not name it")
            )
        elif down:
            rejected.append(Rejected(backend.name, *down))
        elif unable:
            rejected.append(Rejected(backend.name, *unable))
            incapable_ones.append((state, position))
        else:
            capable.append((state, position))
    return _Sorted(tuple(capable), tuple(incapable_ones), tuple(baselines), tuple(rejected))


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


def _order(
    states: Sequence[tuple[BackendState, int]], route: Route, policy: Policy, draw: Draw, now: float
) -> _Ordered:
    ordered = sorted(
        (_candidate(state, position, route, policy, now) for state, position in states),
        key=lambda candidate: candidate.cost,
    )
    equals = sum(candidate.cost == ordered[0].cost for candidate in ordered)
    turn = int(draw.tie * equals)
    return _Ordered((*ordered[turn:equals], *ordered[:turn], *ordered[equals:]), equals)


def _candidate(state: BackendState, position: int, route: Route, policy: Policy, now: float) -> Candidate:
    costing = Costing(state, position, now, policy.stale_after)
    parts = tuple(CostPart(one.name, SCORERS[one.name](costing), one.weight) for one in route.scorers)
    return Candidate(state.backend.name, sum(part.value * part.weight for part in parts), parts)


def _reason(features: Features, pool: _Sorted) -> str:
    if features.hints.backend is not None:
        return reasons.PINNED
    if not pool.capable:
        return reasons.NONE_CAPABLE
    return reasons.ONLY_CANDIDATE if len(pool.capable) == 1 else reasons.LOWEST_COST
