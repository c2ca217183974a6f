"""Ends a connection whose client reads nothing of what was written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Stall:
    """The times in which a client does not keep up; one that reads at all, however slowly, may go on."""

    __slots__ = ("_abort", "_behind", "_caught_up", "_loop", "_seconds", "_timer", "_transport", "_unread")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        seconds: float,
        abort: Callable[[], None],
    ) -> None:
        """Without such a time yet.

        Args:
            loop: The running loop.
            transport: To the client.
            seconds: How long it may read nothing.
            abort: Called once it has.
        """
        self._loop = loop
        self._transport = transport
        self._seconds = seconds
        self._abort = abort
        self._behind = False
        self._caught_up = False
        self._unread = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The client does not keep up."""
        self._behind = True
        if self._timer is None:
            self._look_again()

    def end(self) -> None:
        """It has caught up."""
        self._behind = False
        self._caught_up = True

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
        del self._abort  # it knows the connection, and that knows this

    def _look_again(self) -> None:
        self._unread = self._transport.get_write_buffer_size()
        self._caught_up = False
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._behind:
            return
        if self._caught_up or self._transport.get_write_buffer_size() < self._unread:
            self._look_again()
        else:
            self._abort()
