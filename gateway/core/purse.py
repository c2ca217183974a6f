"""What exploration may cost: a token bucket for each workload, so that its share holds at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

BURST: Final = 3.0
"""Requests that can be saved up: of n in a row of one workload, at most share·n + 3 explore."""

DEBT: Final = 3.0
"""Requests of the baseline's floor that may be missing before one is due, and that are missing at most: what
was not paid for a while is not paid at once."""

LOSS: Final = 0.01
"""Share of a workload's predicted seconds that exploration may cost, in seconds lost as far as is known.
None pays for another: what is explored in vain would leave nothing for where it is not."""

KNEE: Final = 0.7
"""Share of all requests that the servers' batches hold from which nothing is explored."""

_SAVED_SECONDS: Final = 20.0


@dataclass(slots=True)
class Purse:
    """Budgets of exploration and debts to the baseline, by target model and workload. Has one owner.

    Attributes:
        explored: Requests that explored.
        requests: All requests.
    """

    explored: int = 0
    requests: int = 0
    _left: dict[tuple[str, str], float] = field(default_factory=dict)
    _due: dict[tuple[str, str], float] = field(default_factory=dict)
    _seconds: dict[tuple[str, str], float] = field(default_factory=dict)

    def decided(
        self,
        of: tuple[str, str],
        share: float,
        floor: float,
        *,
        explored: bool,
        baseline: bool,
        pays: bool,
        cost: float,
        lost: float,
    ) -> None:
        """Count a decision.

        Args:
            of: Target model and label of the workload.
            share: Share of the requests that may explore.
            floor: Share that goes to a baseline at least, of those that can pay.
            explored: It explored.
            baseline: It went to a baseline.
            pays: It would have gone to a baseline, had one been due.
            cost: Predicted seconds of what was chosen; 0 where nothing predicted them.
            lost: What the best was predicted to cost less.
        """
        self.requests += 1
        self.explored += explored
        self._left[of] = min(BURST, self._left.get(of, 0.0) + share - explored)
        if pays:
            self._due[of] = min(DEBT, max(-DEBT, self._due.get(of, 0.0) + floor - baseline))
        self.save(of, LOSS * cost - (lost if explored else 0.0))

    def save(self, of: tuple[str, str], seconds: float) -> None:
        """So many more seconds may be lost: they were earned, or turned out not to be lost after all."""
        self._seconds[of] = min(_SAVED_SECONDS, self._seconds.get(of, 0.0) + seconds)

    def explorable(self) -> frozenset[tuple[str, str]]:
        """Targets and workloads that have budget left for one more."""
        return frozenset([of for of, left in self._left.items() if left >= 1.0 and self._seconds[of] > 0.0])

    def due(self) -> frozenset[tuple[str, str]]:
        """Targets and workloads whose next request should go to a baseline."""
        return frozenset([of for of, due in self._due.items() if due >= DEBT])
