"""Puts telemetry together: Prometheus always, OTLP over HTTP when it has an endpoint; nothing global."""

from __future__ import annotations

import logging
import math
import os
import threading
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from gateway.telemetry import gauges, learned, metrics, names, openmetrics
from gateway.telemetry.histograms import Histograms, PrometheusReader, PushReader
from gateway.telemetry.span_queue import SpanQueue, span_limits
from gateway.telemetry.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.sdk.metrics.export import CardinalityLimits, MetricReader

    from gateway.core.draft_latency import Estimate
    from gateway.core.fleet import Backend, Snapshot
    from gateway.core.gain import Gain
    from gateway.core.gpus import GpuLoad
    from gateway.core.outcome import Record
    from gateway.core.policy import Policy
    from gateway.core.roster import Roster
    from gateway.telemetry.learned import Gains
    from gateway.telemetry.otlp import Value
    from gateway.telemetry.recent import Recent
    from gateway.telemetry.tally import Values

_log = logging.getLogger(__name__)

_SERIES: Final = 100_000
"""Series of one instrument. The SDK's own limit of 2,000 would fold a fleet of 40 backends into one series;
ours are bounded by closed label sets."""


class Telemetry:
    """What finished requests are told to. Made by :func:`setup`.

    Attributes:
        content_type: Of :meth:`exposition`.
        gain: The sums by target, workload and backend; to be read only.
    """

    content_type: Final = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(
        self,
        resource: Resource,
        genai: names.GenAi,
        traces_to: str | None,
        metrics_to: str | None,
        trace_slow: float,
    ) -> None:
        version = str(resource.attributes[SERVICE_VERSION])
        self._snapshot: Callable[[], Snapshot] | None = None
        self._roster: Roster | None = None
        self._by_name: dict[str, Backend] = {}
        self._spans = Spans(_plain(resource), version, self._backend, trace_slow)
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        limits: CardinalityLimits = {ObservableCounter: _SERIES, ObservableGauge: _SERIES}
        self._histograms = histograms = Histograms(metrics.histograms_of(genai))
        readers: list[MetricReader] = [PrometheusReader(histograms, self._registry, limits)]
        self._queue: SpanQueue | None = None
        self._stop_waiting: list[Callable[[], None]] = []
        counts: dict[names.Metric, Callable[[], int]] = {}
        # Imported by those alone who export: it takes a tenth of a second.
        if traces_to is not None:
            from gateway.telemetry.otlp_http import Sender  # noqa: PLC0415

            sender = Sender(traces_to, os.environ)
            self._queue = queue = SpanQueue(sender, self._spans, *span_limits(os.environ))
            self._stop_waiting.append(sender.close)
            counts[names.SPANS_DROPPED] = lambda: queue.dropped
        if metrics_to is not None:
            from gateway.telemetry.otlp_http import MetricSender  # noqa: PLC0415

            points = MetricSender(metrics_to)
            readers.append(PushReader(histograms, points, limits))
            self._stop_waiting.append(points.shutdown)
            counts[names.POINTS_DROPPED] = lambda: points.dropped
        self._provider = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter(names.SCOPE, version)
        self._metrics = metrics.Metrics(self._meter, histograms, genai, self._backends)
        for metric, dropped in counts.items():
            gauges.observe_dropped(self._meter, metric, dropped)
        self.gain: Gain = self._metrics.gain

    def on_record(self, record: Record) -> None:
        """Count a finished request and queue its spans; does not block and reaches no network."""
        queue = self._queue
        traced = queue is not None and self._spans.wanted(record) != ""
        self._metrics.on_record(record, traced=traced)
        if queue is not None and traced:
            queue.put(record)

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        """A counter that finished requests feed, by label values as it is now.

        Raises:
            KeyError: They do not feed it.
        """
        return self._metrics.numbers(metric)

    def sums(self, metric: names.Metric) -> dict[Values, tuple[int, float]]:
        """A histogram that finished requests feed: its measurements and their sum, by label values.

        Raises:
            KeyError: They do not feed it.
        """
        return self._histograms.sums(metric)

    def policy_loaded(self, policy: Policy) -> None:
        """Say that a policy came into force; the labels it names are known workloads from now on."""
        self._metrics.policy_loaded(policy)

    def observe_policy(self, policy: Callable[[], tuple[str, bool]]) -> None:
        """Show the policy in force: its revision, and whether it is what the files say. Call it once."""
        gauges.observe_policy(self._meter, policy)

    def observe_gain(self, clock: Callable[[], float]) -> Recent:
        """Show what speculation gains of late, and give what knows it. Call it once.

        Args:
            clock: Monotonic seconds.
        """
        return gauges.observe_gain(self._meter, self.gain, clock)

    def observe_fleet(self, snapshot: Callable[[], Snapshot], clock: Callable[[], float]) -> None:
        """Show the fleet's state whenever metrics are read. Call it once.

        Args:
            snapshot: Gives the fleet as it is now; may be called from another thread.
            clock: Monotonic seconds, as in the fleet's scrapes.
        """
        self._snapshot = snapshot
        gauges.observe_fleet(self._meter, snapshot, clock)

    def observe_failures(
        self, trips: Mapping[tuple[str, str], int], denied: Callable[[], int], left: Callable[[], float]
    ) -> None:
        """Show trips by backend and reason, and the budget of further attempts. Call it once.

        Args:
            trips: How often each breaker opened, by backend and reason; grows.
            denied: Requests for which there was no budget left.
            left: Further attempts that the budget allows.
        """
        gauges.observe_failures(self._meter, self._backends, trips, denied, left)

    def observe_requests(self, opened: Callable[[], int], queued: Callable[[], int]) -> None:
        """Show how many requests are open, and how many of them wait for a backend. Call it once."""
        gauges.observe_requests(self._meter, opened, queued)

    def observe_gpus(self, loads: Mapping[str, GpuLoad], clock: Callable[[], float]) -> None:
        """Show what the GPUs of backends do. Call it once.

        Args:
            loads: By backend, as they were last seen.
            clock: Monotonic seconds.
        """
        gauges.observe_gpus(self._meter, loads, clock)

    def observe_acceptance(
        self,
        lengths: Callable[[], Iterable[tuple[Values, float]]],
        ages: Callable[[], Iterable[tuple[str, float]]],
        mismatches: Callable[[], Iterable[tuple[str, float]]],
        restarts: Mapping[tuple[str], int],
    ) -> None:
        """Show what is known of acceptance beyond single answers. Call it once.

        Args:
            lengths: Backend, workload and grade, and the mean accepted length.
            ages: Backend, and seconds since its counters were read.
            mismatches: Backend, and the share of its accepted tokens that no answer told of.
            restarts: How often each backend's server was started anew; grows.
        """
        gauges.observe_acceptance(self._meter, self._servers, lengths, ages, mismatches, restarts)

    def observe_draft_latency(self, usual: Callable[[], Iterable[tuple[str, Estimate]]]) -> None:
        """Show what drafting takes: by backend, at the batch it was most at. Call it once."""
        gauges.observe_draft_latency(self._meter, usual)

    def observe_learning(
        self,
        snapshot: Callable[[], Snapshot],
        clock: Callable[[], float],
        explored: Callable[[], int],
        advice: Callable[[], Mapping[str, Gains]],
    ) -> None:
        """Show what was learnt, planned and is advised, see :mod:`.learned`. Call it once."""
        learned.observe_learning(self._meter, snapshot, clock, explored, advice)

    def observe_agreement(
        self,
        rates: Callable[[], Iterable[tuple[str, float]]],
        drifts: Callable[[], Iterable[tuple[str, bool]]],
    ) -> None:
        """Show how well the classifier does. Call it once.

        Args:
            rates: Workload, and the share of its answers that are of that kind.
            drifts: Workload, and whether that share has fallen.
        """
        gauges.observe_agreement(self._meter, rates, drifts)

    def observe_dropped(self, metric: names.Metric, dropped: Callable[[], int]) -> None:
        """Show what never came to telemetry, or is not in a log. Call it once for each counter of such."""
        gauges.observe_dropped(self._meter, metric, dropped)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(openmetrics.Families(self._registry))

    def page(self, accept: str) -> tuple[bytes, str]:
        """All metrics and the content type, in the format that an ``Accept`` header asks for."""
        if openmetrics.wanted(accept):
            return openmetrics.page(self._registry, self._histograms), openmetrics.CONTENT_TYPE
        return self.exposition(), self.content_type

    def close(self, timeout: float = 5.0) -> None:
        """Send what is queued and stop; blocks, so call it in a thread.

        Args:
            timeout: Seconds after which what is left is given up.
        """
        worker = threading.Thread(target=self._shutdown, name="telemetry-shutdown", daemon=True)
        worker.start()
        worker.join(timeout)
        if worker.is_alive():
            _log.warning("telemetry could not be sent within %g s, the rest is lost", timeout)
            for stop in self._stop_waiting:
                stop()

    def _shutdown(self) -> None:
        if self._queue is not None:
            self._queue.close()
        try:
            self._provider.shutdown()
        except Exception:  # noqa: BLE001 - the SDK raises that class when a reader is late
            _log.warning("metrics were not sent to the end", exc_info=True)

    def _backends(self) -> list[Backend]:
        return [state.backend for state in self._snapshot().everybody] if self._snapshot is not None else []

    def _servers(self) -> list[Backend]:
        return [backend for backend in self._backends() if not backend.stands_in]

    def _backend(self, name: str) -> Backend | None:
        if self._snapshot is None:
            return None
        snapshot = self._snapshot()
        if snapshot.roster is not self._roster:
            self._by_name = {state.backend.name: state.backend for state in snapshot.everybody}
            self._roster = snapshot.roster
        return self._by_name.get(name)


