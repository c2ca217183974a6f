from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.breaker import (
    CLOSED,
    CONSECUTIVE_FAILURES,
    DISPATCHED,
    FAILED,
    FAILURE_SHARE,
    HALF_OPEN,
    NEUTRAL,
    OPEN,
    PHASES,
    RETURNED,
    SUCCEEDED,
    TRIAL_FAILED,
    TRIPS,
    Breaker,
    BreakerSettings,
    Event,
    Window,
    event_of,
    step,
)
from tests.factories import attempt

SETTINGS = BreakerSettings(
    consecutive=3, share=0.5, window=30.0, min_requests=10, open=5.0, open_max=18.0, slow_start=10.0
)


def after(*events: tuple[float, str], state: Breaker | None = None, **given: float) -> Breaker:
    """The state after events at these times; a request begins when it ends, so none is from before."""
    state = state or Breaker()
    for now, kind in events:
        state = step(state, Event(kind, started=now), replace(SETTINGS, **given), now)  # type: ignore[arg-type]
    return state


TRIPPED = after((10.0, FAILED), (11.0, FAILED), (12.0, FAILED))
"""Open from 12 to 17."""


def test_a_new_one_is_closed_and_takes_all() -> None:
    assert Breaker().phase(0.0) == CLOSED
    assert Breaker().until <= 0.0
    assert Breaker().limit(64, 0.0) == 64


@pytest.mark.parametrize(
    ("error", "phase", "kind"),
    [
        ("", "done", SUCCEEDED),
        ("connect", "connect", FAILED),
        ("reset", "sent", FAILED),
        ("timeout:first_byte", "sent", FAILED),
        ("timeout:idle", "first_byte", FAILED),
        ("timeout:total", "sent", FAILED),
        ("timeout:total", "first_byte", NEUTRAL),
        ("ended_early", "first_byte", FAILED),
        ("error_event", "done", FAILED),
        ("client_gone", "first_byte", NEUTRAL),
        ("too_large", "first_byte", NEUTRAL),
    ],
)
def test_what_an_attempt_says_of_its_backend(error: str, phase: str, kind: str) -> None:
    assert event_of(attempt("a", error, phase=phase)) == Event(kind, started=0.0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, NEUTRAL), (404, NEUTRAL), (422, NEUTRAL), (429, NEUTRAL), (501, NEUTRAL), (500, FAILED), (502, FAILED),
     (503, FAILED), (504, FAILED), (520, FAILED)],
)  # fmt: skip
def test_what_a_status_says_of_its_backend(status: int, kind: str) -> None:
    assert event_of(attempt("a", f"status:{status}", status, "first_byte")).kind == kind


def test_a_server_that_says_when_to_come_back_is_not_broken() -> None:
    busy = replace(attempt("a", "status:503", 503, "first_byte"), retry_after=2.0)
    assert event_of(busy).kind == NEUTRAL


def test_failures_in_a_row_open_it() -> None:
    assert after((10.0, FAILED), (11.0, FAILED)).phase(11.0) == CLOSED
    assert (TRIPPED.reason, TRIPPED.until, TRIPPED.since, TRIPPED.trips) == (
        CONSECUTIVE_FAILURES,
        17.0,
        12.0,
        1,
    )
    assert TRIPPED.phase(12.0) == OPEN


def test_a_success_between_them_breaks_the_row() -> None:
    state = after((10.0, FAILED), (11.0, FAILED), (12.0, SUCCEEDED), (13.0, FAILED), (14.0, FAILED))
    assert state.phase(14.0) == CLOSED


def test_what_says_nothing_changes_nothing() -> None:
    failing = after((10.0, FAILED), (11.0, FAILED))
    assert after((11.5, NEUTRAL), state=failing) is failing
    assert after((11.5, DISPATCHED), state=failing) is failing


def _alternating(count: int, apart: float) -> Breaker:
    return after(*((10.0 + apart * at, FAILED if at % 2 else SUCCEEDED) for at in range(count)))


def test_a_share_of_failures_opens_it_once_there_are_enough_requests() -> None:
    assert _alternating(9, apart=0.1).phase(11.0) == CLOSED
    assert _alternating(10, apart=0.1).reason == FAILURE_SHARE


def test_failures_that_are_long_past_do_not_count() -> None:
    assert _alternating(40, apart=10.0).phase(410.0) == CLOSED


def test_a_share_below_the_limit_leaves_it_closed() -> None:
    state = Breaker()
    for at in range(300):
        state = after((at * 0.1, SUCCEEDED if at % 3 else FAILED), state=state)
    assert state.phase(30.0) == CLOSED


