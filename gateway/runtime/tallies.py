"""How many requests the workers of one gateway have open on each backend, in memory that they share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.runtime.memory import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.runtime.fleet import Fleet

MOST: Final = 16_384
"""Backends with open requests that a worker can tell of at a time; those beyond are known to it alone.
Memory that nobody has written to takes no place."""

SYNC_SECONDS: Final = 0.02
"""How often a worker looks at the others while it decides nothing."""

WAITING_SECONDS: Final = 0.004
"""The same while requests wait for room, which others may have made."""

_LATEST: Final = 64
_TURN, _USED, _RING, _FIRST = 0, 1, 2, 2 + _LATEST
"""Where a row has the number of its changes, how many of its places were ever used, and which places changed
at the last so many of them; its places follow, two numbers each."""


class Tallies:
    """The memory: a row for each worker, which nobody else writes to while that runs.

    A row says of each of its places which backend that is for, by the hash of its name, and how many requests
    the worker has open there. Processes that were forked from one have the same hashes. What is written while
    somebody reads may be seen in part; the number of changes, written last, has it read again.
    """

    def __init__(self, workers: int, most: int = MOST) -> None:
        """Make the memory, before the workers are forked.

        Args:
            workers: How many there are.
            most: Backends that each can tell of at a time.
        """
        self._rows = rows(workers, _FIRST + 2 * most)

    def of(self, worker: int) -> Tally:
        """The row of a worker, and what the others say."""
        return Tally(self._rows, worker)

    def clear(self, worker: int) -> None:
        """A worker is dead, and nothing of it is open any more."""
        row = self._rows[worker]
        for at in _places(row):
            row[at + 1] = 0
        row[_TURN] += _LATEST  # so that all of it is read


def _places(row: memoryview) -> Iterable[int]:
    return range(_FIRST, _FIRST + 2 * row[_USED], 2)


class Tally:
    """What one worker tells the others, and they tell it."""

    def __init__(self, rows: list[memoryview], worker: int) -> None:
        """Tell nothing yet.

        Args:
            rows: Those of all workers.
            worker: The number of this one.
        """
        self._row = row = rows[worker]
        self._places: dict[str, int] = {}
        self._free = [*_places(row)]  # of a worker that had this number before and died
        self._others = [_Other(other) for at, other in enumerate(rows) if at != worker]
        self._open: dict[int, int] = {}

    def put(self, backend: str, count: int) -> None:
        """Tell how many requests this worker has open on a backend."""
        row, at = self._row, self._places.get(backend)
        if at is None and (at := self._place(backend)) is None:
            return
        row[at + 1] = count
        turn = row[_TURN]
        row[_RING + turn % _LATEST] = at
        row[_TURN] = turn + 1

    def _place(self, backend: str) -> int | None:
        """A place for a backend, if need be of one on which nothing is open; None where there is none."""
        row, used = self._row, self._row[_USED]
        if not self._free and _FIRST + 2 * used == len(row):
            idle = {of: at for of, at in self._places.items() if not row[at + 1]}
            self._places = {of: at for of, at in self._places.items() if of not in idle}
            self._free = list(idle.values())
        if self._free:
            at = self._free.pop()
        elif _FIRST + 2 * used < len(row):
            at = _FIRST + 2 * used
            row[_USED] = used + 1
        else:
            return None
        row[at] = hash(backend)
        self._places[backend] = at
        return at

    def changes(self) -> Mapping[int, int]:
        """How much more the others have open than when this was last asked, by hash of a backend's name."""
        changes: dict[int, int] = {}
        for other in self._others:
            if other.turn != other.row[_TURN]:
                other.read(changes)
        for key, by in changes.items():
            self._open[key] = self._open.get(key, 0) + by
        return changes

    def elsewhere(self, backend: str) -> int:
        """How many requests the others have open on a backend, as of the last :meth:`changes`."""
        return self._open.get(hash(backend), 0)


class _Other:
    """The row of another worker, as far as it was read.

    Attributes:
        row: It.
        turn: Its number of changes then.
    """

    def __init__(self, row: memoryview) -> None:
        self.row = row
        self.turn = 0
        self._seen: dict[int, tuple[int, int]] = {}

    def read(self, changes: dict[int, int]) -> None:
        """Add what has changed to changes by key."""
        row, before = self.row, self.turn
        self.turn = turn = row[_TURN]
        latest = {row[_RING + one % _LATEST] for one in range(before, min(turn, before + _LATEST))}
        # Of more changes than are kept, which may have come just now, some places would be missed.
        for at in latest if row[_TURN] - before < _LATEST else _places(row):
            key, count = row[at], row[at + 1]
            of, had = self._seen.get(at, (key, 0))
            if of != key:
                changes[of] = changes.get(of, 0) - had
                had = 0
            if count != had:
                changes[key] = changes.get(key, 0) + count - had
            self._seen[at] = key, count


async def follow(fleet: Fleet) -> None:
    """Have a fleet take in what other workers do, until cancelled; where there are none this ends at once."""
    while fleet.has_others:
        await asyncio.sleep(WAITING_SECONDS if len(fleet.queue) else SYNC_SECONDS)
        fleet.sync()
        fleet.queue.beat()
