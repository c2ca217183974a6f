"""Short notes that each worker of one gateway leaves for the others, in memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.runtime.memory import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Note = tuple[int, int, int, int]

KEPT: Final = 4096
"""Notes of a worker that the others can still read: far more than it leaves between two looks of theirs."""

_WIDTH: Final = 4


class Notebooks:
    """The memory: for each worker the number of its notes, and the last ones."""

    def __init__(self, workers: int, kept: int = KEPT) -> None:
        """Make it, before the workers are forked.

        Args:
            workers: How many there are.
            kept: Notes of each that are kept.
        """
        self._rows = rows(workers, 1 + _WIDTH * kept)

    def of(self, worker: int) -> Notes:
        """The notes of a worker, and those that the others leave it."""
        return Notes(self._rows, worker)


class Notes:
    """What one worker notes for the others, and reads of theirs; one that is new reads what is there."""

    def __init__(self, rows: Sequence[memoryview], worker: int) -> None:
        """Have read nothing yet.

        Args:
            rows: Those of all workers.
            worker: The number of this one.
        """
        self._own = rows[worker]
        self._kept = (len(self._own) - 1) // _WIDTH
        self._others = [row for at, row in enumerate(rows) if at != worker]
        self._read = [0] * len(self._others)

    def leave(self, note: Note) -> None:
        """Note something for the others."""
        row, number = self._own, self._own[0]
        at = 1 + _WIDTH * (number % self._kept)
        for place, one in enumerate(note):
            row[at + place] = one
        row[0] = number + 1

    def news(self) -> Iterator[Note]:
        """What the others have noted since this was last read, but for what is written over."""
        for which, row in enumerate(self._others):
            if (last := row[0]) != self._read[which]:
                for number in range(max(self._read[which], last - self._kept + 1), last):
                    at = 1 + _WIDTH * (number % self._kept)
                    note = row[at], row[at + 1], row[at + 2], row[at + 3]
                    if row[0] - number < self._kept:
                        yield note
                self._read[which] = last
