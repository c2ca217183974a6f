from __future__ import annotations

from dataclasses import fields, replace

import pytest

from gateway.core.breaker import Breaker
from gateway.core.fleet import METHODS, BackendState
from gateway.core.predict import ServerModel
from tests.factories import backend, load, snapshot, state

STALE_AFTER = 15.0


def test_only_the_method_none_is_a_baseline() -> None:
    assert [method for method in METHODS if backend(method=method).is_baseline] == ["none"]


def test_an_api_key_is_not_shown() -> None:
    assert "canary" not in repr(state(api_key="canary"))


def test_labels_tell_backends_apart_although_they_cannot_be_hashed() -> None:
    plain, labelled = backend(), backend(labels={"zone": "a"})
    assert plain != labelled
    assert hash(plain) == hash(labelled)


@pytest.mark.parametrize(
    ("in_flight", "healthy", "available"),
    [(0, True, True), (1, True, True), (2, True, False), (3, True, False), (0, False, False)],
)
def test_available_is_healthy_and_not_full(in_flight: int, healthy: bool, available: bool) -> None:
    assert state(in_flight=in_flight, healthy=healthy, max_in_flight=2).available(0.0) is available


@pytest.mark.parametrize(("until", "retry_at"), [(7.0, 0.0), (0.0, 7.0), (7.0, 3.0), (3.0, 7.0)])
def test_available_is_let_through_and_not_asked_to_wait(until: float, retry_at: float) -> None:
    one = replace(state(), breaker=Breaker("trial_failed", until=until), retry_at=retry_at)
    assert one.back_at == 7.0
    assert not one.available(6.9)
    assert one.available(7.0)


def test_available_is_within_the_limit_of_a_slow_start() -> None:
    one = replace(state(in_flight=4, max_in_flight=8), breaker=Breaker(since=10.0, warm_at=18.0))
    assert (one.limit(14.0), one.available(14.0)) == (4, False)
    assert (one.limit(15.0), one.available(15.0)) == (5, True)
    assert one.limit(18.0) == 8


def test_without_a_scrape_our_own_requests_are_all_that_is_known() -> None:
    assert state(in_flight=3).queue(0.0, STALE_AFTER) == 3.0


def test_a_scrape_counts_what_runs_and_what_waits_and_what_was_sent_since() -> None:
    one = state(in_flight=5, since_load=2, load=load(running=4, waiting=3, kv_usage=0.5, at=10.0))
    assert one.queue(11.0, STALE_AFTER) == 9.0


def test_requests_that_ended_since_the_scrape_are_taken_off() -> None:
    one = state(in_flight=0, since_load=-3, load=load(running=4, at=10.0))
    assert one.queue(11.0, STALE_AFTER) == 1.0


def test_what_we_hold_open_is_the_least_there_is() -> None:
    assert state(in_flight=5, load=load(running=1, at=10.0)).queue(11.0, STALE_AFTER) == 5.0
    assert state(in_flight=0, since_load=-9, load=load(running=1, at=10.0)).queue(11.0, STALE_AFTER) == 0.0


@pytest.mark.parametrize(("age", "queue"), [(STALE_AFTER, 8.0), (STALE_AFTER + 0.001, 2.0)])
def test_a_scrape_counts_until_it_is_too_old(age: float, queue: float) -> None:
    one = state(in_flight=2, load=load(running=8, at=10.0))
    assert one.queue(10.0 + age, STALE_AFTER) == queue


def test_a_state_is_equal_by_value() -> None:
    assert state(in_flight=1) == replace(state(), in_flight=1)


def test_a_snapshot_knows_its_backends_by_target() -> None:
    one = snapshot(state("a"), state("x", target="org/Other"), state("b"))
    assert one.roster.pool("org/Tiny").positions == (0, 2)


def test_a_snapshot_is_equal_by_what_it_shows() -> None:
    assert snapshot(state("a")) == snapshot(state("a"))
    assert snapshot(state("a")) != snapshot(state("b"))


def test_counting_a_request_changes_nothing_else() -> None:
    known = BackendState(
        backend(), 1, 2, load(), healthy=False, reason="down", breaker=Breaker("x"), retry_at=9.0,
        model=ServerModel(),
    )  # fmt: skip
    tried = Breaker("y")
    assert known.counted(5, 6, tried) == replace(known, in_flight=5, since_load=6, breaker=tried)
    assert [field.name for field in fields(known) if getattr(known, field.name) == field.default] == []
