"""Where a request of a service class may go first: the servers kept for its class, and when others may do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.core.reasons import FULL, WARMING_UP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classes import ServiceClass
    from gateway.core.plan import Plan
    from gateway.core.policy import Policy
    from gateway.core.sorting import Rejected
    from gateway.core.standing import Standing

_NO_CAP: Final = math.inf

PART: Final = 0.5
"""Part of the room within the limits of others that a class may take where no server of its own is up."""

_UP: Final = frozenset({FULL, WARMING_UP})
"""Why servers that are up may not take a request."""


def keeps_servers(policy: Policy) -> bool:
    """Whether a policy plans which servers are kept for which class."""
    return policy.learning.share > 0.0 and any(one.limits.any for one in policy.classes)


def inside(
    servers: Sequence[Standing],
    plan: Plan,
    service: ServiceClass,
    patience: float = 0.0,
    rejected: Sequence[Rejected] = (),
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
        rejected: Servers that cannot take it, and why: one that has all the requests it may have is up.
    """
    members, caps, limited = plan.roles.get(service.name), plan.caps, service.limits.any
    if limited:
        own = {*_names(servers)} if members is None else members
        with_room = [
            at
            for at, one in enumerate(servers)
            if one.name in own and one.queue < caps.get(one.name, _NO_CAP)
        ]
        if not with_room and patience > 0.0 and members and _up(members, servers, rejected):
            return []
        return with_room or list(range(len(servers)))
    if members is None:
        return list(range(len(servers)))
    part = 0.0 if _up(members, servers, rejected) else PART
    return [
        at
        for at, one in enumerate(servers)
        if one.name in members or one.queue == 0.0 or one.queue < part * caps.get(one.name, _NO_CAP)
    ]


def _up(members: frozenset[str], servers: Sequence[Standing], rejected: Sequence[Rejected]) -> bool:
    """Whether any of some servers is up."""
    return not members.isdisjoint(_names(servers)) or any(
        one.reason in _UP and one.backend in members for one in rejected
    )


def _names(servers: Sequence[Standing]) -> list[str]:
    return [one.name for one in servers]
