"""When a backend is taken out and let back in: a state machine fed by what became of its requests."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final

from gateway.core.failover import rule
from gateway.core.values import value

if TYPE_CHECKING:
    from gateway.core.outcome import Attempt

# Phases.
CLOSED: Final = "closed"
HALF_OPEN: Final = "half_open"
OPEN: Final = "open"
PHASES: Final = (CLOSED, HALF_OPEN, OPEN)

# Why it opened.
CONSECUTIVE_FAILURES: Final = "consecutive_failures"
FAILURE_SHARE: Final = "failure_share"
TRIAL_FAILED: Final = "trial_failed"
TRIPS: Final = (CONSECUTIVE_FAILURES, FAILURE_SHARE, TRIAL_FAILED)

# What happens to a backend. ``NEUTRAL`` says nothing of it: the request was at fault, or the client left.
DISPATCHED: Final = "dispatched"
SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
NEUTRAL: Final = "neutral"
RETURNED: Final = "returned"
KINDS: Final = (DISPATCHED, SUCCEEDED, FAILED, NEUTRAL, RETURNED)

_DOUBLINGS: Final = 32
"""More make no difference to any limit in use and would end in an overflow."""


@value(frozen=True, slots=True)
class BreakerSettings:
    """When to trip and how to come back; times in seconds.

    Attributes:
        consecutive: Failures in a row that trip it.
        share: Share of failures that trips it.
        window: Time over which the share is taken.
        min_requests: Requests within the window below which a share means nothing.
        open: Time until the first trial; doubles with each trip that follows soon after the last.
        open_max: Longest such time.
        trials: Requests let through at a time while it is half-open.
        slow_start: Time over which a backend that returns gets its full number of requests.
    """

    consecutive: int = 5
    share: float = 0.5
    window: float = 30.0
    min_requests: int = 20
    open: float = 5.0
    open_max: float = 60.0
    trials: int = 1
    slow_start: float = 10.0


@value(frozen=True, slots=True)
class Event:
    """Something that happened to a backend.

    Attributes:
        kind: One of :data:`KINDS`.
        started: Monotonic seconds at which the request began that it speaks of.
    """

    kind: str
    started: float = 0.0


@value(frozen=True, slots=True)
class Window:
    """Failures and requests of the last while: two counts, of which the older fades out.

    Attributes:
        began: Monotonic seconds at which the newer count began.
    """

    began: float = 0.0
    failures: int = 0
    requests: int = 0
    old_failures: int = 0
    old_requests: int = 0

    def with_one(self, now: float, length: float, *, failed: bool) -> Window:
        """The window with one more request; a count lasts ``length`` seconds."""
        if now < self.began + length:
            return Window(
                self.began, self.failures + failed, self.requests + 1, self.old_failures, self.old_requests
            )
        if now < self.began + 2.0 * length:
            return Window(self.began + length, int(failed), 1, self.failures, self.requests)
        return Window(now, int(failed), 1)

    def sums(self, now: float, length: float) -> tuple[float, float]:
        """Failures and requests within the last ``length`` seconds, about."""
        left = max(0.0, 1.0 - (now - self.began) / length)
        return self.failures + left * self.old_failures, self.requests + left * self.old_requests


_NOTHING: Final = Window()


@value(frozen=True, slots=True)
class Breaker:
    """The state of one backend's breaker; a new one is closed.

    Attributes:
        reason: Why it is open or half-open, one of :data:`TRIPS`; empty while it is closed.
        until: Monotonic seconds before which no request passes; 0 while it is closed.
        since: Monotonic seconds of the last change; what began before says nothing of the time after.
        trips: Times it opened in a row.
        trials: Requests let through since it opened.
        run: Failures in a row.
        warm_at: Monotonic seconds at which its backend may be full again.
    """

    reason: str = ""
    until: float = 0.0
    since: float = 0.0
    trips: int = 0
    trials: int = 0
    run: int = 0
    warm_at: float = 0.0
    window: Window = _NOTHING

    def phase(self, now: float) -> str:
        """One of :data:`PHASES`."""
        if not self.reason:
            return CLOSED
        return HALF_OPEN if self.trials or now >= self.until else OPEN

    def limit(self, full: int, now: float) -> int:
        """How many requests its backend may hold of ``full``: all of them once it is warm."""
        if now >= self.warm_at:
            return full
        return max(1, ceil(full * (now - self.since) / (self.warm_at - self.since)))


def event_of(attempt: Attempt) -> Event:
    """What an attempt says of its backend."""
    if not attempt.error:
        return Event(SUCCEEDED, attempt.started)
    return Event(FAILED if rule(attempt).blames else NEUTRAL, attempt.started)


def step(state: Breaker, event: Event, settings: BreakerSettings, now: float) -> Breaker:
    """The state after an event.

    Args:
        state: The state before.
        event: What happened.
        settings: Those in force.
        now: Monotonic seconds.
    """
    if event.kind == RETURNED:
        return _closed(state, settings, now)
    if event.kind == DISPATCHED:
        return _tried(state, settings, now) if state.reason and now >= state.until else state
    if event.started < state.since:
        return state
    if state.reason:
        return _judged(state, event.kind, settings, now)
    return state if event.kind == NEUTRAL else _counted(state, event.kind == FAILED, settings, now)


def _counted(state: Breaker, failed: bool, settings: BreakerSettings, now: float) -> Breaker:  # noqa: FBT001 - one of two outcomes
    window = state.window.with_one(now, settings.window, failed=failed)
    if not failed:
        return Breaker(since=state.since, trips=state.trips, warm_at=state.warm_at, window=window)
    run = state.run + 1
    if run >= settings.consecutive:
        return _opened(state, CONSECUTIVE_FAILURES, settings, now)
    failures, requests = window.sums(now, settings.window)
    if requests >= settings.min_requests and failures >= settings.share * requests:
        return _opened(state, FAILURE_SHARE, settings, now)
    return replace(state, run=run, window=window)


def _judged(state: Breaker, kind: str, settings: BreakerSettings, now: float) -> Breaker:
    """The state after a trial."""
    if kind == SUCCEEDED:
        return _closed(state, settings, now)
    if kind == FAILED:
        return _opened(state, TRIAL_FAILED, settings, now)
    return replace(state, until=min(state.until, now))  # it told nothing, so another may try


def _tried(state: Breaker, settings: BreakerSettings, now: float) -> Breaker:
    """The state with one more trial on its way. One that never ends does not keep the next from going out."""
    trials = state.trials + 1
    until = state.until if trials % settings.trials else now + _pause(state.trips, settings)
    return replace(state, trials=trials, until=until)


def _opened(state: Breaker, reason: str, settings: BreakerSettings, now: float) -> Breaker:
    soon = bool(state.reason) or now - state.since <= settings.window
    trips = state.trips + 1 if soon else 1
    return Breaker(reason, until=now + _pause(trips, settings), since=now, trips=trips)


def _closed(state: Breaker, settings: BreakerSettings, now: float) -> Breaker:
    return Breaker(since=now, trips=state.trips, warm_at=now + settings.slow_start)


def _pause(trips: int, settings: BreakerSettings) -> float:
    return min(settings.open_max, settings.open * 2.0 ** min(trips - 1, _DOUBLINGS))
