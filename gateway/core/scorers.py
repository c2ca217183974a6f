"""What sending a request to each candidate costs; lower is better. One function a scorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.fleet import BackendState


@dataclass(frozen=True, slots=True)
class Costing:
    """What a scorer may look at: all candidates at once, so that a thousand of them take one call.

    Attributes:
        candidates: Each with its rank in the route's preferences, 0 first.
        now: Monotonic seconds.
        stale_after: Age in seconds beyond which scraped load is ignored.
    """

    candidates: Sequence[tuple[BackendState, int]]
    now: float
    stale_after: float


def preference(costing: Costing) -> list[float]:
    """Rank in the route's list: 0 for the first choice, 1 for the second."""
    return [float(rank) for _, rank in costing.candidates]


def load(costing: Costing) -> list[float]:
    """Requests on the server as a share of its in-flight limit: 0 idle, 1 at the limit."""
    now, stale_after = costing.now, costing.stale_after
    return [state.queue(now, stale_after) / state.backend.max_in_flight for state, _ in costing.candidates]


SCORERS: Final[Mapping[str, Callable[[Costing], list[float]]]] = {"preference": preference, "load": load}
"""Scorers by the name a policy file uses."""
