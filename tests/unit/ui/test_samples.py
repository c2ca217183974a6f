from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gateway.telemetry import names
from gateway.ui.samples import INTERVAL, KEPT, Cell, Samples, take

if TYPE_CHECKING:
    from gateway.telemetry.tally import Values

ROUTE = ("math", "a", "mtp")


class Counters:
    """Counters that grow as told."""

    def __init__(self) -> None:
        self.values: dict[str, dict[Values, float]] = {}
        self.measured: dict[str, dict[Values, tuple[int, float]]] = {}

    def add(self, metric: names.Metric, values: Values, amount: float = 1) -> None:
        series = self.values.setdefault(metric.name, {})
        series[values] = series.get(values, 0) + amount

    def measure(self, metric: names.Metric, values: Values, number: float) -> None:
        series = self.measured.setdefault(metric.name, {})
        count, total = series.get(values, (0, 0.0))
        series[values] = (count + 1, total + number)

    def numbers(self, metric: names.Metric) -> dict[Values, float]:
        return dict(self.values.get(metric.name, {}))

    def sums(self, metric: names.Metric) -> dict[Values, tuple[int, float]]:
        return dict(self.measured.get(metric.name, {}))


@pytest.fixture
def counters() -> Counters:
    found = Counters()
    found.add(names.REQUESTS, (*ROUTE, "ok"), 8)
    found.add(names.REQUESTS, (*ROUTE, "timeout"), 1)
    found.add(names.REQUESTS, (*ROUTE, "cancelled"), 1)
    found.add(names.OUTPUT_TOKENS, ROUTE, 100)
    found.add(names.DECODE_TOKENS, ROUTE, 90)
    found.add(names.DECODE_TIME, ROUTE, 3)
    found.add(names.STEPS, ROUTE, 30)
    found.add(names.DRAFTED, ROUTE, 120)
    found.add(names.ACCEPTED, ROUTE, 60)
    found.measure(names.TTFT, ROUTE, 0.2)
    found.measure(names.TTFT, ROUTE, 0.4)
    found.add(names.ACCEPTED_AT, (*ROUTE, "0"), 27)
    found.add(names.ACCEPTED_AT, ("code", "a", "mtp", "0"), 3)
    return found


def test_a_sample_has_a_cell_for_each_route(counters: Counters) -> None:
    found = take(counters, 5.0)
    assert found.at == 5.0
    assert found.cells == {ROUTE: Cell(10, 1, 100, 90, 3, 30, 120, 60, 2, pytest.approx(0.6))}
    assert found.positions == {("a", 0): 30}


def test_a_window_is_what_was_added_since_its_beginning(counters: Counters) -> None:
    samples = Samples(counters, 0.0)
    samples.add(5.0)
    counters.add(names.REQUESTS, (*ROUTE, "ok"), 5)
    samples.add(10.0)
    counters.add(names.REQUESTS, (*ROUTE, "ok"), 2)
    for window, begin, grown in ((6.0, 5.0, 7), (2.0, 10.0, 2), (60.0, 0.0, 17)):
        then, now = samples.since(window, 12.0)
        assert then.at == begin
        assert now.cells[ROUTE].minus(then.cells.get(ROUTE, Cell())).requests == grown


def test_old_samples_go(counters: Counters) -> None:
    samples = Samples(counters, 0.0)
    for number in range(1000):
        samples.add(number * INTERVAL)
    kept = samples.all()
    assert kept[-1].at - kept[0].at == KEPT
    assert [each.at for each in kept] == sorted(each.at for each in kept)


def test_cells_add_up() -> None:
    assert Cell(1, 2).plus(Cell(3, 4)) == Cell(4, 6)


def test_samples_of_many_cells_are_further_apart(counters: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.ui.samples.CELLS", 8)
    samples = Samples(counters, 0.0)
    for number in range(1, 101):
        samples.add(float(number))
    kept = samples.all()
    assert len(kept) <= 9
    assert (kept[0].at < 95.0, kept[-1].at) == (True, 100.0)


def test_what_does_not_change_is_held_once(counters: Counters) -> None:
    samples = Samples(counters, 0.0)
    samples.add(1.0)
    samples.add(2.0)
    _, first, second = samples.all()
    assert first.cells[ROUTE] is second.cells[ROUTE]


async def test_samples_are_taken_by_themselves(counters: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.ui.samples.INTERVAL", 0.001)
    samples, two = Samples(counters, 0.0), asyncio.Event()

    def clock() -> float:
        if len(samples.all()) > 2:
            two.set()
        return 1.0

    task = asyncio.get_running_loop().create_task(samples.run(clock))
    await asyncio.wait_for(two.wait(), 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
