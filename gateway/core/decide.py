"""From request facts, a snapshot and a policy to an ordered plan with reasons."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.core import reasons
from gateway.core.candidates import Candidate, Candidates, CostPart
from gateway.core.choice import Draw, order
from gateway.core.choose import choose
from gateway.core.classes import DEFAULT
from gateway.core.policy import STATIC
from gateway.core.predict import ask
from gateway.core.refusal import back_in, refusal, why_rejected
from gateway.core.scorers import ANYTHING, Costing
from gateway.core.selectors import matches
from gateway.core.sorting import Rejected, baselines_of, sort_out
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from gateway.core.choice import Ordered
    from gateway.core.classes import ServiceClass
    from gateway.core.classify import Classification
    from gateway.core.explore import Way
    from gateway.core.features import Features
    from gateway.core.fleet import Snapshot
    from gateway.core.policy import Policy, Route
    from gateway.core.predict import Home
    from gateway.core.sorting import Line, Sorted
    from gateway.core.standing import Standing

_NONE: Final = frozenset[str]()

Named = TypeVar("Named", Candidate, Rejected)

__all__ = ["Candidate", "CostPart", "Decision", "Draw", "NoCandidate", "Rejected", "decide"]


@value(frozen=True, slots=True)
class Decision:
    """An ordered plan: try the candidates in turn.

    Attributes:
        route: Name of the route that took the request.
        target: The target model that every candidate serves.
        reason: Why the first candidate is first, a code of :mod:`gateway.core.reasons`.
        propensity: Probability, over all draws, with which this policy sends such a request to the first
            candidate. Of replicas that are drawn from many each has the same part, as if all stood alike.
        service: Name of the service class.
        shadow: The backend that the learnt score would take, where that does not decide; "" otherwise.
        pays: Whether it would have gone to a baseline, had one been due for its workload.
        seeks: Whether it is about a response that one server holds, and nobody knows which.
    """

    route: str
    target: str
    candidates: Sequence[Candidate]
    rejected: tuple[Rejected, ...]
    reason: str
    propensity: float
    max_attempts: int
    policy_revision: str
    fleet_revision: str
    service: str = DEFAULT.name
    shadow: str = ""
    pays: bool = False
    seeks: bool = False

    @property
    def seconds(self) -> float:
        """Predicted seconds of the first candidate; 0 where what it came first by does not predict any."""
        first = self.candidates[0]
        by = zip(first.scorers, first.values, strict=True)
        return sum([value for scorer, value in by if scorer.name == "seconds"])

    @property
    def lost(self) -> float:
        """What an exploratory request is predicted to cost more than the cheapest candidate; 0 for others."""
        if self.reason != reasons.EXPLORES:
            return 0.0
        return self.candidates[0].cost - min(one.cost for one in self.candidates)


@value(frozen=True, slots=True)
class NoCandidate:
    """No backend can take the request: a value, not an exception.

    Attributes:
        kind: One of :data:`gateway.core.reasons.REFUSALS`.
        busy: A backend that could take the request is only busy, so the client may try again.
        back_in: Seconds until a backend is let through again, where that is known.
        target: The target model that was asked for; "" where that is not known.
        service: Name of the service class.
    """

    kind: str
    detail: str
    busy: bool
    route: str | None
    rejected: tuple[Rejected, ...]
    policy_revision: str
    fleet_revision: str
    back_in: float | None = None
    target: str = ""
    service: str = DEFAULT.name


def decide(  # noqa: PLR0913 - each is told by another part of the gateway
    features: Features,
    classification: Classification,
    snapshot: Snapshot,
    policy: Policy,
    draw: Draw,
    now: float,
    home: Home | None = None,
    service: ServiceClass | None = None,
    *,
    patience: float = 0.0,
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
        service: Its class; None for the default one.
        patience: Seconds that it may still wait for room on the servers of its class.
    """
    service = service or DEFAULT
    target = policy.aliases.get(features.model, features.model)
    pool = snapshot.roster.pool(target)
    route = _route(policy, features, classification)
    refused = refusal(features, policy, snapshot, pool.names)
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
            target=target,
            service=service.name,
        )

    # Who is in a tool loop or a conversation is not for measuring. Who has limits may explore, as a server
    # that is predicted to miss them costs too much to be tried, but pays no debt to a baseline.
    free, guide, learning = home is None and features.last_role != "tool", snapshot.guide, policy.learning
    of = target, classification.label
    owes = free and not service.limits.any and learning.share > 0.0
    due = owes and of in guide.due
    share = 1.0 if due else route.baseline_share
    look, lineup = pool.look(snapshot.states, now, policy.stale_after), pool.lineup(route)
    line = lineup.line(look)
    sorted_pool = sort_out(line, features, now)
    if not sorted_pool.servers:
        return NoCandidate(
            kind=reasons.ALL_REJECTED,
            detail=why_rejected(sorted_pool.rejected, route),
            busy=any(one.reason in reasons.BUSY for one in sorted_pool.rejected),
            route=route.name,
            rejected=tuple(sorted_pool.rejected),
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
            back_in=back_in(sorted_pool.rejected, [one.state for one in look.standings], now),
            target=target,
            service=service.name,
        )

    # Only predictions read it, and a decision without them would take a quarter longer.
    asked = ask(features, classification) if learning.mode != STATIC or lineup.predicts else ANYTHING
    costing = Costing(sorted_pool.servers, sorted_pool.ranks, asked, home, service.limits)
    explores = learning.explore if free and of in guide.explorable else 0.0
    by_routes = lineup.order(line, costing, draw) if learning.share < 1.0 else None
    plan, rejected = guide.plan.get(target), sorted_pool.rejected
    ways, shadow = choose(
        costing, by_routes, route, learning, plan, service, draw, explores, patience, rejected
    )
    if not ways:
        return NoCandidate(
            kind=reasons.ALL_REJECTED,
            detail=f"no server that class {service.name} may use has room",
            busy=True,
            route=route.name,
            rejected=(
                *sorted_pool.rejected,
                *(
                    Rejected(one.name, reasons.KEPT_FOR_OTHERS, "it has no room for more of the class")
                    for one in sorted_pool.servers
                ),
            ),
            policy_revision=policy.revision,
            fleet_revision=snapshot.revision,
            target=target,
            service=service.name,
        )
    measured: Sequence[int] = ()
    if sorted_pool.capable and (share or (owes and learning.floor)):
        measured = baselines_of(line, sorted_pool, features, route, pool.baselines, now)
    baselines = pool.named(measured) if share and measured else _NONE
    way = ways[0]
    by_cost: Ordered | None = None
    own = _share(share, baselines, way) if baselines else 0.0
    candidates: Sequence[Candidate]
    if draw.explore < own:
        by_cost = _by_cost(route, line, measured, costing, draw)
        usual, reason = by_cost, reasons.BASELINE_SHARE
        after = partial(_all_but, baselines, way.usual.candidates)
        candidates = Candidates(by_cost.costs, by_cost.places, after)
        rejected = _all_but(baselines, rejected)
    else:
        usual = way.order((draw.explore - own) / (1.0 - own)) if way.explore else way.usual
        reason = reasons.EXPLORES if usual.explored else _reason(features, sorted_pool)
        candidates = usual.candidates
    # What the baselines cost matters only where one of them comes first.
    measures = bool(baselines) and usual.first.name in baselines
    if not measures and not way.explore and len(ways) == 1:  # as for most requests
        propensity = (1.0 - own) * usual.propensity
    else:
        if measures and by_cost is None:
            by_cost = _by_cost(route, line, measured, costing, draw)
        propensity = _chance(usual.first, ways, share, baselines, by_cost)
    return Decision(
        route.name,
        target,
        candidates,
        tuple(rejected),
        reason,
        propensity,
        route.max_attempts,
        policy.revision,
        snapshot.revision,
        service.name,
        shadow,
        owes and len(measured) > 0,
        features.hints.previous is not None and features.hints.backend is None,
    )


