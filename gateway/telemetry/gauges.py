"""What is read rather than counted: the state of fleet, policy and queue, and the gain so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core.breaker import CLOSED, HALF_OPEN, OPEN, TRIPS
from gateway.telemetry import names
from gateway.telemetry.recent import Recent
from gateway.telemetry.tally import Values, observe, or_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opentelemetry.metrics import Meter

    from gateway.core.draft_latency import Estimate
    from gateway.core.fleet import Backend, BackendState, Load, Snapshot
    from gateway.core.gain import Gain, Speedup
    from gateway.core.gpus import GpuLoad


_STATES: Final = {CLOSED: 0, HALF_OPEN: 1, OPEN: 2}


def observe_fleet(meter: Meter, snapshot: Callable[[], Snapshot], clock: Callable[[], float]) -> None:
    """Register the gauges of every backend in the fleet.

    Args:
        meter: Where they belong.
        snapshot: Gives the fleet as it is now; may be called from another thread.
        clock: Monotonic seconds, the clock of :attr:`gateway.core.fleet.Load.at`.
    """

    def per_backend(metric: names.Metric, read: Callable[[BackendState], float]) -> None:
        observe(meter, metric, lambda: [((one.backend.name,), read(one)) for one in snapshot().everybody])

    def per_scrape(metric: names.Metric, read: Callable[[Load], float | None]) -> None:
        def values() -> Iterator[tuple[Values, float]]:
            for state in snapshot().states:
                if state.load is not None and (number := read(state.load)) is not None:
                    yield (state.backend.name,), number

        observe(meter, metric, values)

    def info() -> Iterator[tuple[Values, float]]:
        for state in snapshot().everybody:
            backend = state.backend
            yield (backend.name, backend.target, backend.method, str(backend.draft_tokens)), 1

    per_backend(names.IN_FLIGHT, lambda state: state.in_flight)
    per_backend(names.HEALTHY, lambda state: int(state.healthy))
    per_backend(names.AVAILABLE, lambda state: int(state.available(clock())))
    per_backend(names.LIMIT, lambda state: state.limit(clock()))
    per_backend(names.BREAKER_STATE, lambda state: _STATES[state.breaker.phase(clock())])
    observe(meter, names.SCRAPE_AGE, _Ages(snapshot, clock))
    per_scrape(names.RUNNING, lambda load: load.running)
    per_scrape(names.WAITING, lambda load: load.waiting)
    per_scrape(names.KV_USAGE, lambda load: load.kv_usage)
    observe(meter, names.BACKEND_INFO, info)


class _Ages:
    """Seconds since each server last told of its load, or else since it was first seen.

    No alert would see one that is absent.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._silent: dict[str, float] = {}
        """When each that never told was first seen."""

    def __call__(self) -> list[tuple[Values, float]]:
        now, states, known = self._clock(), self._snapshot().states, self._silent
        at = {
            state.backend.name: known.get(state.backend.name, now) if state.load is None else state.load.at
            for state in states
        }
        self._silent = {state.backend.name: at[state.backend.name] for state in states if state.load is None}
        return [((name,), now - since) for name, since in at.items()]


def observe_failures(
    meter: Meter,
    backends: Callable[[], Iterable[Backend]],
    trips: Mapping[tuple[str, str], int],
    denied: Callable[[], int],
    left: Callable[[], float],
) -> None:
    """Register what the fleet counts when requests fail.

    Args:
        meter: Where they belong.
        backends: The fleet; those whose breakers never opened are at 0.
        trips: How often each breaker opened, by backend and reason; grows.
        denied: Requests for which there was no budget left.
        left: Further attempts that the budget allows.
    """

    def at_zero() -> Iterator[tuple[str, str]]:
        return ((backend.name, reason) for backend in backends() for reason in TRIPS)

    observe(meter, names.BREAKER_TRIPS, lambda: or_zero(trips, at_zero()))
    observe(meter, names.RETRIES_DENIED, lambda: [((), denied())])
    observe(meter, names.RETRIES_LEFT, lambda: [((), left())])


def observe_requests(meter: Meter, opened: Callable[[], int], queued: Callable[[], int]) -> None:
    """Register how many requests are open, and how many of them wait for a backend."""
    observe(meter, names.OPEN, lambda: [((), opened())])
    observe(meter, names.QUEUED, lambda: [((), queued())])


def observe_gpus(meter: Meter, loads: Mapping[str, GpuLoad], clock: Callable[[], float]) -> None:
    """Register what the GPUs of backends do.

    Args:
        meter: Where it belongs.
        loads: By backend, as they were last seen.
        clock: Monotonic seconds.
    """

    def per_backend(metric: names.Metric, read: Callable[[GpuLoad], float | None]) -> None:
        def values() -> Iterator[tuple[Values, float]]:
            for name, load in tuple(loads.items()):
                if (number := read(load)) is not None:
                    yield (name,), number

        observe(meter, metric, values)

    per_backend(names.GPU_MEMORY, lambda load: load.memory)
    per_backend(names.GPU_ACTIVITY, lambda load: load.activity)
    per_backend(names.GPU_POWER, lambda load: load.power)
    per_backend(names.GPU_AGE, lambda load: clock() - load.at)


