"""Owner of which server holds which response: no other can go on from it, or tell of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.core.outcome import OK

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.outcome import Record
    from gateway.runtime.notes import Notes

MOST_RESPONSES: Final = 50_000
"""Responses remembered, the last ones; each takes some hundred bytes."""


class Holders:
    """A bounded memory. One event loop owns it."""

    def __init__(
        self, notes: Notes | None, name_of: Callable[[int], str], most: int = MOST_RESPONSES
    ) -> None:
        """Remember nothing yet.

        Args:
            notes: For other workers, and theirs; None where there are none.
            name_of: Name of a backend by its hash; "" for one that there is not.
            most: Responses to remember.
        """
        self._notes = notes
        self._name_of = name_of
        self._most = most
        self._held: OrderedDict[int, int] = OrderedDict()

    def of(self, response: str) -> str:
        """Name of the backend that holds a response, by its id; "" where that is not known."""
        self._hear()
        return self._name_of(self._held.get(hash(response), 0))

    def on_record(self, record: Record) -> None:
        """Take in where a response was given, or found."""
        hints, outcome = record.features.hints, record.outcome
        if record.features.endpoint == "responses" and outcome.response_id:
            self._note(outcome.response_id, record.backend)
        if hints.previous and not hints.held and outcome.status == OK:
            self._note(hints.previous, record.backend)

    def _note(self, response: str, backend: str) -> None:
        key, where = hash(response), hash(backend)
        if self._notes is not None:
            self._hear()  # often enough to miss none
            self._notes.leave((key, where, 0, 0))
        self._keep(key, where)

    def _hear(self) -> None:
        for key, where, _, _ in () if self._notes is None else self._notes.news():
            self._keep(key, where)

    def _keep(self, key: int, where: int) -> None:
        self._held[key] = where
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
