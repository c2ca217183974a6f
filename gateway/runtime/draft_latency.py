"""Owner of the servers' step times by batch, and of what they tell of drafting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.core.counters import restarted
from gateway.core.draft_gaps import wanting
from gateway.core.draft_latency import StepTimes, estimates, window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gateway.core.counters import Counters
    from gateway.core.draft_latency import Estimate
    from gateway.core.fleet import Backend, Snapshot


HARDWARE: Final = "hardware"
"""Label by which a fleet file tells machines apart."""


class DraftLatency:
    """Step times of all servers since each was last started. One event loop owns it; telemetry reads."""

    def __init__(self, snapshot: Callable[[], Snapshot], *, window: float = 10.0) -> None:
        """Know nothing yet.

        Args:
            snapshot: Gives the fleet as it is.
            window: Seconds of the windows that counters are compared over.
        """
        self._snapshot = snapshot
        self._window = window
        self._marks: dict[str, Counters] = {}
        self._last: dict[str, Counters] = {}
        self._times: dict[str, StepTimes] = {}

    def counted(self, backend: str, counters: Counters) -> None:
        """Take in what a backend's server has counted so far."""
        last = self._last.get(backend)
        self._last[backend] = counters
        if last is None or restarted(last, counters):
            # Nothing says that it runs what it ran before.
            self._times[backend] = StepTimes()
            self._marks[backend] = counters
        elif counters.at - self._marks[backend].at >= self._window:
            if (found := window(self._marks[backend], counters)) is not None:
                self._times[backend].add(found)
            self._marks[backend] = counters

    def estimates(self) -> Iterator[tuple[Backend, list[Estimate]]]:
        """Every backend with a draft, and what drafting takes there by batch, as far as can be told."""
        for backend, times, baselines in self._compared():
            if times is not None:
                yield backend, estimates(times, baselines)

    def wanting(self) -> dict[str, str]:
        """By backend with a draft of which nothing can be told: what has to be seen first, in words."""
        told = (
            (backend.name, wanting(times or StepTimes(), baselines, self._window))
            for backend, times, baselines in self._compared()
        )
        return {name: words for name, words in told if words}

    def _compared(self) -> Iterator[tuple[Backend, StepTimes | None, list[StepTimes]]]:
        """Every backend with a draft: its times, None before any counters, and the baselines'."""
        backends = [state.backend for state in self._snapshot().states]
        for backend in backends:
            if not backend.is_baseline:
                like = [one.name for one in backends if one.is_baseline and _alike(one, backend)]
                yield (
                    backend,
                    self._times.get(backend.name),
                    [self._times.get(name) or StepTimes() for name in like],
                )

    def usual(self) -> Iterator[tuple[str, Estimate]]:
        """For each backend where drafting can be told apart, the estimate at the batch it was most at."""
        for backend, found in self.estimates():
            told = [one for one in found if one.seconds is not None]
            if told:
                yield backend.name, max(told, key=lambda one: one.windows)

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """All estimates by backend, as plain data; seconds."""
        return {
            backend.name: [
                {
                    "batch": round(one.batch, 2),
                    "step": one.step,
                    "draft": one.seconds,
                    "low": one.low,
                    "high": one.high,
                    "most": one.most,
                    "grade": "estimate",
                }
                for one in found
            ]
            for backend, found in self.estimates()
        }


def _alike(one: Backend, other: Backend) -> bool:
    """Whether both run the same model on what the fleet file says is the same hardware."""
    return one.target == other.target and one.labels.get(HARDWARE) == other.labels.get(HARDWARE)
