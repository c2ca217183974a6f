"""What was learnt, planned and is advised, as gauges read whenever metrics are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gateway.core.predict import SAMPLED, Cell
from gateway.telemetry import names
from gateway.telemetry.tally import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.metrics import Meter

    from gateway.core.fleet import Snapshot
    from gateway.core.plan import Plan
    from gateway.telemetry.tally import Values


_STALE: Final = 15.0
"""Seconds after which a scrape says nothing of the load of now."""


class Gains(Protocol):
    """What is advised for one target."""

    @property
    def routing(self) -> float:
        """What telling workloads apart adds, as a share."""
        ...

    @property
    def consolidating(self) -> Mapping[str, float]:
        """What each backend's configuration on all servers would add, as a share."""
        ...


def observe_learning(
    meter: Meter,
    snapshot: Callable[[], Snapshot],
    clock: Callable[[], float],
    explored: Callable[[], int],
    advice: Callable[[], Mapping[str, Gains]],
) -> None:
    """Register all of it.

    Args:
        meter: Where it belongs.
        snapshot: Gives the fleet as it is now.
        clock: Monotonic seconds.
        explored: Requests that explored so far.
        advice: By target.
    """
    observe(meter, names.LEARNED_LENGTH, lambda: _lengths(snapshot()))
    observe(meter, names.LEARNED_STEP, lambda: _steps(snapshot(), clock()))
    observe(meter, names.EXPLORED, lambda: [((), explored())])
    observe(meter, names.PLAN_ROLE, lambda: _roles(snapshot().guide.plan))
    observe(
        meter, names.PLAN_KEPT, lambda: [((to,), plan.kept) for to, plan in snapshot().guide.plan.items()]
    )
    observe(meter, names.ROUTING_GAIN, lambda: [((to,), one.routing) for to, one in tuple(advice().items())])
    observe(meter, names.CONSOLIDATION_GAIN, lambda: _consolidating(advice()))


def _lengths(snapshot: Snapshot) -> Iterator[tuple[Values, float]]:
    for state in snapshot.states:
        model = state.model
        if model is not None and not state.backend.is_baseline:
            for workload in model.evidence:
                if (steps := model.steps_per_token.get(Cell(workload, 0, SAMPLED))) is not None:
                    yield (state.backend.name, workload), 1.0 / steps


def _steps(snapshot: Snapshot, now: float) -> Iterator[tuple[Values, float]]:
    for state in snapshot.states:
        if state.model is not None and state.model.measured:
            yield (state.backend.name,), state.model.step(max(1.0, state.queue(now, _STALE)))


def _roles(plans: Mapping[str, Plan]) -> Iterator[tuple[Values, float]]:
    for plan in plans.values():
        for service, members in plan.roles.items():
            for backend in sorted(members):
                yield (backend, service), 1.0


def _consolidating(advice: Mapping[str, Gains]) -> Iterator[tuple[Values, float]]:
    for target, one in tuple(advice.items()):
        for backend, gain in one.consolidating.items():
            yield (target, backend), gain
