"""How long an attempt waits for a backend: to its first byte, then between two, and in all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from gateway.runtime import clock

if TYPE_CHECKING:
    from types import TracebackType

    from gateway.wire.client import Client


class Patience:
    """A block that ends with :class:`TimeoutError` when the backend is silent for too long.

    Time in which the client keeps us from reading is not held against the backend. An arrival costs no timer:
    one timer an attempt looks at when the last bytes came.

    Attributes:
        which: The limit that ended the block: ``timeout:first_byte``, ``timeout:idle`` or ``timeout:total``.
    """

    __slots__ = ("_client", "_deadline", "_idle", "_last", "_limit", "_loop", "_timer", "which")

    def __init__(self, client: Client, *, first_byte: float, idle: float, deadline: float) -> None:
        """Set the limits.

        Args:
            client: Who may be slow.
            first_byte: Seconds from now to the first byte.
            idle: Seconds between two arrivals.
            deadline: Monotonic seconds at which the whole request must have ended.
        """
        self._client = client
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._last: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        left = max(0.0, deadline - clock.monotonic())
        self._deadline = self._loop.time() + left
        self.which = "timeout:first_byte" if first_byte < left else "timeout:total"
        self._limit = asyncio.timeout_at(self._loop.time() + min(first_byte, left))

    async def __aenter__(self) -> Self:
        """Start to wait."""
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to wait."""
        if self._timer is not None:
            self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def arrived(self, now: float) -> None:
        """Bytes came from the backend at this monotonic time."""
        if self._last is None:
            self.which = "timeout:total"
            self._limit.reschedule(self._deadline)
            self._timer = self._loop.call_later(self._idle, self._look)
        self._last = now

    def _look(self) -> None:
        now = clock.monotonic()
        if self._client.writing:
            self._last = now
        silent = now - (self._last or now)
        if silent < self._idle:
            self._timer = self._loop.call_later(self._idle - silent, self._look)
        else:
            self.which = "timeout:idle"
            self._limit.reschedule(self._loop.time())