def _plain(resource: Resource) -> dict[str, Value]:
    return {
        name: value if isinstance(value, str | bool | int | float) else str(value)
        for name, value in resource.attributes.items()
    }


def setup(
    *,
    traces_to: str | None = None,
    metrics_to: str | None = None,
    service_name: str = "specroute",
    service_version: str = "",
    semconv: str = "0.1.0",
    resource_attributes: Mapping[str, str] | None = None,
    trace_slow: float = math.inf,
) -> Telemetry:
    """Start telemetry.

    Args:
        traces_to: Whole address of an OTLP/HTTP receiver, such as ``http://collector:4318/v1/traces``. None
            keeps spans in the process. Headers, certificates and intervals are taken from the standard
            ``OTEL_*`` variables.
        metrics_to: The same for metrics.
        service_name: ``service.name`` of the resource.
        service_version: ``service.version`` of the resource.
        semconv: Version of the GenAI conventions, a key of :data:`gateway.telemetry.names.GENAI`.
        resource_attributes: Further attributes of the resource; they win.
        trace_slow: See :class:`.Spans`.

    Raises:
        ValueError: There is no such version of the conventions.
    """
    if semconv not in names.GENAI:
        raise ValueError(f"semconv must be one of {', '.join(names.GENAI)}, not {semconv!r}")
    resource = Resource.create(
        {SERVICE_NAME: service_name, SERVICE_VERSION: service_version, **(resource_attributes or {})}
    )
    return Telemetry(resource, names.GENAI[semconv], traces_to, metrics_to, trace_slow)
