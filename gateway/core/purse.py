"""What exploration may cost: a token bucket by workload, so that the share holds in every stretch of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BURST: Final = 3.0
"""Requests that can be saved up: of n in a row of one workload, at most share·n + 3 explore."""

DEBT: Final = 3.0
"""Requests of the baseline's floor that may be missing before one is due."""

LOSS: Final = 0.01
"""Share of a workload's predicted seconds that exploration may cost, in seconds lost as far as is known.
None pays for another: what is explored in vain would leave nothing for where it is not."""

KNEE: Final = 0.7
"""Share of all requests that the servers' batches hold from which nothing is explored."""

_SAVED_SECONDS: Final = 20.0


@dataclass(slots=True)
class Purse:
    """Budgets of exploration and debts to the baseline, by workload. Has one owner.

    Attributes:
        explored: Requests that explored.
        requests: All requests.
    """

    explored: int = 0
    requests: int = 0
    _left: dict[str, float] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    _seconds: dict[str, float] = field(default_factory=dict)

    def decided(
        self,
        workload: str,
        share: float,
        floor: float,
        *,
        explored: bool,
        baseline: bool,
        cost: float,
        lost: float,
    ) -> None:
        """Count a decision.

        Args:
            workload: Its label.
            share: Share of the requests that may explore.
            floor: Share that goes to a baseline at least.
            explored: It explored.
            baseline: It went to a baseline.
            cost: Predicted seconds of what was chosen.
            lost: What the best was predicted to cost less.
        """
        self.requests += 1
        self.explored += explored
        left = self._left.get(workload, 0.0) + share - explored
        self._left[workload] = min(BURST, left)
        self._due[workload] = max(-DEBT, self._due.get(workload, 0.0) + floor - baseline)
        self.save(workload, LOSS * cost - (lost if explored else 0.0))

    def save(self, workload: str, seconds: float) -> None:
        """So many more seconds may be lost: they were earned, or turned out not to be lost after all."""
        self._seconds[workload] = min(_SAVED_SECONDS, self._seconds.get(workload, 0.0) + seconds)

    def explorable(self) -> frozenset[str]:
        """Workloads that have budget left for one more."""
        return frozenset(
            workload for workload, left in self._left.items() if left >= 1.0 and self._seconds[workload] > 0.0
        )

    def due(self) -> frozenset[str]:
        """Workloads whose next request should go to a baseline."""
        return frozenset(workload for workload, due in self._due.items() if due >= DEBT)
