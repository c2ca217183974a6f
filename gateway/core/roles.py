"""Where a request of a service class may go first: the servers kept for its class, and when others may do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classes import ServiceClass
    from gateway.core.plan import Plan
    from gateway.core.policy import Policy
    from gateway.core.standing import Standing

_NO_CAP: Final = math.inf

_PART: Final = 0.5
"""Part of the room within the limits of others that a class may take where no server of its own is up."""


def keeps_servers(policy: Policy) -> bool:
    """Whether a policy plans which servers are kept for which class."""
    return policy.learning.share > 0.0 and any(one.limits.any for one in policy.classes)


def inside(
    servers: Sequence[Standing], plan: Plan, service: ServiceClass, patience: float = 0.0
) -> list[int]:
    """Places of those servers that a class should go to now; empty where it should wait.

    A class with limits goes to its own servers that have room within the limits. Where none has, it waits for
    one as long as it may, as those in flight would miss their limits with it; then it goes to whichever costs
    least. One without goes to its own servers, and to an idle one of others; only where none of its own
    is up does it take part of the room of others.

    Args:
        servers: Those that can take the request.
        plan: The roles.
        service: The class.
        patience: Seconds that the request may still wait for a server of its class.
    """
    members, caps, limited = plan.roles.get(service.name), plan.caps, service.limits.any
    if limited:
        own = {*_names(servers)} if members is None else members
        with_room = [
            at
            for at, one in enumerate(servers)
            if one.name in own and one.queue < caps.get(one.name, _NO_CAP)
        ]
        if not with_room and patience > 0.0 and members and not members.isdisjoint(_names(servers)):
            return []
        return with_room or list(range(len(servers)))
    if members is None:
        return list(range(len(servers)))
    part = _PART if members.isdisjoint(_names(servers)) else 0.0
    return [
        at
        for at, one in enumerate(servers)
        if one.name in members or one.queue == 0.0 or one.queue < part * caps.get(one.name, _NO_CAP)
    ]


def _names(servers: Sequence[Standing]) -> list[str]:
    return [one.name for one in servers]
