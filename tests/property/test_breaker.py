"""What holds of every breaker, whatever happens to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.breaker import (
    CLOSED,
    DISPATCHED,
    FAILED,
    HALF_OPEN,
    KINDS,
    NEUTRAL,
    OPEN,
    PHASES,
    SUCCEEDED,
    TRIPS,
    Breaker,
    BreakerSettings,
    Event,
    event_of,
    step,
)
from tests.factories import attempt

SETTINGS = st.builds(
    BreakerSettings,
    consecutive=st.integers(1, 9),
    share=st.floats(0.0, 1.0),
    window=st.floats(1.0, 100.0),
    min_requests=st.integers(1, 50),
    open=st.floats(0.1, 10.0),
    open_max=st.floats(10.0, 100.0),
    trials=st.integers(1, 4),
    slow_start=st.floats(0.0, 20.0),
)
HAPPENINGS = st.lists(
    st.tuples(st.floats(0.0, 40.0), st.sampled_from(KINDS), st.floats(0.0, 60.0)), max_size=60
)
"""Seconds since the last one, what happens, and how long ago the request began."""


def history(
    happenings: list[tuple[float, str, float]], settings: BreakerSettings
) -> list[tuple[float, Breaker, Event, Breaker]]:
    """Time, state before, event and state after of each."""
    now, state, told = 0.0, Breaker(), []
    for apart, kind, age in happenings:
        now += apart
        event = Event(kind, started=max(0.0, now - age))
        after = step(state, event, settings, now)
        told.append((now, state, event, after))
        state = after
    return told


@given(HAPPENINGS, SETTINGS)
def test_it_always_lets_a_request_through_after_its_time(
    happenings: list[tuple[float, str, float]], settings: BreakerSettings
) -> None:
    for now, _, _, after in history(happenings, settings):
        assert after.until <= now + settings.open_max
        assert after.phase(now) in PHASES
        assert after.phase(max(now, after.until)) in (CLOSED, HALF_OPEN)
        assert (after.phase(now) == CLOSED) is (after.reason == "")
        assert after.reason in ("", *TRIPS)


@given(HAPPENINGS, SETTINGS)
def test_only_a_failure_opens_it(
    happenings: list[tuple[float, str, float]], settings: BreakerSettings
) -> None:
    for now, before, event, after in history(happenings, settings):
        if after.reason and after.since != before.since:
            assert event.kind == FAILED
            assert event.started >= before.since
            assert (after.phase(now), after.since) == (OPEN, now)


@given(HAPPENINGS, SETTINGS)
def test_a_success_closes_it_only_if_it_began_after_the_opening(
    happenings: list[tuple[float, str, float]], settings: BreakerSettings
) -> None:
    for now, before, event, after in history(happenings, settings):
        if before.reason and event.kind == SUCCEEDED:
            assert (after.phase(now) == CLOSED) is (event.started >= before.since)


@given(HAPPENINGS, SETTINGS, st.floats(0.0, 200.0), st.integers(1, 512))
def test_the_limit_never_falls_by_waiting_and_ends_at_the_full_one(
    happenings: list[tuple[float, str, float]], settings: BreakerSettings, wait: float, full: int
) -> None:
    for now, _, _, after in history(happenings, settings):
        assert 1 <= after.limit(full, now) <= after.limit(full, now + wait) <= full
        assert after.limit(full, max(now, after.warm_at)) == full


@given(SETTINGS, st.lists(st.integers(400, 499), min_size=100, max_size=100))
def test_no_answer_about_the_request_opens_it(settings: BreakerSettings, codes: list[int]) -> None:
    state = Breaker()
    for now, code in enumerate(codes):
        state = step(
            state, event_of(attempt("a", f"status:{code}", code, "first_byte")), settings, float(now)
        )
    assert state == Breaker()


@given(SETTINGS, st.floats(0.001, 1.0))
def test_trials_are_bounded(settings: BreakerSettings, apart: float) -> None:
    """Requests that come all the time and never end: no more go out than a number each ``open``."""
    state = Breaker(TRIPS[0], until=settings.open, trips=1)
    now, sent = 0.0, 0
    for _ in range(500):
        now += apart
        if state.until <= now:
            sent += 1
            state = step(state, Event(DISPATCHED), settings, now)
            state = step(state, Event(NEUTRAL, started=-1.0), settings, now)
    assert sent <= settings.trials * (1 + now / settings.open)
