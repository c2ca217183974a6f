"""The pipe: an extension of ASGI by which our server takes an answer's bytes without an ``await``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

EXTENSION: Final = "specroute.pipe"
"""Key of the pipe among the ``extensions`` of a scope."""


class Pipe(Protocol):
    """The way to the client of one exchange, past ``send`` and ``receive``.

    It may be used once the whole request was received; ``send`` still begins and ends the answer.
    """

    def write(self, data: bytes) -> bool:
        """Write a part of a body that ``send`` has begun, at once.

        Returns:
            Whether the client keeps up. If not, nothing is lost, but the more is written the more is held.
        """
        ...

    def on_room(self, call: Callable[[], None]) -> None:
        """Call this each time a client that did not keep up has caught up."""
        ...

    def on_lost(self, call: Callable[[], None] | None) -> None:
        """Call this once the client has left, instead of what was to be called before; None calls nothing."""
        ...
