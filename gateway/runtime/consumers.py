"""Hands finished Records to everything that reads them, off the request path and without ever blocking it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from gateway.runtime.tasks import cancel, spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.core.outcome import Record

    Handler = Callable[[Record], None]

_log = logging.getLogger(__name__)

_BATCH: Final = 2
"""Records handled before other tasks get a turn: a stream waits for at most this many."""


class Consumers:
    """A bounded queue of Records and the one task that reads it.

    Args:
        record_handlers: Called with each Record in turn, in this order. They must not block. One that
            raises is logged and does not keep the Record from the others.
        capacity: Records held at most; further ones are dropped and counted.
    """

    def __init__(self, record_handlers: Sequence[Handler], capacity: int = 8192) -> None:
        self._handlers = tuple(record_handlers)
        self._failures = [0] * len(self._handlers)
        self._queue: deque[Record] = deque()
        self._capacity = capacity
        self._awake = asyncio.Event()
        self._closed = False
        self._dropped = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def dropped(self) -> int:
        """Records that no handler saw: the queue was full or closed."""
        return self._dropped

    def put(self, record: Record) -> None:
        """Queue a Record; never blocks and never raises."""
        if self._closed or len(self._queue) >= self._capacity:
            self._dropped += 1
            return
        self._queue.append(record)
        self._awake.set()

    def start(self) -> None:
        """Start the task that reads; needs a running loop."""
        self._task = spawn(self._consume(), name="consumers")

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - what is left then is counted, not raised
        """Refuse further Records and wait until those queued are handled.

        Args:
            timeout: Seconds after which those left are dropped and counted.
        """
        self._closed = True
        self._awake.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=timeout)
            await cancel(self._task)
        self._dropped += len(self._queue)
        self._queue.clear()

    async def _consume(self) -> None:
        while True:
            await self._awake.wait()
            for _ in range(min(_BATCH, len(self._queue))):
                self._handle(self._queue.popleft())
            if self._queue:
                await asyncio.sleep(0)
            elif self._closed:
                return
            else:
                self._awake.clear()

    def _handle(self, record: Record) -> None:
        for index, handler in enumerate(self._handlers):
            try:
                handler(record)
            except Exception:  # noqa: BLE001 - whatever it is, the others get the Record, and it is logged
                self._failures[index] += 1
                self._log_failure(handler, self._failures[index])

    def _log_failure(self, handler: Handler, failures: int) -> None:
        # Logged at 1, 2, 4, 8, …: a handler that always fails would else fill the disk.
        if failures & (failures - 1) == 0:
            _log.exception("record handler %s failed, %d times so far", handler, failures)
