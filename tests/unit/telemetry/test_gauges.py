from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gateway.core.breaker import Breaker
from gateway.core.draft_latency import Estimate
from gateway.core.fleet import Load
from gateway.core.gpus import GpuLoad
from gateway.telemetry import names
from gateway.telemetry.setup import setup

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.fleet import Snapshot
    from gateway.core.outcome import Record

    Series = Callable[[bytes], dict[str, float]]


def test_the_fleet_is_shown_as_it_is_when_read(snapshot: Snapshot, series: Series) -> None:
    now = [100.0]
    telemetry = setup()
    telemetry.observe_fleet(lambda: snapshot, lambda: now[0])
    found = series(telemetry.exposition())
    assert found["specroute_backend_in_flight backend=plain"] == 1
    assert found["specroute_backend_running backend=eagle"] == 7
    assert found["specroute_backend_waiting backend=eagle"] == 3
    assert found["specroute_backend_kv_usage backend=eagle"] == 0.25
    assert found["specroute_backend_scrape_age_seconds backend=eagle"] == 10
    assert found["specroute_backend_healthy backend=eagle"] == 1
    assert (
        found["specroute_backend_info backend=eagle draft_tokens=5 method=eagle3 target=google/gemma-4-31b"]
        == 1
    )
    now[0] = 160.0
    assert series(telemetry.exposition())["specroute_backend_scrape_age_seconds backend=eagle"] == 70


def test_a_server_that_was_never_scraped_has_an_age_all_the_same(snapshot: Snapshot, series: Series) -> None:
    """Else no alert could be about it."""
    now, shown = [100.0], [snapshot]
    telemetry = setup()
    telemetry.observe_fleet(lambda: shown[0], lambda: now[0])

    def age() -> float | None:
        return series(telemetry.exposition()).get("specroute_backend_scrape_age_seconds backend=plain")

    assert age() == 0
    now[0] = 130.0
    assert age() == 30
    plain, eagle = snapshot.states
    shown[0] = replace(snapshot, states=(replace(plain, load=Load(0, 0, None, at=125.0)), eagle))
    assert age() == 5
    shown[0] = snapshot  # a server of another address under that name
    assert age() == 0
    shown[0] = replace(snapshot, states=(eagle,))
    assert age() is None


def test_a_server_that_was_never_scraped_shows_no_load(snapshot: Snapshot, series: Series) -> None:
    telemetry = setup()
    telemetry.observe_fleet(lambda: snapshot, lambda: 0.0)
    found = series(telemetry.exposition())
    shown = {name.split(" ")[0] for name in found if "backend=plain" in name}
    assert shown == {
        f"specroute_backend_{name}"
        for name in ("in_flight", "healthy", "available", "limit", "info", "scrape_age_seconds")
    } | {"specroute_breaker_state", "specroute_failovers_total", "specroute_requests_total"} | {
        "specroute_tool_calls_total"
    }


@pytest.mark.parametrize(
    ("breaker", "healthy", "state", "available", "limit"),
    [
        (Breaker(), True, 0, 1, 256),
        (Breaker(), False, 0, 0, 256),
        (Breaker("trial_failed", until=101.0), True, 2, 0, 256),
        (Breaker("trial_failed", until=100.0), True, 1, 1, 256),
        (Breaker(since=90.0, warm_at=110.0), True, 0, 1, 128),
    ],
)
def test_a_backend_is_shown_as_routing_sees_it(
    snapshot: Snapshot,
    series: Series,
    breaker: Breaker,
    healthy: bool,
    state: int,
    available: int,
    limit: int,
) -> None:
    plain = next(one for one in snapshot.states if one.backend.name == "plain")
    shown = type(snapshot).of([replace(plain, breaker=breaker, healthy=healthy)], "f2")
    telemetry = setup()
    telemetry.observe_fleet(lambda: shown, lambda: 100.0)
    found = series(telemetry.exposition())
    assert found["specroute_breaker_state backend=plain"] == state
    assert found["specroute_backend_available backend=plain"] == available
    assert found["specroute_backend_limit backend=plain"] == limit
    assert found["specroute_backend_healthy backend=plain"] == healthy


def test_trips_and_the_budget_are_shown(series: Series) -> None:
    trips: dict[tuple[str, str], int] = {}
    telemetry = setup()
    telemetry.observe_failures(trips, lambda: 3, lambda: 9.5)
    assert not any(name.startswith("specroute_breaker_trips") for name in series(telemetry.exposition()))
    trips["eagle", "failure_share"] = 2
    found = series(telemetry.exposition())
    assert found["specroute_breaker_trips_total backend=eagle reason=failure_share"] == 2
    assert found["specroute_retries_denied_total"] == 3
    assert found["specroute_retries_left"] == 9.5


def test_open_and_waiting_requests_are_shown(series: Series) -> None:
    telemetry = setup()
    telemetry.observe_requests(lambda: 5, lambda: 2)
    found = series(telemetry.exposition())
    assert found["specroute_requests_open"] == 5
    assert found["specroute_queue_waiting"] == 2


def test_a_backend_that_left_is_shown_no_longer(snapshot: Snapshot, series: Series) -> None:
    fleets = [snapshot]
    telemetry = setup()
    telemetry.observe_fleet(lambda: fleets[0], lambda: 0.0)
    assert any("backend=eagle" in name for name in series(telemetry.exposition()))
    fleets[0] = type(snapshot).of(snapshot.states[:1], "f2")
    assert not any("backend=eagle" in name for name in series(telemetry.exposition()))


