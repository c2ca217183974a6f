from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.sdk.trace.export import SpanExportResult

from gateway.telemetry.span_queue import SpanQueue

if TYPE_CHECKING:
    import pytest

    from gateway.core.outcome import Record


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


def two(_: Record) -> Any:
    return [object(), object()]


def queue(exporter: Exporter, make: Any = two, **given: Any) -> SpanQueue:
    return SpanQueue(cast("Any", exporter), make, **given)


def test_what_is_queued_is_exported_at_the_end_in_batches(record: Record) -> None:
    exporter = Exporter()
    exporter.free.clear()
    spans = queue(exporter)
    for _ in range(600):
        spans.put(record)
    exporter.free.set()
    spans.close()
    assert (sum(exporter.taken), max(exporter.taken)) == (1200, 512)
    assert spans.dropped == 0
    assert exporter.ended


def test_spans_are_made_in_the_thread(record: Record) -> None:
    made: list[str] = []

    def make(_: Record) -> list[Any]:
        made.append(threading.current_thread().name)
        return []

    exporter = Exporter()
    spans = queue(exporter, make)
    spans.put(record)
    spans.close()
    assert made == ["spans"]
    assert exporter.taken == []


def test_a_receiver_that_hangs_costs_no_more_memory_than_the_queue(record: Record) -> None:
    exporter = Exporter()
    exporter.free.clear()
    spans = queue(exporter, capacity=4)
    for _ in range(100):
        spans.put(record)
    assert len(spans._queue) <= 4
    assert spans.dropped >= 2 * (100 - 4 - 4)
    exporter.free.set()
    spans.close()
    assert spans.dropped + sum(exporter.taken) == 200


def test_what_the_receiver_refuses_is_counted(record: Record) -> None:
    spans = queue(Exporter(SpanExportResult.FAILURE))
    spans.put(record)
    spans.close()
    assert spans.dropped == 2


def test_an_exporter_that_raises_is_logged_and_counted(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    spans = queue(Exporter(ValueError("no")))
    spans.put(record)
    spans.close()
    assert spans.dropped == 2
    assert "spans cannot be exported" in caplog.text


def test_a_request_that_cannot_be_told_costs_no_other(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    turns = iter([ValueError("odd"), None])

    def make(one: Record) -> Any:
        if (error := next(turns)) is not None:
            raise error
        return two(one)

    exporter = Exporter()
    spans = queue(exporter, make)
    spans.put(record)
    spans.put(record)
    spans.close()
    assert (exporter.taken, spans.dropped) == ([2], 2)
    assert "no spans can be made" in caplog.text