def test_the_older_count_of_a_window_fades_out() -> None:
    window = Window(began=0.0, failures=4, requests=8)
    assert window.sums(0.0, 30.0) == (4, 8)
    window = window.with_one(30.0, 30.0, failed=True)
    assert window == Window(30.0, 1, 1, 4, 8)
    assert window.sums(45.0, 30.0) == (3.0, 5.0)
    assert window.sums(99.0, 30.0) == (1.0, 1.0)
    assert window.with_one(90.0, 30.0, failed=False) == Window(90.0, 0, 1)


def test_it_is_half_open_after_its_time_and_lets_one_request_through() -> None:
    assert TRIPPED.phase(16.9) == OPEN
    assert TRIPPED.phase(17.0) == HALF_OPEN
    trying = after((17.0, DISPATCHED), state=TRIPPED)
    assert (trying.phase(17.0), trying.until) == (HALF_OPEN, 22.0)


def test_a_trial_that_never_ends_does_not_keep_the_next_from_going_out() -> None:
    trying = after((17.0, DISPATCHED), (22.0, DISPATCHED), state=TRIPPED)
    assert (trying.trials, trying.until) == (2, 27.0)


def test_several_trials_are_let_through_at_a_time_if_wanted() -> None:
    trying = after((17.0, DISPATCHED), state=TRIPPED, trials=2)
    assert trying.until <= 17.0
    trying = after((17.0, DISPATCHED), state=trying, trials=2)
    assert trying.until == 22.0


def test_what_is_sent_while_it_is_open_is_no_trial() -> None:
    assert after((13.0, DISPATCHED), state=TRIPPED) is TRIPPED


def test_what_began_before_it_opened_says_nothing() -> None:
    trying = after((17.0, DISPATCHED), state=TRIPPED)
    for kind in (SUCCEEDED, FAILED, NEUTRAL):
        assert step(trying, Event(kind, started=11.9), SETTINGS, 18.0) is trying


def test_a_trial_that_succeeds_closes_it_and_starts_the_slow_start() -> None:
    back = after((17.0, DISPATCHED), (18.0, SUCCEEDED), state=TRIPPED)
    assert (back.phase(18.0), back.until, back.since, back.warm_at) == (CLOSED, 0.0, 18.0, 28.0)


def test_a_trial_that_fails_opens_it_for_twice_the_time_up_to_a_limit() -> None:
    state, opened = TRIPPED, []
    for _ in range(4):
        now = state.until
        state = after((now, DISPATCHED), (now, FAILED), state=state)
        assert state.reason == TRIAL_FAILED
        opened.append(state.until - now)
    assert opened == [10.0, 18.0, 18.0, 18.0]


def test_many_trips_are_no_overflow() -> None:
    state = after((20.0, FAILED), state=replace(TRIPPED, trips=10**6))
    assert state.until == 38.0


def test_a_trial_that_says_nothing_makes_room_for_the_next() -> None:
    state = after((17.0, DISPATCHED), (18.0, NEUTRAL), state=TRIPPED)
    assert (state.phase(18.0), state.until) == (HALF_OPEN, 18.0)
    assert after((18.5, NEUTRAL), state=state).until == 18.0


@pytest.mark.parametrize(("again", "trips"), [(40.0, 2), (60.0, 1)])
def test_a_relapse_soon_after_its_return_keeps_it_out_for_longer(again: float, trips: int) -> None:
    back = after((17.0, DISPATCHED), (18.0, SUCCEEDED), state=TRIPPED)
    relapsed = after(*((again, FAILED) for _ in range(3)), state=back)
    assert (relapsed.reason, relapsed.trips, relapsed.until - again) == (
        CONSECUTIVE_FAILURES,
        trips,
        5.0 * trips,
    )


def test_a_server_that_returned_starts_anew_and_slowly() -> None:
    back = after((13.0, RETURNED), state=TRIPPED)
    assert (back.phase(13.0), back.until, back.warm_at) == (CLOSED, 0.0, 23.0)
    assert step(back, Event(FAILED, started=12.9), replace(SETTINGS, consecutive=1), 14.0) is back


@pytest.mark.parametrize(
    ("now", "limit"), [(13.0, 1), (13.1, 1), (14.0, 7), (18.0, 32), (22.9, 64), (23.0, 64), (99.0, 64)]
)
def test_the_limit_of_a_backend_that_is_back_grows_to_the_full_one(now: float, limit: int) -> None:
    assert after((13.0, RETURNED), state=TRIPPED).limit(64, now) == limit


def test_without_a_slow_start_it_is_warm_at_once() -> None:
    assert after((13.0, RETURNED), state=TRIPPED, slow_start=0.0).limit(64, 13.0) == 64


def test_codes_are_told_apart() -> None:
    assert len({*PHASES, *TRIPS}) == len(PHASES) + len(TRIPS)
