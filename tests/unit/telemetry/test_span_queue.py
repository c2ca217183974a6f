from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.sdk.trace.export import SpanExportResult

from gateway.telemetry.span_queue import SpanQueue

if TYPE_CHECKING:
    import pytest
    from opentelemetry.sdk.trace import ReadableSpan

SPAN = cast("ReadableSpan", object())


class Exporter:
    """Takes spans, or fails, or waits."""

    def __init__(self, result: Any = SpanExportResult.SUCCESS) -> None:
        self.result = result
        self.taken: list[int] = []
        self.free = threading.Event()
        self.free.set()
        self.ended = False

    def export(self, spans: Any) -> Any:
        self.free.wait(20)
        if isinstance(self.result, Exception):
            raise self.result
        self.taken.append(len(spans))
        return self.result

    def shutdown(self) -> None:
        self.ended = True


def queue(exporter: Exporter, capacity: int = 4096) -> SpanQueue:
    return SpanQueue(cast("Any", exporter), capacity)


def test_what_is_queued_is_exported_at_the_end_in_batches() -> None:
    exporter = Exporter()
    exporter.free.clear()
    spans = queue(exporter)
    for _ in range(600):
        spans.put([SPAN, SPAN])
    exporter.free.set()
    spans.close()
    assert (sum(exporter.taken), max(exporter.taken)) == (1200, 512)
    assert spans.dropped == 0
    assert exporter.ended


def test_a_receiver_that_hangs_costs_no_more_memory_than_the_queue() -> None:
    exporter = Exporter()
    exporter.free.clear()
    spans = queue(exporter, capacity=4)
    for _ in range(100):
        spans.put([SPAN, SPAN])
    assert len(spans._queue) <= 4
    assert spans.dropped >= 200 - 4 - 4
    spans.put([SPAN, SPAN])
    assert spans.full
    spans.drop(3)
    exporter.free.set()
    spans.close()
    assert spans.dropped + sum(exporter.taken) == 205


def test_the_spans_of_a_request_come_all_or_none() -> None:
    exporter = Exporter()
    exporter.free.clear()
    spans = queue(exporter, capacity=3)
    spans._export = lambda: None  # type: ignore[method-assign]
    spans.put([SPAN, SPAN])
    spans.put([SPAN, SPAN])
    assert (len(spans._queue), spans.dropped) == (2, 2)
    exporter.free.set()
    spans.close()


def test_what_the_receiver_refuses_is_counted() -> None:
    spans = queue(Exporter(SpanExportResult.FAILURE))
    spans.put([SPAN, SPAN, SPAN])
    spans.close()
    assert spans.dropped == 3


def test_an_exporter_that_raises_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    spans = queue(Exporter(ValueError("no")))
    spans.put([SPAN])
    spans.close()
    assert spans.dropped == 1
    assert "spans cannot be exported" in caplog.text
