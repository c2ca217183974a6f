"""What happens to servers while a simulation runs, as data and from a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from backends.fleetsim.model import Model

KINDS: Final = ("down", "up", "slow", "replace")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to one server.

    Attributes:
        at: Virtual seconds.
        server: Its index.
        kind: ``down`` loses everything on it, ``up`` brings it back, ``slow`` multiplies all its times by
            ``factor``, ``replace`` lets it run ``model``.
        factor: For ``slow``; 1 for the usual speed.
        model: For ``replace``.
    """

    at: float
    server: int
    kind: str
    factor: float = 1.0
    model: Model | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"an event is one of {', '.join(KINDS)}, not {self.kind!r}")
        if (self.kind == "replace") != (self.model is not None):
            raise ValueError("a 'replace' event, and no other, has a model")
