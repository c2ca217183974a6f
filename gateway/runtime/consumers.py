"""Hands finished Records to everything that reads them, off the request path and without ever blocking it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.core.outcome import Record

    Handler = Callable[[Record], None]

_log = logging.getLogger(__name__)

BATCH: Final = 4
"""Records that a turn of the loop reads at most, and turns for which fewer wait for others to join them: what
one handler does for one record after the other finds its code and data in the CPU's caches."""


class Consumers:
    """A bounded queue of Records, of which each turn of the loop reads a few: a stream waits for no more.

    Args:
        record_handlers: Each is called with the Records in turn. They must not block. One that
            raises is logged and does not keep the Record from the others.
        capacity: Records held at most; further ones are dropped and counted.
    """

    def __init__(self, record_handlers: Sequence[Handler], capacity: int = 8192) -> None:
        self._handlers = tuple(record_handlers)
        self._failures = [0] * len(self._handlers)
        self._queue: deque[Record] = deque()
        self._capacity = capacity
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = Context()  # what handlers log has nothing to do with the request that ends just then
        self._reading = False
        self._turns = 0  # that the present records have waited for
        self._all_read = asyncio.Event()
        self._closed = False
        self._dropped = 0

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
        if not self._reading:
            self._read_on()

    def start(self) -> None:
        """Begin to read; needs a running loop."""
        self._loop = asyncio.get_running_loop()
        self._read_on()

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - what is left then is counted, not raised
        """Refuse further Records and wait until those queued are handled.

        Args:
            timeout: Seconds after which those left are dropped and counted.
        """
        self._closed = True
        if self._reading:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_read.wait()
        self._dropped += len(self._queue)
        self._queue.clear()

    def _read_on(self) -> None:
        if self._loop is not None:
            self._reading = True
            self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        queue = self._queue
        if len(queue) < BATCH and self._turns < BATCH and not self._closed:
            self._turns += 1
            self._read_on()
            return
        self._turns = 0
        self._handle([queue.popleft() for _ in range(min(len(queue), BATCH))])
        if queue:
            self._read_on()
            return
        self._reading = False
        if self._closed:
            self._all_read.set()

    def _handle(self, records: Sequence[Record]) -> None:
        for index, handler in enumerate(self._handlers):
            for record in records:
                try:
                    handler(record)
                except Exception:  # noqa: BLE001 - whatever it is, the others get the Record, and it is logged
                    self._failures[index] += 1
                    self._log_failure(handler, self._failures[index])

    def _log_failure(self, handler: Handler, failures: int) -> None:
        # Logged at 1, 2, 4, 8, …: a handler that always fails would else fill the disk.
        if failures & (failures - 1) == 0:
            _log.exception("record handler %s failed, %d times so far", handler, failures)
