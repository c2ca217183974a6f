from __future__ import annotations

import pytest

from gateway.telemetry import names
from gateway.telemetry.dashboards import promql


def test_counters_are_rates_and_gauges_are_not() -> None:
    assert promql.per_second(names.REQUESTS, "backend", where='status="ok"', window="5m") == (
        'sum by (backend) (rate(specroute_requests_total{status="ok"}[5m]))'
    )
    assert promql.growth(names.RETRIES_DENIED) == (
        "sum(increase(specroute_retries_denied_total[$__rate_interval]))"
    )
    assert promql.now(names.OPEN, how="sum") == "sum(specroute_requests_open)"


def test_a_quantile_keeps_the_bounds() -> None:
    assert promql.quantile(0.95, names.TTFT, "backend") == (
        "histogram_quantile(0.95, sum by (backend, le) (rate(specroute_ttft_seconds_bucket[$__rate_interval])))"
    )


def test_what_each_gateway_sees_counts_once() -> None:
    assert promql.growth(names.RESTARTS, "backend", how="max") == (
        "max by (backend) (increase(specroute_backend_restarts_total[$__rate_interval]))"
    )
    assert promql.backends(names.PLAN_ROLE, "class") == (
        "sum by (class) (max by (backend, class) (specroute_plan_role))"
    )


def test_a_mean_is_of_sums() -> None:
    assert promql.mean(names.TTFT, "backend", window="5m") == (
        "sum by (backend) (rate(specroute_ttft_seconds_sum[5m])) "
        "/ (sum by (backend) (rate(specroute_ttft_seconds_count[5m])) > 0)"
    )


def test_what_has_a_backend_has_its_target() -> None:
    info = (
        "on (backend, instance, job, worker) group_left (target) "
        "max by (backend, target, instance, job, worker) (specroute_backend_info)"
    )
    assert promql.per_second(names.STEPS, "target", window="5m") == (
        f"sum by (target) (rate(specroute_speculation_steps_total[5m]) * {info})"
    )
    assert promql.now(names.AVAILABLE, "target") == f"max by (target) (specroute_backend_available * {info})"
    assert promql.now(names.PLAN_KEPT, "target") == "max by (target) (specroute_plan_kept)"
    with pytest.raises(ValueError, match=r"specroute\.requests\.open has no label target"):
        promql.now(names.OPEN, "target")


def test_parts_of_a_whole() -> None:
    assert promql.ratio("a", "b") == "a / (b > 0)"
    assert promql.share("a", "b") == "(a or 0 * b) / (b > 0)"
    assert promql.of_each("a", "b", "x", "y") == "a / on (x, y) group_left () (b > 0)"
    assert promql.or_zero("a") == "(a or on () vector(0))"


def test_a_label_that_a_metric_lacks_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"specroute\.requests has no label position"):
        promql.per_second(names.REQUESTS, "backend", "position")


@pytest.mark.parametrize(
    ("make", "metric"),
    [
        (promql.per_second, names.OPEN),
        (promql.growth, names.TTFT),
        (promql.now, names.REQUESTS),
        (lambda metric: promql.quantile(0.5, metric), names.REQUESTS),
    ],
)
def test_a_kind_that_does_not_fit_is_a_mistake(make, metric) -> None:
    with pytest.raises(ValueError, match=f"{metric.name} is a {metric.kind}, not a"):
        make(metric)
