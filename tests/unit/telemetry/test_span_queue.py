from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.telemetry.span_queue import _BATCH, SpanQueue, span_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.core.outcome import Record


class Sender:
    """Takes spans, or does not, or waits."""

    def __init__(self, *, takes: bool = True) -> None:
        self.takes = takes
        self.rejected = 0
        self.taken: list[int] = []
        self.free = threading.Event()
        self.free.set()
        self.ended = False

    def send(self, body: bytes) -> bool:
        self.free.wait(20)
        if self.takes:
            self.taken.append(len(body))
        return self.takes

    def close(self) -> None:
        self.ended = True


def two(_: Record) -> list[bytes]:
    return [b"1", b"2"]


class Maker:
    """Makes spans of one byte."""

    def __init__(self, make: Callable[[Record], list[bytes]]) -> None:
        self.of = make

    def export(self, spans: list[bytes]) -> bytes:
        return b"".join(spans)


def queue(sender: Sender, make: Callable[[Record], list[bytes]] = two, **given: Any) -> SpanQueue:
    return SpanQueue(cast("Any", sender), cast("Any", Maker(make)), **given)


def test_what_is_queued_is_exported_at_the_end_in_batches(record: Record) -> None:
    sender = Sender()
    sender.free.clear()
    spans = queue(sender)
    for _ in range(600):
        spans.put(record)
    sender.free.set()
    spans.close()
    assert (sum(sender.taken), max(sender.taken)) == (1200, 512)
    assert spans.dropped == 0
    assert sender.ended


def test_a_whole_batch_is_made_at_once(record: Record) -> None:
    made = threading.Semaphore(0)

    def make(one: Record) -> list[bytes]:
        made.release()
        return two(one)

    spans = queue(Sender(), make, interval=3600.0)
    for _ in range(_BATCH):
        spans.put(record)
    begun = made.acquire(timeout=20)
    spans.close()
    assert begun


@pytest.mark.parametrize(("rejected", "dropped"), [(1, 1), (2, 2), (9, 2)])
def test_what_the_receiver_rejects_of_them_is_dropped(record: Record, rejected: int, dropped: int) -> None:
    sender = Sender()
    sender.rejected = rejected
    spans = queue(sender)
    spans.put(record)
    spans.close()
    assert spans.dropped == dropped


def test_what_ended_together_is_posted_together(record: Record) -> None:
    """A posting costs as much as the spans of ten requests, so it waits until all are made."""
    posted = threading.Semaphore(0)

    class Telling(Sender):
        def send(self, body: bytes) -> bool:
            posted.release()
            return super().send(body)

    sender, turns = Telling(), iter(range(20))
    sender.free.clear()

    def make(one: Record) -> list[bytes]:
        if next(turns) == 5:  # some are made: the first posting ends, and another must not begin
            sender.free.set()
            assert not posted.acquire(timeout=0.1)
        return two(one)

    spans = queue(sender, make)
    spans.put(record)
    spans._wake.set()
    assert posted.acquire(timeout=20)
    for _ in range(10):
        spans.put(record)
    spans.close()
    assert sender.taken == [2, 20]


def test_spans_are_made_in_the_thread(record: Record) -> None:
    made: list[str] = []

    def make(_: Record) -> list[bytes]:
        made.append(threading.current_thread().name)
        return [b"1"]

    spans = queue(Sender(), make)
    spans.put(record)
    spans.close()
    assert made == ["spans"]


def test_a_receiver_that_hangs_costs_no_more_memory_than_the_queue(record: Record) -> None:
    sender = Sender()
    sender.free.clear()
    spans = queue(sender, capacity=4)
    for _ in range(100):
        spans.put(record)
    assert spans.held == 4
    assert spans.dropped == 2 * (100 - 4)
    sender.free.set()
    spans.close()
    assert spans.dropped + sum(sender.taken) == 200
    assert (spans.held, spans.held_bytes) == (0, 0)


def test_of_large_spans_fewer_are_held(record: Record) -> None:
    """4 KiB for each request: of spans of 10,000 bytes 40,960 are more than 4 and less than 5 requests have."""
    sender, made = Sender(), threading.Semaphore(0)
    sender.free.clear()

    def make(_: Record) -> list[bytes]:
        made.release()
        return [b"x" * 10_000]

    spans = queue(sender, make, capacity=10)
    for _ in range(5):
        spans.put(record)
    spans._wake.set()
    for _ in range(5):
        assert made.acquire(timeout=20)
    while spans._ended or spans.held < 5:  # the last is made, and on its way to those that are held
        spans._ready.wait(0.01)
    for _ in range(20):
        spans.put(record)
    assert (spans.held, spans.held_bytes) == (5, 50_000)
    assert spans.dropped == 2 * 20
    sender.free.set()
    spans.close()
    assert sum(sender.taken) == 50_000


def test_a_receiver_that_hangs_holds_no_records(record: Record) -> None:
    """They are made into spans while it does: whole records of a large fleet take four times as much."""
    sender, made = Sender(), threading.Semaphore(0)
    sender.free.clear()

    def make(one: Record) -> list[bytes]:
        made.release()
        return two(one)

    spans = queue(sender, make, interval=0.001)
    for _ in range(1000):
        spans.put(record)
    for _ in range(1000):
        assert made.acquire(timeout=20)
    assert not spans._ended
    sender.free.set()
    spans.close()
    assert spans.dropped == 0


@pytest.mark.parametrize("takes", [True, False])
def test_no_drop_is_lost_however_many_threads_count(record: Record, takes: bool) -> None:
    turns = iter(range(10**6))

    def make(one: Record) -> list[bytes]:
        if next(turns) % 3 == 0:
            raise ValueError
        return two(one)

    sender = Sender(takes=takes)
    spans = queue(sender, make, capacity=300, interval=0.0)
    for _ in range(5000):
        spans.put(record)
    spans.close()
    assert spans.dropped + sum(sender.taken) == 10_000


def test_what_the_receiver_refuses_is_counted(record: Record) -> None:
    spans = queue(Sender(takes=False))
    spans.put(record)
    spans.close()
    assert spans.dropped == 2


def test_a_sender_that_raises_is_logged_and_counted(record: Record, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Sender):
        def send(self, body: bytes) -> bool:
            raise ValueError("no")

    spans = queue(Broken())
    spans.put(record)
    spans.close()
    assert spans.dropped == 2
    assert "spans cannot be sent" in caplog.text


def test_a_request_that_cannot_be_told_costs_no_other(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    turns = iter([ValueError("odd"), None])

    def make(one: Record) -> list[bytes]:
        if (error := next(turns)) is not None:
            raise error
        return two(one)

    sender = Sender()
    spans = queue(sender, make)
    spans.put(record)
    spans.put(record)
    spans.close()
    assert (sender.taken, spans.dropped) == ([2], 2)
    assert "no spans can be made" in caplog.text


@pytest.mark.parametrize(
    ("env", "requests", "seconds"),
    [
        ({}, 2048, 1.0),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "600", "OTEL_BSP_SCHEDULE_DELAY": "250"}, 300, 0.25),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "1e3"}, 500, 1.0),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "1"}, 1, 1.0),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "", "OTEL_BSP_SCHEDULE_DELAY": ""}, 2048, 1.0),
    ],
)
def test_the_usual_variables_say_how_many_are_held_and_how_often_they_are_sent(
    env: dict[str, str], requests: int, seconds: float
) -> None:
    assert span_limits(env) == (requests, seconds)
