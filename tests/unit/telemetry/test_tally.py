from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

from gateway.telemetry import names
from gateway.telemetry.tally import tally


def test_sums_are_read_when_metrics_are_collected_by_every_reader() -> None:
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    provider = MeterProvider(readers, shutdown_on_exit=False)
    numbers = tally(provider.get_meter("test"), names.FAILOVERS)
    numbers.row(("eagle",))["connect"] += 1
    numbers.row(("eagle",))["connect"] += 2
    numbers.row(("plain",))["reset"] += 1
    for reader in readers:
        for _ in range(2):  # cumulative: reading takes nothing away
            data = reader.get_metrics_data()
            assert data is not None
            (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
            assert (metric.name, metric.unit) == (names.FAILOVERS.name, names.FAILOVERS.unit)
            assert isinstance(metric.data, Sum)
            assert metric.data.is_monotonic
            assert [(dict(point.attributes or {}), point.value) for point in metric.data.data_points] == [
                ({"backend": "eagle", "error": "connect"}, 3),
                ({"backend": "plain", "error": "reset"}, 1),
            ]
    provider.shutdown()