def _share(share: float, baselines: frozenset[str], way: Way) -> float:
    """Share that baselines get of what somebody decides: those among all of his cheapest have it already.

    It must not depend on the draw between equals, nor on whether the request would explore.
    """
    return 0.0 if not baselines or baselines.issuperset(way.usual.cheapest) else share


def _chance(
    first: Standing, ways: Sequence[Way], share: float, baselines: frozenset[str], by_cost: Ordered | None
) -> float:
    """Probability, over all draws, with which a server comes first, whoever decides.

    Args:
        first: The server.
        ways: Who may decide.
        share: That of the baselines.
        baselines: Their names.
        by_cost: Those in order, if the server is one of them.
    """
    of_baselines, chance = 0.0 if by_cost is None else by_cost.chance(first), 0.0
    for way in ways:
        own = _share(share, baselines, way)
        chance += way.part * (own * of_baselines + (1.0 - own) * way.chance(first))
    return chance


def _by_cost(route: Route, line: Line, places: Sequence[int], costing: Costing, draw: Draw) -> Ordered:
    """Servers at some places of a pool by the route's scores, whatever its roles."""
    servers, ranks = [line.look.standings[at] for at in places], [line.ranks[at] for at in places]
    return order(Costing(servers, ranks, costing.ask, costing.home, costing.limits), route.scorers, draw)


def _route(policy: Policy, features: Features, classification: Classification) -> Route | None:
    for route in policy.routes:  # next() takes longer
        if matches(route.match, features, classification):
            return route
    return None


def _reason(features: Features, pool: Sorted) -> str:
    if features.hints.backend is not None:
        return reasons.HOLDER if features.hints.held else reasons.PINNED
    if not pool.capable:
        return reasons.NONE_CAPABLE
    return reasons.ONLY_CANDIDATE if len(pool.servers) == 1 else reasons.LOWEST_COST


def _all_but(backends: Container[str], named: Iterable[Named]) -> list[Named]:
    return [one for one in named if one.backend not in backends]
