"""PromQL expressions over the table of names: a label that a metric does not have is a mistake right here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.telemetry.names import BACKEND, BACKEND_INFO, COUNTER, GAUGE, HISTOGRAM, TARGET, Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

PANEL: Final = "$__rate_interval"
"""Window of a panel: Grafana puts in what suits the time range and the scrape interval."""

_PROCESS: Final = "instance, job, worker"
"""Labels of one process: gateways may have different servers of one name, for a while or always."""

_TARGETS: Final = f"max by (backend, target, {_PROCESS}) ({BACKEND_INFO.prometheus})"
"""The target model of each backend."""


def per_second(metric: Metric, *by: str, where: str = "", window: str = PANEL) -> str:
    """What a counter grows by each second, summed.

    Args:
        metric: A counter.
        by: Labels to keep; here and below ``target``, too, of what has the label ``backend``.
        where: Label matchers, as in ``status="ok"``.
        window: Over which it is averaged.

    Raises:
        ValueError: The metric is no counter or lacks a label.
    """
    _check(metric, COUNTER, by)
    return _over("sum", metric, by, f"rate({metric.prometheus}{_where(where)}[{window}])")


def growth(metric: Metric, *by: str, how: str = "sum", where: str = "", window: str = PANEL) -> str:
    """What a counter grows by in a window; arguments as of :func:`per_second`.

    With ``max`` for ``how``, what each of several gateways sees and counts is counted once.
    """
    _check(metric, COUNTER, by)
    return _over(how, metric, by, f"increase({metric.prometheus}{_where(where)}[{window}])")


def now(metric: Metric, *by: str, how: str = "max", where: str = "") -> str:
    """A gauge as it is, one series for each set of the labels.

    Args:
        metric: A gauge.
        by: Labels to keep.
        how: Aggregation over the others, and over several gateways.
        where: Label matchers.

    Raises:
        ValueError: The metric is no gauge or lacks a label.
    """
    _check(metric, GAUGE, by)
    return _over(how, metric, by, metric.prometheus + _where(where))


def backends(metric: Metric, *by: str, where: str = "") -> str:
    """How many backends have a gauge at 1, each counted once however many gateways say so.

    Args:
        metric: A gauge with the label ``backend``.
        by: Labels to keep.
        where: Label matchers.

    Raises:
        ValueError: The metric is no gauge or lacks a label.
    """
    return f"sum{_by(by)}({now(metric, 'backend', *by, where=where)})"


def mean(metric: Metric, *by: str, where: str = "", window: str = PANEL) -> str:
    """The mean of what a histogram holds; arguments as of :func:`quantile`."""
    _check(metric, HISTOGRAM, by)
    total, count = (
        _over("sum", metric, by, f"rate({metric.prometheus}_{part}{_where(where)}[{window}])")
        for part in ("sum", "count")
    )
    return ratio(total, count)


def quantile(share: float, metric: Metric, *by: str, where: str = "", window: str = PANEL) -> str:
    """A quantile from a histogram.

    Args:
        share: 0 to 1.
        metric: A histogram.
        by: Labels to keep.
        where: Label matchers.
        window: Over which.

    Raises:
        ValueError: The metric is no histogram or lacks a label.
    """
    _check(metric, HISTOGRAM, by)
    buckets = f"rate({metric.prometheus}_bucket{_where(where)}[{window}])"
    return f"histogram_quantile({share}, {_over('sum', metric, (*by, 'le'), buckets)})"


def with_target(series: str) -> str:
    """Series of gateways with the label ``backend``, and the target model of each as ``target``."""
    return f"{series} * on (backend, {_PROCESS}) group_left (target) {_TARGETS}"


def ratio(over: str, under: str) -> str:
    """One expression over another, absent where the second is 0 rather than not a number."""
    return f"{over} / ({under} > 0)"


def share(part: str, whole: str) -> str:
    """A part over the whole that it is counted in: 0 where the part has not begun to be counted."""
    return f"({part} or 0 * {whole}) / ({whole} > 0)"


def of_each(parts: str, whole: str, *on: str) -> str:
    """Many series over the one that has these labels in common with them."""
    return f"{parts} / on ({', '.join(on)}) group_left () ({whole} > 0)"


def or_zero(expression: str) -> str:
    """0 where there is nothing at all: for counters that begin with the first thing they count.

    Without ``on ()`` the 0 would be one more series beside all that have labels.
    """
    return f"({expression} or on () vector(0))"


def _check(metric: Metric, kind: str, by: Iterable[str]) -> None:
    if metric.kind != kind:
        raise ValueError(f"{metric.name} is a {metric.kind}, not a {kind}")
    known = {*metric.labels, TARGET} if BACKEND in metric.labels else set(metric.labels)
    if unknown := [label for label in by if label not in known]:
        raise ValueError(f"{metric.name} has no label {', '.join(unknown)}")


def _over(how: str, metric: Metric, by: tuple[str, ...], series: str) -> str:
    """An aggregation of a metric's series; they get the label ``target`` where it is to be kept."""
    if TARGET in by and TARGET not in metric.labels:
        series = with_target(series)
    return f"{how}{_by(by)}({series})"


def _by(labels: Iterable[str]) -> str:
    named = ", ".join(label.replace(".", "_") for label in labels)
    return f" by ({named}) " if named else ""


def _where(matchers: str) -> str:
    return f"{{{matchers}}}" if matchers else ""