def test_the_gain_is_shown_once_both_sides_have_enough(
    record: Record, baseline: Record, series: Series
) -> None:
    telemetry = setup()
    now = iter(range(1000))
    telemetry.observe_gain(lambda: float(next(now)))
    labels = " backend=eagle method=eagle3 workload=math"
    for _ in range(10):
        assert f"specroute_speedup{labels}" not in series(telemetry.exposition())
        telemetry.on_record(record)
    for _ in range(10):
        telemetry.on_record(baseline)
    found = series(telemetry.exposition())
    for name in ("specroute_speedup", "specroute_speedup_low", "specroute_speedup_high"):
        assert found[name + labels] == pytest.approx(2.0)
    assert not any(name.startswith("specroute_speedup") and "backend=plain" in name for name in found)


def test_mean_accepted_length_has_both_weightings(record: Record, baseline: Record, series: Series) -> None:
    telemetry = setup()
    telemetry.observe_gain(lambda: 0.0)
    telemetry.on_record(record)
    telemetry.on_record(baseline)
    found = series(telemetry.exposition())
    for weighting in ("steps", "requests"):
        labels = f" backend=eagle method=eagle3 weighting={weighting} workload=math"
        assert found[f"specroute_mean_accepted_length{labels}"] == 2.0
    assert not any(name.startswith("specroute_mean") and "backend=plain" in name for name in found)


def test_the_policy_in_force_is_shown_and_whether_the_files_say_the_same(series: Series) -> None:
    current = [("p1", True)]
    telemetry = setup()
    telemetry.observe_policy(lambda: current[0])
    assert series(telemetry.exposition())["specroute_policy_current revision=p1"] == 1
    current[0] = ("p1", False)
    assert series(telemetry.exposition())["specroute_policy_current revision=p1"] == 0
    current[0] = ("p2", True)
    found = series(telemetry.exposition())
    assert found["specroute_policy_current revision=p2"] == 1
    assert "specroute_policy_current revision=p1" not in found


def test_dropped_records_are_shown(series: Series) -> None:
    dropped = [0]
    telemetry = setup()
    telemetry.observe_dropped(names.RECORDS_DROPPED, lambda: dropped[0])
    assert series(telemetry.exposition())["specroute_records_dropped_total"] == 0
    dropped[0] = 7
    assert series(telemetry.exposition())["specroute_records_dropped_total"] == 7


def test_requests_that_the_decision_log_lacks_are_shown_if_there_is_one(series: Series) -> None:
    telemetry = setup()
    assert not any("decision_log" in name for name in series(telemetry.exposition()))
    telemetry.observe_dropped(names.DECISIONS_DROPPED, lambda: 7)
    telemetry.observe_dropped(names.ACCESS_DROPPED, lambda: 8)
    telemetry.observe_dropped(names.LOG_DROPPED, lambda: 9)
    found = series(telemetry.exposition())
    assert found["specroute_decision_log_dropped_total"] == 7
    assert found["specroute_access_log_dropped_total"] == 8
    assert found["specroute_log_dropped_total"] == 9


def test_what_is_known_of_acceptance_is_shown_as_it_is_when_read(series: Series) -> None:
    lengths = [(("eagle", "math", "stream"), 2.4)]
    restarts: dict[tuple[str], int] = {}
    telemetry = setup()
    telemetry.observe_acceptance(
        lambda: lengths, lambda: [("eagle", 7.5)], lambda: [("eagle", -0.25)], restarts
    )
    found = series(telemetry.exposition())
    length = "specroute_backend_mean_accepted_length backend=eagle grade={} workload=math"
    assert found[length.format("stream")] == 2.4
    assert found["specroute_backend_counters_age_seconds backend=eagle"] == 7.5
    assert found["specroute_backend_counters_mismatch backend=eagle"] == -0.25
    assert "specroute_backend_restarts_total backend=eagle" not in found
    lengths[0] = (("eagle", "math", "counters"), 2.5)
    restarts[("eagle",)] = 1
    found = series(telemetry.exposition())
    assert found[length.format("counters")] == 2.5
    assert length.format("stream") not in found
    assert found["specroute_backend_restarts_total backend=eagle"] == 1


def test_gpus_are_shown_as_far_as_they_are_seen(series: Series) -> None:
    loads = {"eagle": GpuLoad(0.5, None, 700.0, 90.0)}
    telemetry = setup()
    telemetry.observe_gpus(loads, lambda: 100.0)
    found = series(telemetry.exposition())
    assert found["specroute_backend_gpu_memory backend=eagle"] == 0.5
    assert found["specroute_backend_gpu_power_watts backend=eagle"] == 700.0
    assert found["specroute_backend_gpu_age_seconds backend=eagle"] == 10.0
    assert not any(name.startswith("specroute_backend_gpu_activity") for name in found)


def test_how_well_the_classifier_does_is_shown_as_it_is_when_read(series: Series) -> None:
    drifts = [("math", False)]
    telemetry = setup()
    telemetry.observe_agreement(lambda: [("math", 0.75)], lambda: drifts)
    found = series(telemetry.exposition())
    assert found["specroute_classifier_agreement workload=math"] == 0.75
    assert found["specroute_classifier_drift workload=math"] == 0
    drifts[0] = ("math", True)
    assert series(telemetry.exposition())["specroute_classifier_drift workload=math"] == 1


def test_what_drafting_takes_is_shown_with_its_bounds_and_as_an_estimate(series: Series) -> None:
    told = [("eagle", Estimate(4.0, 4.0, 0.03, 0.006, 0.005, 0.007, 0.01, 9.0))]
    telemetry = setup()
    telemetry.observe_draft_latency(lambda: told)
    found = series(telemetry.exposition())
    name = "specroute_backend_draft_latency{}_seconds backend=eagle grade=estimate"
    assert [found[name.format(bound)] for bound in ("", "_low", "_high")] == [0.006, 0.005, 0.007]
    told.clear()
    assert not any("draft_latency" in name for name in series(telemetry.exposition()))
