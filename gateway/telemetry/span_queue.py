"""Makes and sends spans in a thread of its own; what does not get through is dropped and counted."""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import sleep
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.core.outcome import Record
    from gateway.telemetry.otlp_http import Sender
    from gateway.telemetry.spans import Spans

_log = logging.getLogger(__name__)

_BATCH: Final = 256
"""Requests that are sent together."""

_TURN: Final = 8
"""Requests whose spans are made before the event loop gets a turn: a stream waits for at most these, some
0.2 ms. A turn costs as much as half of one of them."""


class SpanQueue:
    """A bounded queue of finished requests and the thread that makes and sends their spans.

    Args:
        sender: Where they go.
        spans: Makes them.
        capacity: Requests held at most.
        interval: Seconds between two sendings, unless a batch is full.
    """

    def __init__(self, sender: Sender, spans: Spans, capacity: int = 2048, interval: float = 1.0) -> None:
        self._sender = sender
        self._spans = spans
        self._capacity = capacity
        self._interval = interval
        self._queue: deque[Record] = deque()
        self._dropped = 0
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Spans that did not get through: they came too fast, or the receiver did not take them."""
        return self._dropped

    def put(self, record: Record) -> None:
        """Queue a request; never blocks."""
        if len(self._queue) >= self._capacity:
            self._dropped += 1 + len(record.attempts)
            return
        self._queue.append(record)
        if len(self._queue) == _BATCH:
            self._wake.set()

    def close(self) -> None:
        """Send what is queued and end; blocks for as long as the sender does."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        self._sender.close()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._send()
        self._send()

    def _send(self) -> None:
        while self._queue:
            made: list[bytes] = []
            lost = 0
            for number in range(min(_BATCH, len(self._queue))):
                record = self._queue.popleft()
                try:
                    made += self._spans.of(record)
                except Exception:  # noqa: BLE001 - whatever it is, the next one may be well
                    _log.exception("no spans can be made of a request")
                    lost += 1 + len(record.attempts)
                if number % _TURN == _TURN - 1:
                    sleep(0)
            try:
                if made and not self._sender.send(self._spans.export(made)):
                    lost += len(made)
            except Exception:  # noqa: BLE001 - the same
                _log.exception("spans cannot be sent")
                lost += len(made)
            self._dropped += lost
