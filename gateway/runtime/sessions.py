"""Owner of what the last answers of each session were, for requests that go on from them."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.core.sessions import remember

if TYPE_CHECKING:
    from gateway.core.features import Hints
    from gateway.core.outcome import Record

MOST_SESSIONS: Final = 20_000
"""Sessions remembered, the last used ones; each takes some 400 bytes."""

FORGET_SECONDS: Final = 3600.0
"""Silence after which a session is forgotten: its next request may be about anything."""


class _Entry(NamedTuple):
    natures: tuple[str, ...]
    at: float


class Sessions:
    """A bounded memory. One event loop owns it.

    A session is what the header ``x-session-id`` names, or the response that a request goes on from
    (``previous_response_id``), in either case of one tenant. Each process has a memory of its own.
    """

    def __init__(self, most: int = MOST_SESSIONS, forget: float = FORGET_SECONDS) -> None:
        """Remember nothing yet.

        Args:
            most: Sessions to remember.
            forget: Seconds after its last answer at which a session is forgotten.
        """
        self._most = most
        self._forget = forget
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()

    def __len__(self) -> int:
        """Sessions remembered."""
        return len(self._entries)

    def before(self, hints: Hints, now: float) -> tuple[str, ...]:
        """Natures of the last answers of a request's session, the newest last; nothing where none are known.

        Args:
            hints: Those of the request.
            now: Monotonic seconds.
        """
        name = hints.session or hints.previous
        if name is None:
            return ()
        entry = self._entries.get((hints.tenant or "", name))
        return entry.natures if entry is not None and now - entry.at < self._forget else ()

    def on_record(self, record: Record) -> None:
        """Take in what an answer turned out to be."""
        hints, outcome = record.features.hints, record.outcome
        # A response without a session of its own can be gone on from by its id.
        name = hints.session or (outcome.response_id if record.features.endpoint == "responses" else "")
        if not outcome.nature or not name:
            return
        natures = remember(self.before(hints, record.ended), outcome.nature)
        key = (hints.tenant or "", name)
        self._entries[key] = _Entry(natures, record.ended)
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
