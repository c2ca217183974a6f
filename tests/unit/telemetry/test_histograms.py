from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric, MetricsData
from opentelemetry.sdk.resources import Resource

from gateway.telemetry import names
from gateway.telemetry.histograms import Histograms
from gateway.telemetry.tally import tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.outcome import Record
    from gateway.telemetry.histograms import Request

EAGLE = ("math", "eagle", "eagle3")


def request(record: Record, *, traced: bool = False) -> Request:
    return record.started_unix_ns, record.trace if traced else None


def collected() -> MetricsData:
    """What the SDK collects from one counter of ours and one of another scope."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], Resource({}), shutdown_on_exit=False)
    provider.get_meter("foreign").create_counter("foreign").add(1)
    tally(provider.get_meter(names.SCOPE), names.FAILOVERS).row(("eagle",))["reset"] += 1
    data = reader.get_metrics_data()
    provider.shutdown()
    assert data is not None
    return data


def own(data: MetricsData) -> dict[str, Metric]:
    foreign, ours = data.resource_metrics[0].scope_metrics
    assert [metric.name for metric in foreign.metrics] == ["foreign"]
    return {metric.name: metric for metric in ours.metrics}


def points(data: MetricsData, metric: names.Metric) -> Sequence[HistogramDataPoint]:
    found = own(data)[metric.name].data.data_points
    assert all(isinstance(point, HistogramDataPoint) for point in found)
    return found  # type: ignore[return-value]


def test_measurements_are_counted_by_bucket_and_label(record: Record) -> None:
    histograms = Histograms([names.TPOT])
    for number in (0.0001, 0.0002, 0.00021, 99.0):  # a bound belongs to the bucket below it
        histograms.series(names.TPOT, EAGLE).add(number, request(record))
    histograms.series(names.TPOT, ("math", "", "")).add(0.3, request(record))
    eagle, none = points(histograms.added_to(collected(), exemplars=False), names.TPOT)
    assert eagle.bucket_counts == (2, 1, *[0] * (len(names.TPOT.buckets) - 2), 1)
    assert eagle.explicit_bounds == names.TPOT.buckets
    assert eagle.count == 4
    assert eagle.sum == pytest.approx(99.00051)
    assert (eagle.min, eagle.max) == (0.0001, 99.0)
    assert dict(eagle.attributes or {}) == {"workload": "math", "backend": "eagle", "method": "eagle3"}
    assert dict(none.attributes or {}) == {"workload": "math"}


def test_they_stand_beside_what_the_sdk_collected_at_the_same_time(record: Record) -> None:
    histograms = Histograms([names.TPOT, names.TTFT])
    histograms.series(names.TPOT, EAGLE).add(0.01, request(record))
    data = collected()
    merged = histograms.added_to(data, exemplars=False)
    assert list(own(merged)) == [names.FAILOVERS.name, names.TPOT.name]  # none without a measurement
    assert (own(merged)[names.TPOT.name].unit, own(merged)[names.TPOT.name].description) == (
        "s",
        names.TPOT.help,
    )
    (point,) = points(merged, names.TPOT)
    (counter,) = own(data)[names.FAILOVERS.name].data.data_points
    assert point.time_unix_nano == counter.time_unix_nano
    assert point.start_time_unix_nano == record.started_unix_ns


def test_they_are_cumulative_for_every_reader(record: Record) -> None:
    histograms = Histograms([names.TPOT])
    for count in (1, 2, 3):
        histograms.series(names.TPOT, EAGLE).add(0.01, request(record))
        (point,) = points(histograms.added_to(collected(), exemplars=False), names.TPOT)
        assert point.count == count


def test_a_bucket_hands_over_the_trace_of_its_last_traced_request_once(record: Record) -> None:
    histograms = Histograms([names.TPOT])
    later = replace(record, trace=replace(record.trace, trace_id="9" * 32))
    for number, each, traced in (
        (0.01, record, True),
        (0.0099, later, True),
        (0.0098, record, False),
        (1.0, record, True),
    ):
        histograms.series(names.TPOT, EAGLE).add(number, request(each, traced=traced))
    (shown,) = points(histograms.added_to(collected(), exemplars=False), names.TPOT)
    assert shown.exemplars == []
    (pushed,) = points(histograms.added_to(collected(), exemplars=True), names.TPOT)
    assert [(each.value, each.trace_id, each.span_id) for each in pushed.exemplars] == [
        (0.0099, int("9" * 32, 16), int("b" * 16, 16)),
        (1.0, int("a" * 32, 16), int("b" * 16, 16)),
    ]
    assert pushed.exemplars[0].time_unix_nano == record.started_unix_ns
    (again,) = points(histograms.added_to(collected(), exemplars=True), names.TPOT)
    assert again.exemplars == []


def test_without_a_trace_there_is_no_exemplar(record: Record) -> None:
    histograms = Histograms([names.TPOT])
    histograms.series(names.TPOT, EAGLE).add(0.01, request(record))
    (point,) = points(histograms.added_to(collected(), exemplars=True), names.TPOT)
    assert point.exemplars == []
