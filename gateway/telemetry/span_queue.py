"""Makes spans in one thread and sends them in another; what does not get through is dropped and counted.

With one thread for both, requests would wait as whole records while a receiver is slow: with all that was
known of a fleet of 40 servers a record takes 16 KB, its spans 2 to 4.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import sleep
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.core.outcome import Record
    from gateway.telemetry.otlp_http import Sender
    from gateway.telemetry.spans import Spans

_log = logging.getLogger(__name__)

_BATCH: Final = 256
"""Requests that are sent together."""

_TURN: Final = 10
"""Requests whose spans are made before the event loop gets a turn: a stream waits for at most these, some
0.5 ms. A turn costs as much as two of them, as either thread finds nothing in its processor's cache."""

_BYTES: Final = 4096
"""Bytes of spans held at most for each request that may be."""


class _Batch(NamedTuple):
    """What is sent together."""

    requests: int
    spans: list[bytes]
    size: int


class SpanQueue:
    """A bounded queue of finished requests and the threads that make and send their spans.

    Args:
        sender: Where they go.
        spans: Makes them.
        capacity: Requests held at most, as they ended and as spans together; 4 KiB of spans for each.
        interval: Seconds between two sendings, unless a batch is full.
    """

    def __init__(self, sender: Sender, spans: Spans, capacity: int = 2048, interval: float = 1.0) -> None:
        self._sender = sender
        self._spans = spans
        self._capacity = capacity
        self._interval = interval
        self._ended: deque[Record] = deque()
        self._made: deque[_Batch] = deque()
        # Each number has one thread that adds to it: a sum that two add to loses some.
        self._made_requests = self._sent_requests = self._made_bytes = self._sent_bytes = 0
        self._refused = self._unmade = self._unsent = 0
        self._wake, self._ready = threading.Event(), threading.Event()
        self._stopped = self._all_made = False
        self._making = threading.Thread(target=self._make_all, name="spans", daemon=True)
        self._sending = threading.Thread(target=self._send_all, name="spans-sender", daemon=True)
        self._making.start()
        self._sending.start()

    @property
    def dropped(self) -> int:
        """Spans that did not get through: they came too fast, or the receiver did not take them."""
        return self._refused + self._unmade + self._unsent

    @property
    def held(self) -> int:
        """Requests whose spans are still to be sent."""
        return len(self._ended) + self._made_requests - self._sent_requests

    @property
    def held_bytes(self) -> int:
        """Bytes of the spans that are made and still to be sent."""
        return self._made_bytes - self._sent_bytes

    def put(self, record: Record) -> None:
        """Queue a request; never blocks."""
        if self.held >= self._capacity or self.held_bytes >= self._capacity * _BYTES:
            self._refused += 1 + len(record.attempts)
            return
        self._ended.append(record)
        if len(self._ended) == _BATCH:
            self._wake.set()

    def close(self) -> None:
        """Send what is queued and end; blocks for as long as the sender does."""
        self._stopped = True
        self._wake.set()
        self._making.join()
        self._sending.join()
        self._sender.close()

    def _make_all(self) -> None:
        while not self._stopped:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._make()
        self._make()
        self._all_made = True
        self._ready.set()

    def _make(self) -> None:
        """Make the spans of what has ended until now."""
        left = len(self._ended)
        while left:
            batch = min(left, _BATCH)
            left -= batch
            self._make_batch(batch)

    def _make_batch(self, requests: int) -> None:
        """Make the spans of so many; whole batches are handed on, as each costs a posting."""
        batch: list[bytes] = []
        size = 0
        for number in range(requests):
            self._made_requests += 1
            record = self._ended.popleft()
            try:
                made = self._spans.of(record)
            except Exception:  # noqa: BLE001 - whatever it is, the next one may be well
                _log.exception("no spans can be made of a request")
                self._unmade += 1 + len(record.attempts)
                continue
            batch += made
            size += (more := sum(map(len, made)))
            self._made_bytes += more
            if number % _TURN == _TURN - 1:
                sleep(0)
        self._made.append(_Batch(requests, batch, size))
        self._ready.set()

    def _send_all(self) -> None:
        while not self._all_made or self._made:
            self._ready.wait()
            self._ready.clear()
            while self._made:
                self._send(self._made[0])
                self._made.popleft()

    def _send(self, batch: _Batch) -> None:
        """Send the oldest; they are held until that is over."""
        lost = len(batch.spans)
        try:
            if lost and self._sender.send(self._spans.export(batch.spans)):
                lost = min(lost, self._sender.rejected)
        except Exception:  # noqa: BLE001 - whatever it is, the next ones may be well
            _log.exception("spans cannot be sent")
        self._sent_requests += batch.requests
        self._sent_bytes += batch.size
        self._unsent += lost


def span_limits(env: Mapping[str, str]) -> tuple[int, float]:
    """Requests held at most, of two spans each, and seconds between two exports, by the usual variables."""
    spans = float(env.get("OTEL_BSP_MAX_QUEUE_SIZE") or 4096)
    return max(1, int(spans) // 2), float(env.get("OTEL_BSP_SCHEDULE_DELAY") or 1000) / 1000
