"""Who decides where a request goes, the routes' scores or the learnt one, and what each would do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.core.choice import FEW, LEARNED, learned, order
from gateway.core.explore import Way, exploring
from gateway.core.policy import STATIC
from gateway.core.roles import inside

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from gateway.core.choice import Draw, Ordered
    from gateway.core.classes import ServiceClass
    from gateway.core.plan import Plan
    from gateway.core.policy import Learning, Route
    from gateway.core.scorers import Costing
    from gateway.core.sorting import Rejected

_CANARY: Final = 100
"""Place of the number that decides who decides, among those that come from a draw."""


def choose(  # noqa: PLR0913, PLR0917 - as much as it takes to tell
    costing: Costing,
    by_routes: Ordered | None,
    route: Route,
    learning: Learning,
    plan: Plan | None,
    service: ServiceClass,
    draw: Draw,
    explore: float,
    patience: float,
    rejected: Sequence[Rejected],
) -> tuple[Sequence[Way], str]:
    """Whoever decides, then whoever else might have, and what the learnt score would take where it does not.

    Nobody decides where the request should wait for a server that its class may use.
    """
    if by_routes is not None and learning.mode == STATIC:
        return (Way(by_routes),), ""
    share = learning.share
    takes = by_routes is None or draw.another(_CANARY) < share
    everyone, own, part = costing, list[int](), share
    if plan is not None:
        own = inside(costing.servers, plan, service, patience, rejected)
        if not own:
            if takes:
                return (), ""
            own, part = inside(costing.servers, plan, service, 0.0, rejected), 0.0
        if 0 < len(own) < len(costing.servers):
            costing = costing.among(own)
    by_seconds = learned(costing, draw, route.max_attempts)
    # Where its own servers fail, a request with limits may go to others.
    if costing is not everyone and len(everyone.servers) <= FEW and service.limits.any:
        by_seconds = by_seconds.before(partial(_others, everyone, own, draw))
    learnt = exploring(by_seconds, costing, part, explore) if explore > 0.0 else Way(by_seconds, part)
    if by_routes is None:
        return (learnt,), ""
    routes = Way(by_routes, 1.0 - share)
    return ((learnt, routes), "") if takes else ((routes, learnt), by_seconds.first.name)


def _others(everyone: Costing, own: Container[int], draw: Draw) -> Ordered:
    """All but some servers, by predicted seconds."""
    rest = [at for at in range(len(everyone.servers)) if at not in own]
    return order(everyone.among(rest), LEARNED, draw)
