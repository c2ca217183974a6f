"""Hands finished Records to everything that reads them, off the request path and without ever blocking it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.runtime.turnstile import turnstile_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.core.outcome import Record
    from gateway.runtime.turnstile import Turnstile

    Handler = Callable[[Record], None]

_log = logging.getLogger(__name__)

BATCH: Final = 4
"""Records that are read together where no stream has to wait for them: what one handler does for one record
after the other finds its code and data in the CPU's caches."""


class Consumers:
    """A bounded queue of Records, read in turns of the loop that the turnstile gives.

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
        self._read_on: Callable[[], None] | None = None
        self._context = Context()  # what handlers log has nothing to do with the request that ends just then
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
        if self._read_on is not None:
            self._read_on()

    def start(self) -> None:
        """Begin to read; needs a running loop."""
        loop = asyncio.get_running_loop()
        turnstile = turnstile_of(loop)
        read = partial(loop.call_soon, self._read, turnstile, context=self._context)
        self._read_on = partial(turnstile.add, read)
        for _ in self._queue:
            self._read_on()

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - what is left then is counted, not raised
        """Refuse further Records and wait until those queued are handled.

        Args:
            timeout: Seconds after which those left are dropped and counted.
        """
        self._closed = True
        if self._queue and self._read_on is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._all_read.wait()
        self._dropped += len(self._queue)
        self._queue.clear()

    def _read(self, turnstile: Turnstile) -> None:
        queue = self._queue
        together = 1 if turnstile.streams else BATCH
        self._handle([queue.popleft() for _ in range(min(len(queue), together))])
        if self._closed and not queue:
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
