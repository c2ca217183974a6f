"""Since when requests wait for room in the workers of one gateway, so that who came first gets it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.runtime import clock
from gateway.runtime.memory import rows

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

MOST: Final = 64
"""Kinds of waiting requests that a worker can tell of at a time; those beyond are known to it alone."""

ALIVE_SECONDS: Final = 0.2
"""How long what a worker tells holds. One that stands still takes no room, so that nobody leaves it any."""

_BEAT, _USED, _FIRST = 0, 1, 2
"""Where a row has the time at which its worker was heard last and how many of its places were ever used; its
places follow: which kind waits there, by its hash, and since when, 0 for not at all. Times in nanoseconds."""


class Waits:
    """The memory: a row for each worker, which nobody else writes to while that runs."""

    def __init__(self, workers: int, most: int = MOST) -> None:
        """Make the memory, before the workers are forked.

        Args:
            workers: How many there are.
            most: Kinds that each can tell of at a time.
        """
        self._rows = rows(workers, _FIRST + 2 * most)

    def of(self, worker: int) -> Elders:
        """The row of a worker, and what the others say; nothing of it waits yet."""
        self._rows[worker][_USED] = 0
        return Elders(self._rows, worker)


class Elders:
    """What one worker tells the others of those who wait, and they tell it."""

    def __init__(self, rows: Sequence[memoryview], worker: int) -> None:
        """Tell nothing yet.

        Args:
            rows: Those of all workers.
            worker: The number of this one.
        """
        self._row = rows[worker]
        self._others = [row for at, row in enumerate(rows) if at != worker]
        self._places: dict[Hashable, int] = {}
        self._free: list[int] = []

    def tell(self, kind: Hashable, since: float) -> None:
        """Tell since when the first request of a kind waits, monotonic seconds; 0 where none does now."""
        row, at = self._row, self._places.get(kind)
        if at is None:
            if not since:
                return
            if self._free:
                at = self._free.pop()
            elif _FIRST + 2 * row[_USED] < len(row):
                at = _FIRST + 2 * row[_USED]
                row[at + 1] = 0
                row[_USED] += 1
            else:
                return
            row[at] = hash(kind)
            self._places[kind] = at
        row[at + 1] = _nanoseconds(since)
        self.beat()
        if not since:
            self._free.append(self._places.pop(kind))

    def beat(self) -> None:
        """Tell that this worker does not stand still; what it told holds for a while again."""
        self._row[_BEAT] = _nanoseconds(clock.monotonic())

    def before(self, kind: Hashable, since: float) -> bool:
        """Whether a request of a kind has waited in another worker since before a time, monotonic seconds."""
        key, heard, latest = hash(kind), _nanoseconds(clock.monotonic() - ALIVE_SECONDS), _nanoseconds(since)
        for row in self._others:
            for at in range(_FIRST, _FIRST + 2 * row[_USED], 2):
                if row[at] == key and 0 < row[at + 1] < latest and row[_BEAT] >= heard:
                    return True
        return False


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
