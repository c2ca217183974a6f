"""Counts kept as plain numbers that the SDK reads when it collects.

An SDK counter costs 5 µs an addition and a request adds to twenty; a number in a dict costs 0.05 µs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from gateway.aside import step_aside
from gateway.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Values = tuple[str, ...]
"""Label values in the order of :attr:`gateway.telemetry.names.Metric.labels`."""

_Values = TypeVar("_Values", bound=Values)


def attributes(metric: names.Metric, values: Values) -> dict[str, str]:
    """Labels by name; an empty value means that the label does not apply and is left out."""
    return {label: value for label, value in zip(metric.labels, values, strict=True) if value}


def observe(meter: Meter, metric: names.Metric, read: Callable[[], Iterable[tuple[Values, float]]]) -> None:
    """Register a counter or gauge that is read when metrics are collected.

    Args:
        meter: Where it belongs.
        metric: Its entry in the table of names.
        read: Gives label values and number of every series. May be called from another thread.
    """

    def callback(_: CallbackOptions) -> list[Observation]:
        step_aside()
        return [Observation(number, attributes(metric, values)) for values, number in read()]

    create = (
        meter.create_observable_counter if metric.kind == names.COUNTER else meter.create_observable_gauge
    )
    create(metric.name, [callback], metric.unit, metric.help)


def or_zero(numbers: Mapping[_Values, float], expected: Iterable[_Values]) -> Iterable[tuple[_Values, float]]:
    """Numbers by label values, and 0 for those expected that are not among them.

    Prometheus sees no growth in a series that begins with its first count, so a first failure would be lost.
    """
    # A copy, since the thread that exports reads while requests end.
    return {**dict.fromkeys(expected, 0), **numbers}.items()


class Tally:
    """The numbers of one counter by label values.

    Values that many requests share are looked up once, by those who keep a row.
    """

    def __init__(self) -> None:
        """Begin without numbers."""
        self._rows: dict[Values, defaultdict[str, float]] = {}

    def row(self, values: Values) -> defaultdict[str, float]:
        """The numbers under values of all labels but the last, by that: to be added to, and to be kept."""
        row = self._rows.get(values)
        if row is None:
            row = self._rows[values] = defaultdict(int)
        return row

    def numbers(self) -> dict[Values, float]:
        """A copy of all, since the thread that exports reads while requests end."""
        return {
            (*values, last): number
            for values, row in tuple(self._rows.items())
            for last, number in tuple(row.items())
        }


def tally(meter: Meter, metric: names.Metric, expected: Callable[[], Iterable[Values]] = tuple) -> Tally:
    """The numbers of one counter, which are read when metrics are collected.

    Args:
        meter: Where it belongs.
        metric: Its entry in the table of names.
        expected: Gives the label values that are shown at 0 before they are counted.
    """
    numbers = Tally()
    observe(meter, metric, lambda: or_zero(numbers.numbers(), expected()))
    return numbers
