"""Owner of the fleet's state: counts what is open, takes in scrapes, publishes snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.core.fleet import BackendState, Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.fleet import Backend, Load


class Fleet:
    """All backends. One event loop owns it; readers take :attr:`snapshot`, which never changes."""

    def __init__(self, backends: Sequence[Backend], revision: str) -> None:
        self._index: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}
        self.snapshot = Snapshot.of((), revision)
        self.replace(backends, revision)

    def replace(self, backends: Sequence[Backend], revision: str) -> None:
        """Put other backends in force. What is open on a backend that stays is kept."""
        old = {state.backend: state for state in self.snapshot.states}
        states = tuple(
            old.get(backend) or BackendState(backend, in_flight=self.in_flight(backend.name))
            for backend in backends
        )
        self._index = {state.backend.name: position for position, state in enumerate(states)}
        self.snapshot = Snapshot.of(states, revision)

    def get(self, name: str) -> Backend | None:
        """The backend of that name, if the fleet still has it."""
        position = self._index.get(name)
        return None if position is None else self.snapshot.states[position].backend

    def dispatched(self, name: str) -> None:
        """A request was sent to a backend."""
        self._count(name, 1)

    def finished(self, name: str) -> None:
        """A request that was sent has ended, however it ended."""
        self._count(name, -1)

    def in_flight(self, name: str) -> int:
        """Requests that are open on a backend."""
        return self._in_flight.get(name, 0)

    def loaded(self, name: str, load: Load, in_flight: int) -> None:
        """A scrape arrived: the server lives, and its numbers include what was sent before.

        Args:
            name: The backend.
            load: The numbers.
            in_flight: Requests that were open on it when the scrape began.
        """
        if (state := self._state(name)) is not None:
            since = state.in_flight - in_flight
            self._put(replace(state, load=load, since_load=since, healthy=True, reason=""))

    def reachable(self, name: str) -> None:
        """The server lives but does not say how busy it is."""
        if (state := self._state(name)) is not None:
            self._put(replace(state, healthy=True, reason=""))

    def failed(self, name: str, reason: str) -> None:
        """The server cannot be reached; it stays out until a scrape succeeds."""
        if (state := self._state(name)) is not None:
            self._put(replace(state, healthy=False, reason=reason))

    def _count(self, name: str, by: int) -> None:
        count = self.in_flight(name) + by
        self._in_flight[name] = count
        if not count:
            del self._in_flight[name]
        if (state := self._state(name)) is not None:
            self._put(replace(state, in_flight=count, since_load=state.since_load + by))

    def _state(self, name: str) -> BackendState | None:
        position = self._index.get(name)
        return None if position is None else self.snapshot.states[position]

    def _put(self, state: BackendState) -> None:
        states = list(self.snapshot.states)
        states[self._index[state.backend.name]] = state
        self.snapshot = replace(self.snapshot, states=tuple(states))
