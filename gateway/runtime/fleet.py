"""Owner of the fleet's state: takes in scrapes, probes and attempts, publishes snapshots."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gateway.core import breaker
from gateway.core.breaker import Breaker, BreakerSettings, Event
from gateway.core.budget import Budget, BudgetSettings
from gateway.core.failover import REFUSED, GiveUp, next_step, rule
from gateway.core.features import GENERATING
from gateway.core.fleet import BackendState, Snapshot
from gateway.core.refused import after_refusal, after_taken, shape_of
from gateway.core.stand_in import after
from gateway.runtime import clock
from gateway.runtime.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.core.decide import Decision
    from gateway.core.features import Features
    from gateway.core.fleet import Backend, Guide, Load
    from gateway.core.outcome import Attempt
    from gateway.core.policy import Policy
    from gateway.core.predict import ServerModel
    from gateway.runtime.elders import Elders
    from gateway.runtime.tallies import Tally

_log = logging.getLogger(__name__)

_DISPATCHED: Final = Event(breaker.DISPATCHED)
_RETURNED: Final = Event(breaker.RETURNED)

WARMING_SECONDS: Final = 0.1
"""How often to look at a backend that warms up: its limit grows all the time."""


class Fleet:
    """All backends. One event loop owns it; readers take :attr:`snapshot`, which never changes.

    Attributes:
        trips: How often the breaker of a backend opened, by name and reason.
        denied: Further attempts that the budget did not allow.
        queue: Requests that wait until a backend has room.
        on_count: Called with a backend's name and number of open requests, when that has changed.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        revision: str,
        *,
        tally: Tally | None = None,
        elders: Elders | None = None,
        stand_ins: Sequence[Backend] = (),
        now: Callable[[], float] = clock.monotonic,
    ) -> None:
        """Take over a fleet, all of it closed and healthy.

        Args:
            backends: What the fleet file declares.
            revision: Its content hash.
            tally: Of the other workers; None where there are none.
            elders: Those who wait in them.
            stand_ins: Hosted models that the file declares beside them.
            now: Monotonic seconds.
        """
        self._now = now
        self._tally = tally
        self._breaker, self._retries = BreakerSettings(), BudgetSettings()
        self._budget = Budget(self._retries.burst, now())
        self._index: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}
        self.trips: Counter[tuple[str, str]] = Counter()
        self.denied = 0
        self._refusing: set[str] = set()
        self.on_count: Callable[[str, int], None] = lambda _name, _count: None
        self.queue = Queue(self._next_change, elders)
        self.snapshot = Snapshot.of((), revision)
        self.replace(backends, revision, stand_ins)

    def govern(self, breakers: BreakerSettings, retries: BudgetSettings) -> None:
        """Put other settings in force."""
        self._breaker, self._retries = breakers, retries

    def replace(self, backends: Sequence[Backend], revision: str, stand_ins: Sequence[Backend] = ()) -> None:
        """Put other backends in force. What is open on a backend that stays is kept."""
        old = {state.backend: state for state in self.snapshot.everybody}
        states = [old.get(backend) or self._new(backend) for backend in (*backends, *stand_ins)]
        self._index = {state.backend.name: position for position, state in enumerate(states)}
        self._names = {hash(name): name for name in self._index}
        first, guide = len(backends), self.snapshot.guide
        self.snapshot = replace(Snapshot.of(states[:first], revision, states[first:]), guide=guide)
        self.queue.news()

    def learnt(self, models: Mapping[str, ServerModel]) -> None:
        """Put what was learnt of backends in force."""
        self.snapshot = self.snapshot.learnt(models)

    def guide(self, guide: Guide) -> None:
        """Put roles and what may be explored in force."""
        changed = guide.plan is not self.snapshot.guide.plan
        self.snapshot = replace(self.snapshot, guide=guide)
        if changed:
            self.queue.news()

    def name_of(self, key: int) -> str:
        """Name of a backend by its hash; "" for one that there is not."""
        return self._names.get(key, "")

    def is_baseline(self, name: str) -> bool:
        """Whether a backend decodes without speculation."""
        return (state := self._state(name)) is not None and state.backend.is_baseline

    @property
    def busy(self) -> float:
        """Requests open on all backends that are well, as a share of their limits together."""
        return self.snapshot.busy

    def next_backend(
        self,
        decision: Decision,
        attempts: Sequence[Attempt],
        *,
        delivered: bool,
        resumable: bool = False,
        deadline: float,
    ) -> Backend | GiveUp:
        """Where a request goes next, see :func:`gateway.core.failover.next_step`; takes it off the budget."""
        now = self._now()
        self._budget = self._budget.filled(self._retries, now, requests=not attempts)
        found = next_step(
            decision,
            attempts,
            delivered=delivered,
            resumable=resumable,
            now=now,
            deadline=deadline,
            state=self._state,
            budget=self._budget,
        )
        if isinstance(found, GiveUp):
            self.denied += found.why == "budget"
            return found
        if found.costs:
            self._budget = self._budget.spent()
        return self.snapshot.at(self._index[found.backend]).backend

    def stand_in(
        self,
        gave_up: GiveUp,
        decision: Decision,
        attempts: Sequence[Attempt],
        features: Features,
        policy: Policy,
    ) -> Backend | GiveUp:
        """Who answers once servers have failed, see :func:`gateway.core.stand_in.after`."""
        name = after(gave_up, decision, attempts, features, policy, self.snapshot, self._now())
        return gave_up if name is None else self.snapshot.at(self._index[name]).backend

    @property
    def retries_left(self) -> float:
        """Further attempts that the budget allows now."""
        return self._budget.filled(self._retries, self._now()).tokens

    @property
    def has_others(self) -> bool:
        """Whether other workers send requests to the same backends."""
        return self._tally is not None

    def sync(self) -> None:
        """Take in what other workers have sent and got back."""
        if self._tally is None or not (changes := self._tally.changes()):
            return
        for key, by in changes.items():
            if by and (state := self._state(self._names.get(key, ""))) is not None:
                self.on_count(state.backend.name, state.in_flight + by)
                self._publish(state.counted(state.in_flight + by, state.since_load + by, state.breaker))
        if min(changes.values()) < 0:
            self.queue.news()

    def dispatched(self, name: str) -> None:
        """A request was sent to a backend."""
        in_flight = self._count(name, 1)
        if (state := self._state(name)) is not None:
            tried = self._stepped(state, _DISPATCHED) if state.breaker.reason else state.breaker
            self._publish(state.counted(in_flight, state.since_load + 1, tried))

    def finished(self, name: str, attempt: Attempt) -> None:
        """A request that was sent has ended, however it ended."""
        in_flight = self._count(name, -1)
        if (state := self._state(name)) is None:
            return
        # What began before the last change of the breaker says nothing of the time after it.
        timely = attempt.started >= state.breaker.since
        tried = self._stepped(state, breaker.event_of(attempt)) if timely else state.breaker
        state = state.counted(in_flight, state.since_load - 1, tried)
        if timely and attempt.retry_after is not None:
            wait = min(attempt.retry_after, self._breaker.open_max)
            state = replace(state, retry_at=self._now() + wait)
        if timely and attempt.phase == "connect" and attempt.error != "client_gone":
            state = replace(state, **_down(state, attempt.error))
        self._publish(state)
        self.queue.news()

    def answered(self, features: Features, attempts: Sequence[Attempt]) -> None:
        """The last of these attempts answered a request: learn from those before that it was refused in."""
        if len(attempts) == 1 and attempts[0].backend not in self._refusing:
            return
        if features.endpoint not in GENERATING:  # what is refused there depends on the path
            return
        shape, now = shape_of(features), self._now()
        for one in attempts:
            if (state := self._state(one.backend)) is None:
                continue
            known = state.refused
            if not one.error:
                known = after_taken(known, shape)
            elif rule(one) is REFUSED:
                known = after_refusal(known, shape, now)
                self._refusing.add(one.backend)
                if known is not state.refused and known[shape].until:
                    _log.warning(
                        "backend %s refused %d requests that others took (%s, status %d, with %s): such go "
                        "elsewhere for %.0f s; name what it cannot take in its 'refuses'",
                        one.backend, known[shape].times, features.endpoint, one.status,
                        ", ".join(sorted(features.parameters)) or "no parameters", known[shape].until - now,
                    )  # fmt: skip
            if known is not state.refused:
                self._put(state, refused=known)

    def in_flight(self, name: str) -> int:
        """Requests that are open on a backend, those of other workers as of the last :meth:`sync`."""
        elsewhere = 0 if self._tally is None else self._tally.elsewhere(name)
        return self._in_flight.get(name, 0) + elsewhere

    def loaded(self, name: str, load: Load, in_flight: int) -> None:
        """A scrape arrived: its numbers include what was sent before.

        Args:
            name: The backend.
            load: The numbers.
            in_flight: Requests that were open on it when the scrape began.
        """
        if (state := self._state(name)) is not None:
            self._put(state, load=load, since_load=state.in_flight - in_flight)

    def up(self, name: str) -> None:
        """A probe found the server well. If it was down it starts anew, and slowly."""
        state = self._state(name)
        if state is not None and not state.healthy:
            _log.info("backend %s is back", name)
            fresh = self._stepped(state, _RETURNED)
            self._put(state, healthy=True, reason="", retry_at=0.0, breaker=fresh, refused={})
            self.queue.news()

    def down(self, name: str, reason: str) -> None:
        """The server is out until a probe finds it well.

        Args:
            name: The backend.
            reason: Why, in words.
        """
        if (state := self._state(name)) is not None:
            self._put(state, **_down(state, reason))
            self.queue.news()  # who waits for it need wait no longer

    def _new(self, backend: Backend) -> BackendState:
        # An attempt that still runs on what bore this name before must not be held against it.
        return BackendState(backend, self.in_flight(backend.name), breaker=Breaker(since=self._now()))

    def _next_change(self) -> float | None:
        """Seconds until a backend may have room though nothing happens."""
        now = self._now()
        well = [state for state in self.snapshot.states if state.healthy]
        waits = [state.back_at - now for state in well if state.back_at > now]
        if any(state.limit(now) < state.backend.max_in_flight for state in well if state.back_at <= now):
            waits.append(WARMING_SECONDS)
        return min(waits, default=None)

    def _count(self, name: str, by: int) -> int:
        """Requests that are open on a backend once so many more of this worker are."""
        count = self._in_flight.get(name, 0) + by
        if count:
            self._in_flight[name] = count
        else:
            del self._in_flight[name]
        if self._tally is not None:
            self._tally.put(name, count)
        count = self.in_flight(name)
        self.on_count(name, count)
        return count

    def _stepped(self, state: BackendState, event: Event) -> Breaker:
        stepped = breaker.step(state.breaker, event, self._breaker, self._now())
        if event.kind == breaker.FAILED and (why := stepped.reason) and stepped is not state.breaker:
            name = state.backend.name
            self.trips[name, why] += 1
            _log.warning("backend %s is out for %.1f s: %s", name, stepped.until - stepped.since, why)
        return stepped

    def _state(self, name: str) -> BackendState | None:
        position = self._index.get(name)
        return None if position is None else self.snapshot.at(position)

    def _put(self, state: BackendState, **changes: Any) -> None:  # noqa: ANN401 - fields of a state
        self._publish(replace(state, **changes))

    def _publish(self, state: BackendState) -> None:
        self.snapshot = self.snapshot.put(self._index[state.backend.name], state)


def _down(state: BackendState, reason: str) -> dict[str, Any]:
    if state.healthy:
        _log.warning("backend %s is out: %s", state.backend.name, reason)
    return {"healthy": False, "reason": reason}