def observe_acceptance(
    meter: Meter,
    backends: Callable[[], Iterable[Backend]],
    lengths: Callable[[], Iterable[tuple[Values, float]]],
    ages: Callable[[], Iterable[tuple[str, float]]],
    mismatches: Callable[[], Iterable[tuple[str, float]]],
    restarts: Mapping[tuple[str], int],
) -> None:
    """Register what is known of acceptance beyond single answers.

    Args:
        meter: Where it belongs.
        backends: The fleet; those whose servers were never started anew are at 0.
        lengths: Backend, workload and grade, and the mean accepted length.
        ages: Backend, and seconds since its counters were read.
        mismatches: Backend, and the share of its accepted tokens that no answer told of.
        restarts: How often each backend's server was started anew; grows.
    """
    observe(meter, names.BACKEND_LENGTH, lengths)
    observe(meter, names.COUNTERS_AGE, lambda: [((name,), age) for name, age in ages()])
    observe(meter, names.COUNTERS_MISMATCH, lambda: [((name,), off) for name, off in mismatches()])
    observe(meter, names.RESTARTS, lambda: or_zero(restarts, ((each.name,) for each in backends())))


def observe_draft_latency(meter: Meter, usual: Callable[[], Iterable[tuple[str, Estimate]]]) -> None:
    """Register what drafting takes.

    Args:
        meter: Where it belongs.
        usual: Backend, and the estimate at the batch it was most at; one that tells the draft apart.
    """

    def per_backend(metric: names.Metric, read: Callable[[Estimate], float | None]) -> None:
        def values() -> Iterator[tuple[Values, float]]:
            for backend, estimate in usual():
                if (number := read(estimate)) is not None:
                    yield (backend, names.ESTIMATE), number

        observe(meter, metric, values)

    per_backend(names.DRAFT_LATENCY, lambda estimate: estimate.seconds)
    per_backend(names.DRAFT_LATENCY_LOW, lambda estimate: estimate.low)
    per_backend(names.DRAFT_LATENCY_HIGH, lambda estimate: estimate.high)


def observe_agreement(
    meter: Meter,
    rates: Callable[[], Iterable[tuple[str, float]]],
    drifts: Callable[[], Iterable[tuple[str, bool]]],
) -> None:
    """Register how well the classifier does.

    Args:
        meter: Where it belongs.
        rates: Workload, and the share of its answers that are of that kind.
        drifts: Workload, and whether that share has fallen.
    """
    observe(meter, names.AGREEMENT, lambda: [((workload,), rate) for workload, rate in rates()])
    observe(meter, names.DRIFT, lambda: [((workload,), int(drifted)) for workload, drifted in drifts()])


def observe_gain(meter: Meter, gain: Gain, clock: Callable[[], float]) -> Recent:
    """Register the gauges of speed-up, of late, and mean accepted length, since the start.

    Returns:
        What knows the speed-ups.

    Args:
        meter: Where they belong.
        gain: The sums since the start.
        clock: Monotonic seconds.
    """
    recent = Recent(gain, clock)

    def per_speedup(metric: names.Metric, read: Callable[[Speedup], float]) -> None:
        def values() -> Iterator[tuple[Values, float]]:
            for cell, speedup in recent.speedups():
                yield (cell.workload, cell.backend, gain.method(cell)), read(speedup)

        observe(meter, metric, values)

    def lengths() -> Iterator[tuple[Values, float]]:
        for cell, sums in gain.cells():
            labels = (cell.workload, cell.backend, gain.method(cell))
            by_steps, by_requests = sums.mean_accepted_length, sums.mean_accepted_length_by_request
            if by_steps is not None and by_requests is not None:
                yield (*labels, "steps"), by_steps
                yield (*labels, "requests"), by_requests

    per_speedup(names.SPEEDUP, lambda speedup: speedup.ratio)
    per_speedup(names.SPEEDUP_LOW, lambda speedup: speedup.low)
    per_speedup(names.SPEEDUP_HIGH, lambda speedup: speedup.high)
    observe(meter, names.ACCEPTED_LENGTH, lengths)
    return recent


def observe_policy(meter: Meter, policy: Callable[[], tuple[str, bool]]) -> None:
    """Register the gauge of the policy in force: its revision, and whether it is what the files say."""

    def current() -> Iterator[tuple[Values, float]]:
        revision, up_to_date = policy()
        yield (revision,), int(up_to_date)

    observe(meter, names.POLICY_CURRENT, current)


def observe_dropped(meter: Meter, metric: names.Metric, dropped: Callable[[], int]) -> None:
    """Register a counter of what never came to where it should."""
    observe(meter, metric, lambda: [((), dropped())])
