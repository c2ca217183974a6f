"""How many requests may be open in the process at once, whatever they wait for."""

from __future__ import annotations


class Admission:
    """Counts the requests that are open; entered by each while it is.

    Attributes:
        open: Requests that are open now.
    """

    __slots__ = ("_limit", "open")

    def __init__(self, limit: int) -> None:
        """Let so many requests in at a time."""
        self._limit = limit
        self.open = 0

    @property
    def full(self) -> bool:
        """Whether no other request may come in."""
        return self.open >= self._limit

    def __enter__(self) -> None:
        """A request comes in."""
        self.open += 1

    def __exit__(self, *_: object) -> None:
        """It has ended, however it ended."""
        self.open -= 1
