from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.core.counters import Counters
from gateway.runtime.draft_latency import DraftLatency
from tests.factories import snapshot, state

if TYPE_CHECKING:
    from gateway.core.fleet import Snapshot

STATES = (
    state("base", method="none"),
    state("draft", method="eagle3", draft_tokens=3),
    state("elsewhere", method="none", target="org/Other"),
)
FLEET = snapshot(*STATES)


class Fleet:
    """Servers whose counters grow as they are told."""

    def __init__(self, fleet: Snapshot = FLEET) -> None:
        self.latency = DraftLatency(lambda: fleet, window=10.0)
        self.now = 0.0
        self.totals: dict[str, list[float]] = {}

    def runs(self, name: str, batch: float, seconds: float, *, drafted: int = 0, windows: int = 6) -> None:
        """A server that decodes so many sequences at a time, so many seconds a step, for some windows."""
        totals = self.totals.setdefault(name, [0.0, 0.0, 0.0])
        for number in range(10 * windows + 1):
            if number:
                iterations = 1.0 / seconds
                for place, more in enumerate((batch * iterations, batch, iterations)):
                    totals[place] += more
                self.now += 1.0
            steps, spent, counted = totals
            drafts = steps if drafted else None
            self.latency.counted(
                name,
                Counters(
                    self.now, drafts, steps * drafted if drafted else None, steps=steps, step_seconds=spent,
                    iterations=counted,
                ),
            )  # fmt: skip


def test_what_drafting_takes_is_told_beside_a_baseline_of_the_same_target() -> None:
    fleet = Fleet()
    fleet.runs("draft", 2.0, 0.028, drafted=3)
    assert list(fleet.latency.usual()) == []
    assert fleet.latency.as_json() == {"draft": []}
    fleet.runs("elsewhere", 8.0, 0.001)
    assert list(fleet.latency.usual()) == []
    fleet.runs("base", 8.0, 0.022)
    ((name, found),) = fleet.latency.usual()
    assert name == "draft"
    assert found.seconds == pytest.approx(0.006)
    (told,) = fleet.latency.as_json()["draft"]
    assert told == {
        "batch": 2.0, "step": pytest.approx(0.028), "draft": pytest.approx(0.006), "low": pytest.approx(0.006),
        "high": pytest.approx(0.006), "most": None, "grade": "estimate",
    }  # fmt: skip


def test_what_has_to_be_seen_first_is_told_of_each_server_with_a_draft() -> None:
    fleet = Fleet()
    assert fleet.latency.wanting() == {"draft": "it has not decoded through a window of 10 s"}
    assert fleet.latency.as_json() == {}
    fleet.runs("draft", 2.0, 0.028, drafted=3)
    fleet.runs("elsewhere", 8.0, 0.001)
    assert fleet.latency.wanting() == {"draft": "its baseline has not decoded through a window of 10 s"}
    fleet.runs("base", 8.0, 0.022)
    assert fleet.latency.wanting() == {}


def test_the_usual_batch_is_the_one_it_was_most_at() -> None:
    fleet = Fleet()
    fleet.runs("base", 4.0, 0.021)
    fleet.runs("base", 16.0, 0.024)
    fleet.runs("draft", 1.0, 0.025, drafted=3, windows=6)
    fleet.runs("draft", 4.0, 0.030, drafted=3, windows=12)
    ((_, found),) = fleet.latency.usual()
    assert (found.batch, found.seconds) == (pytest.approx(4.0), pytest.approx(0.006))


def test_where_only_a_limit_is_known_there_is_no_usual_one() -> None:
    fleet = Fleet()
    fleet.runs("base", 2.0, 0.020)
    fleet.runs("draft", 2.0, 0.028, drafted=3)
    assert list(fleet.latency.usual()) == []
    (told,) = fleet.latency.as_json()["draft"]
    assert (told["draft"], told["most"]) == (None, pytest.approx(0.008))


def test_a_server_that_was_started_anew_is_learnt_anew() -> None:
    fleet = Fleet()
    fleet.runs("base", 8.0, 0.022)
    fleet.runs("draft", 2.0, 0.028, drafted=3)
    del fleet.totals["draft"]
    fleet.runs("draft", 2.0, 0.040, drafted=3, windows=4)
    assert list(fleet.latency.usual()) == []
    fleet.runs("draft", 2.0, 0.040, drafted=3, windows=4)
    ((_, found),) = fleet.latency.usual()
    assert found.seconds == pytest.approx(0.018)


def test_a_server_that_does_nothing_tells_nothing() -> None:
    fleet = Fleet()
    fleet.runs("base", 8.0, 0.022)
    for second in range(100):
        fleet.latency.counted("draft", Counters(float(second), 0.0, 0.0, steps=0.0, step_seconds=0.0))
    assert fleet.latency.as_json() == {"draft": []}


def test_a_baseline_on_other_hardware_says_nothing() -> None:
    states = (
        state("base", method="none", labels={"hardware": "MI355X"}),
        state("draft", method="eagle3", draft_tokens=3, labels={"hardware": "MI300X"}),
    )
    fleet = Fleet(snapshot(*states))
    fleet.runs("base", 8.0, 0.022)
    fleet.runs("draft", 2.0, 0.028, drafted=3)
    assert fleet.latency.as_json() == {"draft": []}
