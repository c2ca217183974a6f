from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.breaker import (
    CLOSED,
    CONSECUTIVE_FAILURES,
    HALF_OPEN,
    OPEN,
    TRIAL_FAILED,
    BreakerSettings,
)
from gateway.core.budget import BudgetSettings
from gateway.core.decide import Candidate, Decision
from gateway.core.failover import GiveUp
from gateway.core.fleet import Backend, BackendState, Guide
from gateway.core.outcome import Attempt
from gateway.core.plan import Plan
from gateway.core.predict import ServerModel
from gateway.runtime.fleet import Fleet
from gateway.runtime.tallies import Tallies
from tests.factories import TARGET, backend, load

BREAKER = BreakerSettings(consecutive=3, open=5.0, open_max=60.0, slow_start=10.0)
RETRIES = BudgetSettings(share=0.25, per_second=0.0, burst=2)


class Clock:
    """Stands still until a test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fleet(*names: str, clock: Clock | None = None) -> Fleet:
    one = Fleet([backend(name) for name in names], "fleet-1", now=clock or Clock())
    one.govern(BREAKER, RETRIES)
    return one


def seen(one: Fleet, name: str = "a") -> BackendState:
    return next(state for state in one.snapshot.states if state.backend.name == name)


def counts(one: Fleet, name: str = "a") -> tuple[int, int]:
    return seen(one, name).in_flight, seen(one, name).since_load


def ended(
    name: str = "a", error: str = "", *, at: float = 0.0, phase: str = "done", **given: float
) -> Attempt:
    return Attempt(name, phase, error, 0, started=at, ended=at, **given)


def plan(*names: str) -> Decision:
    candidates = tuple(Candidate(name, 0.0, ()) for name in names)
    return Decision("all", "org/Tiny", candidates, (), "lowest_cost", 1.0, 3, "policy-1", "fleet-1")


def following(one: Fleet, decision: Decision, *attempts: Attempt) -> str:
    found = one.next_backend(decision, attempts, delivered=False, deadline=99.0)
    return found.name if isinstance(found, Backend) else f"gives up: {found.why}"


def test_at_the_start_all_are_healthy_and_nothing_is_known_of_their_load() -> None:
    one = fleet("a", "b")
    assert one.snapshot.states == (BackendState(backend("a")), BackendState(backend("b")))
    assert one.snapshot.revision == "fleet-1"
    assert all(state.available(0.0) and state.load is None for state in one.snapshot.states)


def test_what_is_open_is_counted_per_backend() -> None:
    one = fleet("a", "b")
    one.dispatched("a")
    one.dispatched("a")
    one.dispatched("b")
    one.finished("a", ended("a"))
    assert (counts(one, "a"), counts(one, "b")) == ((1, 1), (1, 1))
    one.finished("a", ended("a"))
    assert counts(one, "a") == (0, 0)


def test_a_snapshot_that_somebody_holds_does_not_change() -> None:
    one = fleet("a", "b")
    held = one.snapshot
    states = held.states
    one.dispatched("a")
    one.down("b", "reset")
    one.loaded("a", load(running=3), 0)
    one.replace([], "fleet-2")
    assert held.states is states
    assert held.states == (BackendState(backend("a")), BackendState(backend("b")))
    assert held.revision == "fleet-1"


def test_the_order_of_the_file_is_kept_whatever_happens() -> None:
    one = fleet("c", "a", "b")
    one.dispatched("b")
    one.down("a", "reset")
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
    one.finished("a", ended("a"))
    one.finished("a", ended("a"))
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
        one.finished("a", ended("a"))
    assert counts(one) == (0, -1)


def test_what_is_open_is_told_by_name() -> None:
    one = fleet("a")
    assert (one.in_flight("a"), one.in_flight("gone")) == (0, 0)
    one.dispatched("a")
    assert one.in_flight("a") == 1


def test_a_server_that_is_down_is_out_until_a_probe_finds_it_well() -> None:
    one = fleet("a", "b")
    one.down("a", "/health answered 503")
    assert (seen(one).available(0.0), seen(one).reason) == (False, "/health answered 503")
    assert seen(one, "b").available(0.0)
    one.loaded("a", load(running=2), 0)
    assert not seen(one).healthy
    one.up("a")
    assert (seen(one).available(0.0), seen(one).reason) == (True, "")


def test_a_server_that_is_down_keeps_its_last_load() -> None:
    one = fleet("a")
    one.loaded("a", load(running=2, at=5.0), 0)
    one.dispatched("a")
    one.down("a", "reset")
    assert seen(one).load == load(running=2, at=5.0)
    assert counts(one) == (1, 1)


def test_a_probe_that_finds_a_healthy_server_well_changes_nothing() -> None:
    one = fleet("a")
    before = one.snapshot
    one.up("a")
    assert one.snapshot is before


def test_reports_on_backends_that_are_gone_do_no_harm() -> None:
    one = fleet("a")
    before = one.snapshot
    one.loaded("gone", load(running=1), 0)
    one.up("gone")
    one.down("gone", "reset")
    one.dispatched("gone")
    one.finished("gone", ended("gone"))
    assert one.snapshot == before


def test_what_is_known_of_a_backend_that_stays_is_kept() -> None:
    one = fleet("a", "b")
    one.dispatched("b")
    one.loaded("b", load(running=7), 0)
    one.down("a", "reset")
    kept = seen(one, "b")
    one.replace([backend("b"), backend("new")], "fleet-2")
    assert one.snapshot.states == (kept, BackendState(backend("new")))
    assert one.snapshot.revision == "fleet-2"
    one.dispatched("new")
    assert counts(one, "new") == (1, 1)
    assert seen(one, "b") == kept


def test_a_backend_that_changed_starts_without_load_but_with_what_is_open() -> None:
    one = fleet("a")
    one.dispatched("a")
    one.loaded("a", load(running=7), 0)
    one.down("a", "reset")
    moved = backend("a", url="http://elsewhere.test:8000")
    one.replace([moved], "fleet-2")
    assert seen(one) == BackendState(moved, in_flight=1)
    one.finished("a", ended("a"))
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
    one.finished("a", ended("a"))
    one.replace([backend("a")], "fleet-3")
    assert seen(one).in_flight == 1
    one.finished("a", ended("a"))
    assert seen(one).in_flight == 0


# What attempts do to it


@pytest.mark.parametrize("error", ["connect", "timeout:connect"])
def test_a_server_that_cannot_be_connected_to_is_out_at_once(error: str) -> None:
    one = fleet("a")
    one.dispatched("a")
    one.finished("a", ended(error=error, phase="connect"))
    assert (seen(one).healthy, seen(one).reason, seen(one).in_flight) == (False, error, 0)


def test_a_client_that_leaves_before_the_connection_stands_says_nothing() -> None:
    one = fleet("a")
    one.finished("a", ended(error="client_gone", phase="connect"))
    assert seen(one).healthy


def test_a_hundred_bad_requests_take_no_server_out() -> None:
    one = fleet("a")
    for _ in range(100):
        one.dispatched("a")
        one.finished("a", replace(ended(error="status:400"), status=400))
    assert (seen(one).breaker.phase(0.0), seen(one).available(0.0)) == (CLOSED, True)


def fail(one: Fleet, times: int = 3, *, at: float = 0.0) -> None:
    for _ in range(times):
        one.dispatched("a")
        one.finished("a", ended(error="reset", phase="sent", at=at))


def test_failures_take_a_server_out_and_a_trial_lets_it_back_in() -> None:
    clock = Clock()
    one = fleet("a", "b", clock=clock)
    fail(one)
    assert (seen(one).breaker.phase(0.0), seen(one).available(4.9)) == (OPEN, False)
    assert one.trips == {("a", CONSECUTIVE_FAILURES): 1}
    clock.now = 5.0
    assert seen(one).available(5.0)
    one.dispatched("a")
    assert (seen(one).breaker.phase(5.0), seen(one).available(5.0)) == (HALF_OPEN, False)
    one.finished("a", ended(at=5.0))
    assert seen(one).breaker.phase(5.0) == CLOSED
    assert seen(one).limit(5.0) == 1
    assert seen(one).limit(15.0) == seen(one).backend.max_in_flight


def test_every_trip_is_counted_by_its_reason() -> None:
    clock = Clock()
    one = fleet("a", clock=clock)
    fail(one)
    for now in (5.0, 20.0):
        clock.now = now
        fail(one, 1, at=now)
    assert one.trips == {("a", CONSECUTIVE_FAILURES): 1, ("a", TRIAL_FAILED): 2}


def test_a_server_that_was_restarted_starts_anew_and_slowly() -> None:
    clock = Clock()
    one = fleet("a", clock=clock)
    one.dispatched("a")
    fail(one)
    one.finished("a", replace(ended(error="status:503", phase="first_byte"), retry_after=30.0))
    one.down("a", "/health: ConnectError")
    clock.now = 2.0
    one.up("a")
    assert (seen(one).breaker.phase(2.0), seen(one).available(2.0), seen(one).limit(2.0)) == (CLOSED, True, 1)


def test_what_was_sent_before_a_restart_says_nothing_of_the_time_after_it() -> None:
    clock = Clock()
    one = fleet("a", clock=clock)
    for _ in range(9):
        one.dispatched("a")
    one.down("a", "/health: ConnectError")
    clock.now = 2.0
    one.up("a")
    for _ in range(9):
        one.finished("a", ended(error="connect", phase="connect", at=1.0))
    assert (seen(one).healthy, seen(one).breaker.phase(2.0), seen(one).in_flight) == (True, CLOSED, 0)


def test_what_was_sent_to_the_old_address_says_nothing_of_the_new_one() -> None:
    clock = Clock()
    one = fleet("a", clock=clock)
    one.dispatched("a")
    clock.now = 1.0
    one.replace([backend("a", url="http://elsewhere.test:8000")], "fleet-2")
    one.finished("a", ended(error="connect", phase="connect", at=0.0))
    assert seen(one).healthy


@pytest.mark.parametrize(("asked", "waits"), [(7.0, 7.0), (3600.0, 60.0), (0.0, 0.0)])
def test_a_server_is_left_alone_for_as_long_as_it_asked_but_not_for_ever(asked: float, waits: float) -> None:
    one = fleet("a")
    one.dispatched("a")
    one.finished("a", replace(ended(error="status:429", phase="first_byte"), status=429, retry_after=asked))
    assert seen(one).retry_at == waits
    assert seen(one).available(waits)
    assert not seen(one).available(waits - 0.1)


def test_a_server_that_fails_gets_next_to_nothing() -> None:
    """One of four fails always, 50 requests a second for 200 seconds, each sent to the first that is available."""
    clock = Clock()
    one = fleet("a", "b", "c", "d", clock=clock)
    sent = 0
    for number in range(10_000):
        clock.now = 100.0 + number / 50
        if seen(one).available(clock.now):
            sent += 1
            fail(one, 1, at=clock.now)
    assert 0 < sent < 0.002 * 10_000


# Where a request goes


def test_a_request_goes_to_its_candidates_in_turn() -> None:
    one = fleet("a", "b")
    refused = ended("a", "connect", phase="connect")
    assert following(one, plan("a", "b")) == "a"
    assert following(one, plan("a", "b"), refused) == "b"
    assert (
        following(one, plan("a", "b"), refused, ended("b", "connect", phase="connect"))
        == "gives up: exhausted"
    )


def test_a_request_does_not_go_where_the_server_was_taken_out_or_away_meanwhile() -> None:
    one = fleet("a", "b", "c")
    one.down("b", "reset")
    assert following(one, plan("a", "b", "gone", "c"), ended("a", "reset", phase="sent")) == "c"


def test_further_attempts_are_bounded_for_the_whole_fleet() -> None:
    one = fleet("a", "b")
    reset = ended("a", "reset", phase="sent")
    assert [following(one, plan("a", "b"), reset) for _ in range(3)] == ["b", "b", "gives up: budget"]
    assert (one.denied, one.retries_left) == (1, 0.0)
    for _ in range(4):
        assert following(one, plan("a", "b")) == "a"
    assert one.retries_left == 1.0
    assert following(one, plan("a", "b"), reset) == "b"


def test_a_refused_connection_takes_nothing_from_the_budget() -> None:
    one = fleet("a", "b")
    refused = ended("a", "connect", phase="connect")
    assert [following(one, plan("a", "b"), refused) for _ in range(9)] == ["b"] * 9
    assert one.retries_left == 2.0


def test_time_fills_the_budget() -> None:
    clock = Clock()
    one = fleet("a", "b", clock=clock)
    one.govern(BREAKER, BudgetSettings(share=0.0, per_second=0.5, burst=2))
    reset = ended("a", "reset", phase="sent")
    assert [following(one, plan("a", "b"), reset) for _ in range(3)] == ["b", "b", "gives up: budget"]
    clock.now = 2.0
    assert one.retries_left == 1.0
    assert following(one, plan("a", "b"), reset) == "b"


def test_nothing_further_is_tried_once_something_was_delivered() -> None:
    found = fleet("a", "b").next_backend(plan("a", "b"), [ended("a", "reset")], delivered=True, deadline=9.0)
    assert found == GiveUp("delivered")


async def waiting(one: Fleet, clock: Clock, name: str = "a") -> asyncio.Task[str | None]:
    """A request in the queue that goes to the backend as soon as it may."""

    def look() -> str | None:
        if not seen(one, name).available(clock()):
            return None
        one.dispatched(name)
        return name

    task = asyncio.get_running_loop().create_task(one.queue.wait(name, look, 60.0))
    await asyncio.sleep(0)
    return task


def full(clock: Clock) -> Fleet:
    one = Fleet([replace(backend("a"), max_in_flight=1)], "fleet-1", now=clock)
    one.govern(replace(BREAKER, consecutive=1, slow_start=0.0), RETRIES)
    one.dispatched("a")
    return one


async def test_the_end_of_a_request_gives_its_room_to_one_that_waits() -> None:
    one = full(clock := Clock())
    first, second = await waiting(one, clock), await waiting(one, clock)
    one.finished("a", ended())
    assert await first == "a"
    assert one.in_flight("a") == 1
    assert len(one.queue) == 1
    one.finished("a", ended())
    assert await second == "a"


async def test_a_server_that_is_back_is_news() -> None:
    one = full(clock := Clock())
    one.down("a", "gone")
    task = await waiting(one, clock)
    one.finished("a", ended(error="connect", phase="connect"))
    one.up("a")
    assert await task == "a"


async def test_another_fleet_is_news() -> None:
    one = full(clock := Clock())
    task = await waiting(one, clock)
    one.replace([replace(backend("a"), max_in_flight=2)], "fleet-2")
    assert await task == "a"


async def test_a_server_that_goes_down_is_news() -> None:
    one = full(Clock())
    task = asyncio.get_running_loop().create_task(
        one.queue.wait("k", lambda: "down" if not seen(one).healthy else None, 60.0)
    )
    await asyncio.sleep(0)
    one.down("a", "gone")
    assert await task == "down"


async def test_the_end_of_a_pause_is_news() -> None:
    one = full(clock := Clock())
    one.finished("a", ended(error="status:429", phase="headers", retry_after=0.01))
    task = await waiting(one, clock)
    clock.now = 0.02
    assert await task == "a"


async def test_a_server_that_warms_up_is_looked_at_again_and_again() -> None:
    clock = Clock()
    one = Fleet([replace(backend("a"), max_in_flight=2)], "fleet-1", now=clock)
    one.govern(BREAKER, RETRIES)
    one.down("a", "gone")
    one.up("a")
    one.dispatched("a")
    assert seen(one).limit(0.0) == 1
    task = await waiting(one, clock)
    clock.now = 9.9
    assert await task == "a"


def test_what_was_learnt_is_in_the_snapshots_and_outlives_a_reload() -> None:
    one = fleet("a", "b")
    model, guide = ServerModel("x"), Guide(explorable=frozenset({(TARGET, "math")}))
    one.learnt({"a": model})
    one.guide(guide)
    assert [state.model for state in one.snapshot.states] == [model, None]
    one.dispatched("a")
    one.replace([backend("a"), backend("c")], "f2")
    assert one.snapshot.guide is guide
    assert [state.model for state in one.snapshot.states] == [model, None]
    one.learnt({"a": model})
    assert one.snapshot.states[0].model is model


def test_new_roles_are_news_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fleet("a")
    heard = []
    monkeypatch.setattr(one.queue, "news", lambda: heard.append(1))
    one.guide(Guide(explorable=frozenset({(TARGET, "math")}), plan=one.snapshot.guide.plan))
    assert not heard
    one.guide(Guide(plan={"m": Plan()}))
    assert heard


def test_counts_are_told_as_they_change() -> None:
    one = fleet("a")
    told = []
    one.on_count = lambda name, count: told.append((name, count))
    one.dispatched("a")
    one.dispatched("a")
    one.finished("a", Attempt("a", "done", "", 200, 0.0, 0.0))
    assert told == [("a", 1), ("a", 2), ("a", 1)]


def test_how_busy_all_are_is_a_share_of_their_limits() -> None:
    one = Fleet([backend("a", max_in_flight=2), backend("b", max_in_flight=6, method="mtp")], "f")
    one.dispatched("a")
    one.dispatched("b")
    assert one.busy == 0.25
    assert [one.is_baseline(name) for name in ("a", "b", "z")] == [True, False, False]
    for name in "ab":
        one.down(name, "x")
    assert one.busy == 1.0


def beside(*names: str) -> tuple[Fleet, Fleet]:
    """The fleets of two workers."""
    tallies = Tallies(2)
    one, two = (
        Fleet([backend(name) for name in names], "fleet-1", tally=tallies.of(number), now=Clock())
        for number in range(2)
    )
    return one, two


def test_what_other_workers_have_open_counts() -> None:
    one, two = beside("a", "b")
    heard: list[tuple[str, int]] = []
    two.on_count = lambda name, count: heard.append((name, count))
    one.dispatched("a")
    one.dispatched("a")
    two.dispatched("a")
    assert counts(two) == (1, 1)
    two.sync()
    assert (counts(two), counts(two, "b")) == ((3, 3), (0, 0))
    one.finished("a", ended())
    two.finished("a", ended())
    two.sync()
    assert counts(two) == (1, 1)
    assert heard == [("a", 1), ("a", 3), ("a", 2), ("a", 1)]


def test_a_server_is_full_for_all_workers_at_once() -> None:
    one, two = beside("a")
    for _ in range(seen(one).backend.max_in_flight):
        one.dispatched("a")
    assert seen(two).available(0.0)
    two.sync()
    assert not seen(two).available(0.0)


def test_a_scrape_holds_what_other_workers_sent_before() -> None:
    one, two = beside("a")
    one.dispatched("a")
    two.sync()
    began = two.in_flight("a")
    one.dispatched("a")
    two.sync()
    two.loaded("a", load(running=1), began)
    assert counts(two) == (2, 1)


def test_a_server_that_is_new_has_what_other_workers_have_open_there() -> None:
    one, two = beside("a")
    one.replace([backend("a"), backend("b")], "fleet-2")
    one.dispatched("b")
    two.sync()
    two.replace([backend("a"), backend("b")], "fleet-2")
    assert counts(two, "b") == (1, 0)
    one.finished("b", ended("b"))
    two.sync()
    assert counts(two, "b") == (0, -1)


async def test_who_waits_hears_of_room_that_another_worker_made() -> None:
    one, two = beside("a")
    one.dispatched("a")
    two.sync()

    def look() -> bool | None:
        return None if seen(two).in_flight else True

    waiting = asyncio.ensure_future(two.queue.wait("kind", look, 30.0))
    await asyncio.sleep(0)
    one.finished("a", ended())
    two.sync()
    assert await waiting is True
