"""Exports finished spans from a thread of its own; what does not get through is dropped and counted.

The SDK's own processor drops without a count that can be read.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.export import SpanExportResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_log = logging.getLogger(__name__)

_BATCH: Final = 512


class SpanQueue:
    """A bounded queue of spans and the thread that exports them.

    Args:
        exporter: Where they go.
        capacity: Spans held at most.
        interval: Seconds between two exports, unless a batch is full.
    """

    def __init__(self, exporter: SpanExporter, capacity: int = 4096, interval: float = 1.0) -> None:
        self._exporter = exporter
        self._capacity = capacity
        self._interval = interval
        self._queue: deque[ReadableSpan] = deque()
        self._dropped = 0
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Spans that were not exported: they came too fast, or the receiver did not take them."""
        return self._dropped

    @property
    def full(self) -> bool:
        """Whether a further span would be dropped."""
        return len(self._queue) >= self._capacity

    def put(self, spans: Sequence[ReadableSpan]) -> None:
        """Queue the spans of a request, all or none; never blocks."""
        if len(self._queue) + len(spans) > self._capacity:
            self._dropped += len(spans)
            return
        self._queue.extend(spans)
        if len(self._queue) >= _BATCH:
            self._wake.set()

    def drop(self, count: int) -> None:
        """Count spans that were not even made, since the queue was full."""
        self._dropped += count

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
            batch = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
            try:
                gone = self._exporter.export(batch) is not SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001 - whatever it is, it is logged and the next batch may be well
                _log.exception("spans cannot be exported")
                gone = True
            if gone:
                self._dropped += len(batch)
