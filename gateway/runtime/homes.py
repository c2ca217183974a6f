"""Owner of where each conversation was answered last: that server has it in its prefix cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.core.fleet import STAND_IN
from gateway.core.outcome import OK
from gateway.core.predict import Home
from gateway.runtime.holders import Holders

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.features import Hints
    from gateway.core.outcome import Record
    from gateway.runtime.notes import Notes

MOST_SESSIONS: Final = 20_000
"""Conversations remembered, the last used ones."""

_SECOND: Final = 1_000_000_000

COLD_SECONDS: Final = 600.0
"""Silence after which a server has made room for others in its prefix cache, as far as one can tell."""


class Homes:
    """A bounded memory. One event loop owns it.

    Attributes:
        held: Which server holds which response.
    """

    def __init__(
        self,
        most: int = MOST_SESSIONS,
        cold: float = COLD_SECONDS,
        *,
        notes: Notes | None = None,
        held: Notes | None = None,
        name_of: Callable[[int], str] = str,
    ) -> None:
        """Remember nothing yet.

        Args:
            most: Conversations to remember.
            cold: Seconds after its last answer at which a conversation is in no cache any more.
            notes: For other workers, and theirs; None where there are none.
            held: The same on responses.
            name_of: Name of a backend by its hash; "" for one that there is not.
        """
        self._most = most
        self._cold = cold
        self._notes = notes
        self._name_of = name_of
        self.held = Holders(held, name_of)
        self._homes: OrderedDict[int, tuple[Home, float]] = OrderedDict()

    def __len__(self) -> int:
        """Conversations remembered."""
        return len(self._homes)

    def of(self, hints: Hints, now: float) -> Home | None:
        """Where a request's conversation was answered last, None where that is not known."""
        if (name := hints.session or hints.previous) is None:
            return None
        self._hear()
        home, at = self._homes.get(hash((hints.tenant or "", name)), (None, 0.0))
        return home if now - at < self._cold else None

    def _hear(self) -> None:
        """Take in what other workers have answered; processes forked from one have the same hashes."""
        for key, backend, tokens, at in () if self._notes is None else self._notes.news():
            if name := self._name_of(backend):
                self._keep(key, Home(name, float(tokens)), at / _SECOND)

    def on_record(self, record: Record) -> None:
        """Take in where a request was answered."""
        self.held.on_record(record)
        hints, outcome, usage = record.features.hints, record.outcome, record.outcome.usage
        name = hints.session or (outcome.response_id if record.features.endpoint == "responses" else "")
        if not name or outcome.status != OK or usage.input_tokens is None or record.method == STAND_IN:
            return
        home = Home(record.backend, float(usage.input_tokens + (usage.output_tokens or 0)))
        key = hash((hints.tenant or "", name))
        if self._notes is not None:
            self._notes.leave((key, hash(home.backend), round(home.tokens), round(record.ended * _SECOND)))
        self._keep(key, home, record.ended)

    def _keep(self, key: int, home: Home, at: float) -> None:
        if at < self._homes.get(key, (home, at))[1]:
            return
        self._homes[key] = (home, at)
        self._homes.move_to_end(key)
        while len(self._homes) > self._most:
            self._homes.popitem(last=False)
