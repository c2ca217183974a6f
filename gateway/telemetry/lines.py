"""Writes lines from a thread of its own: who has one to write pays for an append to a queue."""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import sleep
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_INTERVAL: Final = 0.25
"""Seconds between two writes: what a crash of the process loses at most."""

HELD: Final = 1000
"""Lines held at most: requests, beside a disk that takes nothing, wait as whole records, and with all
that was known of a fleet of 40 servers one takes 16 KB."""

_FULL: Final = 4
"""Part of the queue that is written without waiting for the next turn."""

_TURN: Final = 4
"""Lines that are made before the event loop gets a turn: a stream waits for at most these, some 0.2 ms."""


class Lines(Generic[_T]):
    """A queue of what is to be written, such as finished requests, and the thread that writes it.

    Args:
        name: What is written, for the log.
        encode: Gives the line of an item, its end included.
        write: Writes whole lines, all or none; raises :class:`OSError` where it cannot.
        capacity: Items held at most until they are written; further ones are dropped and counted.
        at_once: Write an item as soon as it comes, for such as come seldom, not with those that follow.
    """

    def __init__(
        self,
        name: str,
        encode: Callable[[_T], bytes],
        write: Callable[[bytes], None],
        capacity: int = HELD,
        *,
        at_once: bool = False,
    ) -> None:
        self._name = name
        self._encode = encode
        self._put = write
        self._capacity = capacity
        self._wake_at = 0 if at_once else capacity // _FULL
        self._queue: deque[_T] = deque()
        # Each number has one thread that adds to it: a sum that two add to loses some.
        self._refused = self._unwritten = 0
        self._failures = 0
        self._stopped = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def dropped(self) -> int:
        """Items that were not written: they came too fast, or nothing takes them."""
        return self._refused + self._unwritten

    def put(self, item: _T) -> None:
        """Queue an item; never blocks."""
        held = len(self._queue)
        if held >= self._capacity:
            self._refused += 1
            return
        self._queue.append(item)
        if held == self._wake_at:
            self._wake.set()

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Write what is queued and end; blocks, so call it in a thread.

        Args:
            timeout: Seconds after which what is left is given up.
        """
        self._stopped = True
        self._wake.set()
        if self._thread.ident is None:
            return
        self._thread.join(timeout)
        if self._thread.is_alive():
            _log.warning("the %s could not be written within %g s, the rest is lost", self._name, timeout)

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(_INTERVAL)
            self._wake.clear()
            self._write()
        self._write()

    def _write(self) -> None:
        """Write all that is queued now."""
        lines: list[bytes] = []
        for number in range(len(self._queue)):
            try:
                lines.append(self._encode(self._queue.popleft()))
            except Exception:  # noqa: BLE001 - whatever it is, the next one may be well
                self._lost(1)
            if number % _TURN == _TURN - 1:
                sleep(0)
        if not lines:
            return
        try:
            self._put(b"".join(lines))
        except OSError:
            self._lost(len(lines))

    def _lost(self, lines: int) -> None:
        self._unwritten += lines
        self._failures += 1
        # Logged at 1, 2, 4, 8, …: a full disk would else fill what is left of it.
        if self._failures & (self._failures - 1) == 0:
            _log.exception("cannot write the %s, %d times so far", self._name, self._failures)
