"""Owner of where each conversation was answered last: that server has it in its prefix cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.core.outcome import OK
from gateway.core.predict import Home

if TYPE_CHECKING:
    from gateway.core.features import Hints
    from gateway.core.outcome import Record

MOST_SESSIONS: Final = 20_000
"""Conversations remembered, the last used ones."""

COLD_SECONDS: Final = 600.0
"""Silence after which a server has made room for others in its prefix cache, as far as one can tell."""


class Homes:
    """A bounded memory. One event loop owns it."""

    def __init__(self, most: int = MOST_SESSIONS, cold: float = COLD_SECONDS) -> None:
        """Remember nothing yet.

        Args:
            most: Conversations to remember.
            cold: Seconds after its last answer at which a conversation is in no cache any more.
        """
        self._most = most
        self._cold = cold
        self._homes: OrderedDict[tuple[str, str], tuple[Home, float]] = OrderedDict()

    def __len__(self) -> int:
        """Conversations remembered."""
        return len(self._homes)

    def of(self, hints: Hints, now: float) -> Home | None:
        """Where a request's conversation was answered last, None where that is not known."""
        if (name := hints.session or hints.previous) is None:
            return None
        home, at = self._homes.get((hints.tenant or "", name), (None, 0.0))
        return home if now - at < self._cold else None

    def on_record(self, record: Record) -> None:
        """Take in where a request was answered."""
        hints, outcome, usage = record.features.hints, record.outcome, record.outcome.usage
        name = hints.session or (outcome.response_id if record.features.endpoint == "responses" else "")
        if not name or outcome.status != OK or usage.input_tokens is None:
            return
        home = Home(record.backend, float(usage.input_tokens + (usage.output_tokens or 0)))
        key = (hints.tenant or "", name)
        self._homes[key] = (home, record.ended)
        self._homes.move_to_end(key)
        while len(self._homes) > self._most:
            self._homes.popitem(last=False)
