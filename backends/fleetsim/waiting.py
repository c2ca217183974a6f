"""Who waits in the gateway for room, and for how long, as its own queue has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.fleetsim.request import Request
    from gateway.core.classes import ServiceClass
    from gateway.core.decide import NoCandidate
    from gateway.core.policy import Waiting


class Line:
    """Requests that the gateway holds.

    Args:
        limits: Of the policy.
    """

    def __init__(self, limits: Waiting) -> None:
        self._limits = limits
        self._held: set[int] = set()

    def takes(self, request: Request, refused: NoCandidate, service: ServiceClass, now: float) -> bool:
        """Whether a request without a server waits, or goes on waiting; if not, it is turned away."""
        wait = self._limits.wait if service.wait is None else service.wait
        there = request.serial in self._held
        if refused.busy and now - request.arrived < wait and (there or len(self._held) < self._limits.length):
            self._held.add(request.serial)
            return True
        self.left(request)
        return False

    def left(self, request: Request) -> None:
        """It waits no longer."""
        self._held.discard(request.serial)
