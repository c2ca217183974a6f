from __future__ import annotations

from gateway.core.fleet import BackendState
from gateway.runtime.fleet import Fleet
from tests.factories import backend, load


def fleet(*names: str) -> Fleet:
    return Fleet([backend(name) for name in names], "fleet-1")


def seen(one: Fleet, name: str = "a") -> BackendState:
    return next(state for state in one.snapshot.states if state.backend.name == name)


def counts(one: Fleet, name: str = "a") -> tuple[int, int]:
    return seen(one, name).in_flight, seen(one, name).since_load


def test_at_the_start_all_are_healthy_and_nothing_is_known_of_their_load() -> None:
    one = fleet("a", "b")
    assert one.snapshot.states == (BackendState(backend("a")), BackendState(backend("b")))
    assert one.snapshot.revision == "fleet-1"
    assert all(state.available and state.load is None for state in one.snapshot.states)


def test_what_is_open_is_counted_per_backend() -> None:
    one = fleet("a", "b")
    one.dispatched("a")
    one.dispatched("a")
    one.dispatched("b")
    one.finished("a")
    assert (counts(one, "a"), counts(one, "b")) == ((1, 1), (1, 1))
    one.finished("a")
    assert counts(one, "a") == (0, 0)


def test_a_snapshot_that_somebody_holds_does_not_change() -> None:
    one = fleet("a", "b")
    held = one.snapshot
    states = held.states
    one.dispatched("a")
    one.failed("b", "reset")
    one.loaded("a", load(running=3), 0)
    one.replace([], "fleet-2")
    assert held.states is states
    assert held.states == (BackendState(backend("a")), BackendState(backend("b")))
    assert held.revision == "fleet-1"


def test_the_order_of_the_file_is_kept_whatever_happens() -> None:
    one = fleet("c", "a", "b")
    one.dispatched("b")
    one.failed("a", "reset")
    one.loaded("c", load(), 0)
    assert [state.backend.name for state in one.snapshot.states] == ["c", "a", "b"]


def test_a_scrape_starts_the_count_of_changes_anew() -> None:
    one = fleet("a")
    one.dispatched("a")
    one.loaded("a", load(running=1, at=5.0), one.in_flight("a"))
    assert counts(one) == (1, 0)
    assert seen(one).load == load(running=1, at=5.0)
    one.dispatched("a")
    assert counts(one) == (2, 1)
    one.finished("a")
    one.finished("a")
    assert counts(one) == (0, -1)


def test_what_was_sent_during_a_scrape_is_counted_too() -> None:
    one = fleet("a")
    one.dispatched("a")
    before = one.in_flight("a")
    one.dispatched("a")
    one.dispatched("a")
    one.loaded("a", load(running=1, at=5.0), before)
    assert counts(one) == (3, 2)
    assert seen(one).queue(5.0, 15.0) == 3.0
    for _ in range(3):
        one.finished("a")
    assert counts(one) == (0, -1)


def test_what_is_open_is_told_by_name() -> None:
    one = fleet("a")
    assert (one.in_flight("a"), one.in_flight("gone")) == (0, 0)
    one.dispatched("a")
    assert one.in_flight("a") == 1


def test_a_failed_backend_is_out_until_a_scrape_succeeds() -> None:
    one = fleet("a", "b")
    one.failed("a", "/metrics answered 503")
    assert (seen(one).available, seen(one).reason) == (False, "/metrics answered 503")
    assert seen(one, "b").available
    one.loaded("a", load(running=2), 0)
    assert (seen(one).available, seen(one).reason) == (True, "")


def test_a_server_that_does_not_say_how_busy_it_is_keeps_its_last_load() -> None:
    one = fleet("a")
    one.loaded("a", load(running=2, at=5.0), 0)
    one.dispatched("a")
    one.failed("a", "reset")
    one.reachable("a")
    assert (seen(one).available, seen(one).reason) == (True, "")
    assert seen(one).load == load(running=2, at=5.0)
    assert counts(one) == (1, 1)


def test_a_backend_is_found_by_name() -> None:
    assert fleet("a", "b").get("b") == backend("b")
    assert fleet("a", "b").get("c") is None


def test_reports_on_backends_that_are_gone_do_no_harm() -> None:
    one = fleet("a")
    before = one.snapshot
    one.loaded("gone", load(running=1), 0)
    one.reachable("gone")
    one.failed("gone", "reset")
    one.dispatched("gone")
    one.finished("gone")
    assert one.snapshot == before


def test_what_is_known_of_a_backend_that_stays_is_kept() -> None:
    one = fleet("a", "b")
    one.dispatched("b")
    one.loaded("b", load(running=7), 0)
    one.failed("a", "reset")
    kept = seen(one, "b")
    one.replace([backend("b"), backend("new")], "fleet-2")
    assert one.snapshot.states == (kept, BackendState(backend("new")))
    assert one.snapshot.revision == "fleet-2"
    assert one.get("a") is None
    one.dispatched("new")
    assert counts(one, "new") == (1, 1)
    assert seen(one, "b") == kept


def test_a_backend_that_changed_starts_without_load_but_with_what_is_open() -> None:
    one = fleet("a")
    one.dispatched("a")
    one.loaded("a", load(running=7), 0)
    one.failed("a", "reset")
    moved = backend("a", url="http://elsewhere.test:8000")
    one.replace([moved], "fleet-2")
    assert seen(one) == BackendState(moved, in_flight=1)
    one.finished("a")
    assert seen(one).in_flight == 0


def test_changed_labels_are_a_change() -> None:
    one = fleet("a")
    one.replace([backend("a", labels={"zone": "b"})], "fleet-2")
    assert seen(one).backend.labels == {"zone": "b"}


def test_what_was_open_is_still_counted_when_a_backend_comes_back() -> None:
    one = fleet("a")
    one.dispatched("a")
    one.dispatched("a")
    one.replace([], "fleet-2")
    one.finished("a")
    one.replace([backend("a")], "fleet-3")
    assert seen(one).in_flight == 1
    one.finished("a")
    assert seen(one).in_flight == 0
