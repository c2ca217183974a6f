"""Where a request of a service class may go first: the servers kept for its class, and when others may do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.classes import ServiceClass
    from gateway.core.fleet import BackendState
    from gateway.core.plan import Plan

_NO_CAP: Final = math.inf

_PART: Final = 0.5
"""Part of the room within the limits of others that a class may take where no server of its own is up."""


def inside(
    states: Sequence[BackendState], plan: Plan, service: ServiceClass, now: float, stale_after: float
) -> list[int]:
    """Places of those servers that a class should go to now; empty where it should wait.

    A class with limits goes to its own servers that have room within the limits; where none has, to whichever
    costs least. One without goes to its own servers, and to an idle one of others; only where none of its own
    is up does it take part of the room of others.

    Args:
        states: Servers that can take the request.
        plan: The roles.
        service: The class.
        now: Monotonic seconds.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """
    members = plan.roles.get(service.name)
    if members is None and not service.limits.any:
        return list(range(len(states)))
    caps, names = plan.caps, [state.backend.name for state in states]
    own = [members is None or name in members for name in names]
    if service.limits.any:
        with_room = [
            at
            for at, state in enumerate(states)
            if own[at] and state.queue(now, stale_after) < caps.get(names[at], _NO_CAP)
        ]
        return with_room or list(range(len(states)))
    part = 0.0 if any(own) else _PART
    return [
        at
        for at, state in enumerate(states)
        if own[at]
        or (queue := state.queue(now, stale_after)) == 0.0
        or queue < part * caps.get(names[at], _NO_CAP)
    ]
