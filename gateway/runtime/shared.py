"""What the workers of one gateway share: memory that is made before they are forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.runtime.agreed import Agreements
from gateway.runtime.elders import Waits
from gateway.runtime.notes import Notebooks
from gateway.runtime.tallies import Tallies

if TYPE_CHECKING:
    from gateway.runtime.agreed import Agreed
    from gateway.runtime.elders import Elders
    from gateway.runtime.notes import Notes
    from gateway.runtime.tallies import Tally


class Shared(NamedTuple):
    """What one worker has of it.

    Attributes:
        tally: The open requests of all.
        agreed: The roles that all go by.
        notes: Where conversations were answered.
        held: Which server holds which response.
        elders: Those who wait for room in the others.
    """

    tally: Tally
    agreed: Agreed
    notes: Notes
    held: Notes
    elders: Elders


class Memory:
    """All of it."""

    def __init__(self, workers: int) -> None:
        """Make it for so many workers."""
        self._tallies, self._agreements = Tallies(workers), Agreements(workers)
        self._notebooks, self._held = Notebooks(workers), Notebooks(workers)
        self._waits = Waits(workers)

    def of(self, worker: int) -> Shared:
        """What a worker has of it that begins now."""
        agreed = self._agreements.of(worker)
        notes, held = self._notebooks.of(worker), self._held.of(worker)
        return Shared(self._tallies.of(worker), agreed, notes, held, self._waits.of(worker))

    def clear(self, worker: int) -> None:
        """A worker is dead."""
        self._tallies.clear(worker)
        self._agreements.clear(worker)
