"""What is to be said of the servers of one target, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.runtime.advice import advise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.core.plan import Kind, Wanted


@dataclass(frozen=True, slots=True)
class FleetAdvice:
    """What is to be said of the servers of one target.

    Attributes:
        routing: Output that telling workloads apart adds to spreading load alone, as a share.
        consolidating: Output that each backend's configuration on all servers would add, as a share.
        words: The same in sentences.
    """

    routing: float
    consolidating: Mapping[str, float]
    words: tuple[str, ...]

    @classmethod
    def of(cls, kinds: Sequence[Kind], wanted: Sequence[Wanted]) -> FleetAdvice:
        """Work it out; takes tenths of a second."""
        found = advise(kinds, wanted)
        first = {kind.model.fingerprint: kind.backends[0] for kind in kinds}
        gains = {one: option.gain for option in found.options for one in option.servers}
        same = {kind.configuration: kind.model.fingerprint for kind in reversed(kinds)}
        consolidating = {kind.backends[0]: gains[same[kind.configuration]] for kind in kinds}
        names = {known: f"{name}'s configuration" for known, name in first.items()}
        return cls(found.routing, consolidating, found.words(names))
