"""How long an attempt waits for a backend: to its first byte, then between two, and in all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from gateway.runtime import clock

if TYPE_CHECKING:
    from types import TracebackType

    from gateway.runtime.alarms import Alarm, Alarms
    from gateway.wire.client import Client


class Patience:
    """A block that ends with :class:`TimeoutError` when the backend is silent for too long.

    Time in which the client keeps us from reading is not held against the backend. An arrival costs no timer:
    one alarm an attempt looks at when the last bytes came.

    Attributes:
        last: Monotonic seconds at which bytes last came, 0 before the first; those that went straight to the
            client need not be told of here.
        which: The limit that ended the block: ``timeout:first_byte``, ``timeout:idle`` or ``timeout:total``.
    """

    __slots__ = (
        "_alarm",
        "_alarms",
        "_cancelling",
        "_client",
        "_deadline",
        "_first_byte",
        "_idle",
        "_now",
        "_over",
        "_task",
        "last",
        "which",
    )  # fmt: skip

    _alarm: Alarm

    def __init__(
        self,
        client: Client,
        alarms: Alarms,
        task: asyncio.Task[object],
        *,
        now: float,
        first_byte: float,
        idle: float,
        deadline: float,
    ) -> None:
        """Set the limits.

        Args:
            client: Who may be slow.
            alarms: Those of the loop.
            task: The one that waits.
            now: Monotonic seconds from which on it waits.
            first_byte: Seconds from then to the first byte.
            idle: Seconds between two arrivals.
            deadline: Monotonic seconds at which the whole request must have ended.
        """
        self._client = client
        self._alarms = alarms
        self._task = task
        self._now = now
        self._first_byte = now + first_byte
        self._idle = idle
        self._deadline = deadline
        self._over = False
        self.last = 0.0
        self.which = ""

    def __enter__(self) -> Self:
        """Start to wait."""
        self._cancelling = self._task.cancelling()
        self._set(min(self._first_byte, self._now + self._idle, self._deadline))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to wait."""
        self._alarm.off()
        if self._over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError(self.which) from error

    def _set(self, due: float) -> None:
        self._alarm = self._alarms.at(due, self._look)

    def _look(self) -> None:
        now = clock.monotonic()
        client = self._client
        if client.writing:
            self.last = now
        if self.last:
            last = max(self.last, client.last_sent, client.caught_up_at)
            limit, which = last + self._idle, "timeout:idle"
        else:
            limit, which = self._first_byte, "timeout:first_byte"
        if self._deadline <= limit:
            limit, which = self._deadline, "timeout:total"
        if now < limit:
            self._set(limit)
        else:
            self._over = True
            self.which = which
            self._task.cancel()
