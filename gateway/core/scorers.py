"""What sending a request to a backend costs; lower is better. One function a scorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.core.fleet import BackendState


@dataclass(frozen=True, slots=True)
class Costing:
    """What a scorer may look at.

    Attributes:
        rank: Position of the backend in the route's preferences, 0 first.
        now: Monotonic seconds.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """

    state: BackendState
    rank: int
    now: float
    stale_after: float


def preference(costing: Costing) -> float:
    """Position in the route's list: 0 for the first choice, 1 for the second."""
    return float(costing.rank)


def load(costing: Costing) -> float:
    """Requests on the server as a share of its in-flight limit: 0 idle, 1 at the limit."""
    return costing.state.queue(costing.now, costing.stale_after) / costing.state.backend.max_in_flight


SCORERS: Final[Mapping[str, Callable[[Costing], float]]] = {"preference": preference, "load": load}
"""Scorers by the name a policy file uses."""
