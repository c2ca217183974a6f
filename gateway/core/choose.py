"""Who decides where a request goes, the routes' scores or the learnt one, and what each would do."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.core.choice import FEW, LEARNED, learned, order
from gateway.core.policy import STATIC
from gateway.core.roles import inside

if TYPE_CHECKING:
    from collections.abc import Container

    from gateway.core.choice import Draw, Ordered
    from gateway.core.classes import ServiceClass
    from gateway.core.plan import Plan
    from gateway.core.policy import Learning, Route
    from gateway.core.scorers import Costing

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
) -> tuple[Ordered | None, str]:
    """Candidates in order by who decides, and what the learnt score would take where it does not.

    None in place of the candidates where the request should wait for a server that its class may use.
    """
    if learning.mode == STATIC:
        return by_routes, ""
    share = learning.share
    takes = share >= 1.0 or draw.another(_CANARY) < share
    everyone, own = costing, list[int]()
    if plan is not None:
        own = inside(costing.servers, plan, service, patience if takes else 0.0)
        if not own and takes:
            return None, ""
        if 0 < len(own) < len(costing.servers):
            costing = costing.among(own)
    roll = _roll(draw, route) if explore > 0.0 else 1.0
    by_seconds = learned(costing, draw, route.max_attempts, explore, roll)
    # Where its own servers fail, a request with limits may go to others.
    if costing is not everyone and len(everyone.servers) <= FEW and service.limits.any:
        by_seconds = by_seconds.before(partial(_others, everyone, own, draw))
    if by_routes is None:
        return by_seconds, ""
    if not takes:
        by_seconds, by_routes = by_routes, by_seconds
        share = 1.0 - share
    return by_seconds.mixed(by_routes, share), "" if takes else by_routes.first


def _roll(draw: Draw, route: Route) -> float:
    """A uniform number for those that do not go to the baseline share; 1 for those that do."""
    roll = (draw.explore - route.baseline_share) / max(1e-9, 1.0 - route.baseline_share)
    return roll if roll >= 0.0 else 1.0


def _others(everyone: Costing, own: Container[int], draw: Draw) -> Ordered:
    """All but some servers, by predicted seconds."""
    rest = [at for at in range(len(everyone.servers)) if at not in own]
    return order(everyone.among(rest), LEARNED, draw)
