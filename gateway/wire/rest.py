"""Closes a connection that nobody has used for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Rest:
    """The pauses between the requests of one connection, of which none may be too long.

    One timer looks after all of them: to set one a request, and to cancel it, takes longer.

    Attributes:
        on: Whether there is a pause now; whoever ends it says so here.
    """

    __slots__ = ("_close", "_loop", "_seconds", "_since", "_timer", "on")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, close: Callable[[], None]) -> None:
        """Without a pause yet.

        Args:
            loop: The running loop.
            seconds: How long a pause may be.
            close: Called once one was.
        """
        self._loop = loop
        self._seconds = seconds
        self._close = close
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.on = False

    def begin(self) -> None:
        """A pause begins."""
        self.on = True
        self._since = self._loop.time()
        if self._timer is None:
            self._look_after(self._seconds)

    def stop(self) -> None:
        """The connection is gone."""
        self.on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_after(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self.on:
            return
        left = self._since + self._seconds - self._loop.time()
        if left > 0.0:
            self._look_after(left)
        else:
            self._close()
