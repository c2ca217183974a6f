from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.gain import Gain, decode_sample
from gateway.telemetry.recent import Recent

if TYPE_CHECKING:
    from gateway.core.outcome import Record

TARGET = "google/gemma-4-31b"
HOUR = 3600.0


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taking(record: Record, seconds: float) -> Record:
    return replace(record, outcome=replace(record.outcome, decode_seconds=seconds))


class Stand:
    """A gain, read once a minute."""

    def __init__(self) -> None:
        self.gain, self.clock = Gain(), Clock()
        self.recent = Recent(self.gain, self.clock)

    def told(self, *records: Record, target: str = TARGET, workload: str = "math") -> None:
        for record in records:
            self.gain.add(record, target, workload, decode_sample(record))

    def passing(self, seconds: float) -> None:
        for _ in range(round(seconds / 60)):
            self.recent.speedups()
            self.clock.now += 60.0

    @property
    def ratio(self) -> float | None:
        found = self.recent.speedups()
        return round(found[0][1].ratio, 3) if found else None


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_a_young_gateway_tells_of_all_there_is(stand: Stand, record: Record, baseline: Record) -> None:
    assert stand.ratio is None
    stand.told(*[record, baseline] * 5)
    stand.clock.now += 60.0
    assert stand.ratio == 2.0


def test_what_was_long_ago_does_not_hide_what_is_now(stand: Stand, record: Record, baseline: Record) -> None:
    """A thousand fast requests, and an hour later ten that are slower than without a draft."""
    stand.told(*[record, baseline] * 1000)
    stand.passing(1.2 * HOUR)
    stand.told(*[taking(record, 8.0), baseline] * 10)
    stand.clock.now += 60.0
    assert stand.ratio == 0.5
    assert next(stand.gain.speedups())[1].ratio > 1.9


def test_an_hour_with_too_few_requests_leaves_it_to_the_day(
    stand: Stand, record: Record, baseline: Record
) -> None:
    stand.told(*[record, baseline] * 10)
    stand.passing(3 * HOUR)
    stand.told(*[taking(record, 8.0), baseline] * 2)
    stand.clock.now += 60.0
    assert stand.ratio == 1.333  # 2,400 tokens in 36 s and in 48 s


@pytest.mark.parametrize("before", [0.0, 3 * HOUR])
def test_a_day_without_requests_tells_nothing(
    stand: Stand, record: Record, baseline: Record, before: float
) -> None:
    stand.passing(before)
    stand.told(*[record, baseline] * 10)
    stand.passing(27 * HOUR)
    assert stand.ratio is None


@pytest.mark.parametrize(
    ("seconds", "ratio"), [(4.0, 1.0), (16.0, 0.25)], ids=["less of all", "more seconds"]
)
def test_a_server_that_was_started_anew_is_judged_by_what_it_did_since(
    stand: Stand, record: Record, baseline: Record, seconds: float, ratio: float
) -> None:
    stand.told(*[record, baseline] * 50)
    stand.passing(27 * HOUR)
    stand.gain.restarted("eagle")
    stand.told(*[taking(record, seconds), baseline] * 10)
    stand.clock.now += 60.0
    assert stand.ratio == ratio


def test_only_baselines_of_the_same_work_count(stand: Stand, record: Record, baseline: Record) -> None:
    stand.told(*[record, baseline] * 10)
    for _ in range(10):
        stand.told(taking(baseline, 40.0), workload="code")
        stand.told(taking(baseline, 40.0), target="other/model")
    assert stand.ratio == 2.0


def test_several_readers_at_once_get_the_same(stand: Stand, record: Record, baseline: Record) -> None:
    stand.told(*[record, baseline] * 10)
    assert stand.recent.speedups() is stand.recent.speedups()
