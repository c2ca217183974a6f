"""Makes and exports spans in a thread of its own; what does not get through is dropped and counted.

The SDK's own processor wants finished spans, which cost a request 30 µs, and does not count what it drops.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from time import sleep
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from gateway.core.outcome import Record

_log = logging.getLogger(__name__)

_BATCH: Final = 256
"""Requests in one export."""


class SpanQueue:
    """A bounded queue of finished requests and the thread that makes and exports their spans.

    Args:
        exporter: Where they go.
        make: Gives the spans of a request.
        capacity: Requests held at most.
        interval: Seconds between two exports, unless a batch is full.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        make: Callable[[Record], Sequence[ReadableSpan]],
        capacity: int = 2048,
        interval: float = 1.0,
    ) -> None:
        self._exporter = exporter
        self._make = make
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
        """Spans that were not exported: they came too fast, or the receiver did not take them."""
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
        """Export what is queued and end; blocks for as long as the exporter does."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(self._interval)
            self._wake.clear()
            self._export()
        self._export()

    def _export(self) -> None:
        while self._queue:
            spans: list[ReadableSpan] = []
            gone = 0
            for _ in range(min(_BATCH, len(self._queue))):
                record = self._queue.popleft()
                try:
                    spans += self._make(record)
                except Exception:  # noqa: BLE001 - whatever it is, the next one may be well
                    _log.exception("no spans can be made of a request")
                    gone += 1 + len(record.attempts)
                sleep(0)  # lets the event loop run: else it waits for its turn in the middle of a stream
            try:
                if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                    gone += len(spans)
            except Exception:  # noqa: BLE001 - the same
                _log.exception("spans cannot be exported")
                gone += len(spans)
            self._dropped += gone
