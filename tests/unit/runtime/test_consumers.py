from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from gateway.runtime.consumers import BATCH, Consumers
from gateway.runtime.turnstile import turnstile_of

if TYPE_CHECKING:
    import pytest


def record(number: int) -> Any:
    return number  # consumers pass Records on and never look inside


async def test_every_handler_gets_every_record_in_order() -> None:
    first: list[Any] = []
    second: list[Any] = []
    consumers = Consumers([first.append, second.append])
    consumers.put(record(0))  # before the start is fine
    consumers.start()
    for number in range(1, 50):
        consumers.put(record(number))
    await consumers.close(5)
    assert first == second == list(range(50))
    assert consumers.dropped == 0


async def test_records_are_handled_while_it_is_open_and_after_it_was_idle() -> None:
    handled = asyncio.Event()
    consumers = Consumers([lambda _: handled.set()])
    consumers.start()
    for number in range(2):
        handled.clear()
        consumers.put(record(number))
        await handled.wait()
    await consumers.close(5)


async def test_records_that_come_in_one_turn_are_read_together() -> None:
    calls: list[tuple[str, Any]] = []
    both = asyncio.Event()

    def second(one: Any) -> None:
        calls.append(("second", one))
        if one == 1:
            both.set()

    consumers = Consumers([lambda one: calls.append(("first", one)), second])
    consumers.start()
    consumers.put(record(0))
    consumers.put(record(1))
    await both.wait()
    assert calls == [("first", 0), ("first", 1), ("second", 0), ("second", 1)]
    await consumers.close(5)


async def test_one_is_read_in_a_turn_where_a_stream_waits() -> None:
    seen: list[Any] = []
    consumers = Consumers([seen.append])
    turnstile_of(asyncio.get_running_loop()).streams.add(object())
    for number in range(3):
        consumers.put(record(number))
    consumers.start()
    while len(seen) < 3:
        before = len(seen)
        await asyncio.sleep(0)
        assert len(seen) <= before + 1
    await consumers.close(5)


async def test_a_full_queue_drops_the_newest_and_counts() -> None:
    seen: list[Any] = []
    consumers = Consumers([seen.append], capacity=2)
    for number in range(5):
        consumers.put(record(number))
    assert consumers.dropped == 3
    consumers.start()
    await consumers.close(5)
    assert seen == [0, 1]
    assert consumers.dropped == 3


async def test_a_failing_handler_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    def fails(_: Any) -> None:
        raise ValueError("broken")

    consumers = Consumers([fails, seen.append])
    consumers.start()
    for number in range(5):
        consumers.put(record(number))
    with caplog.at_level(logging.ERROR):
        await consumers.close(5)
    assert seen == list(range(5))
    assert [each.getMessage().rpartition("failed")[2] for each in caplog.records] == [
        f", {failures} times so far" for failures in (1, 2, 4)
    ]
    assert "fails" in caplog.text
    assert "ValueError: broken" in caplog.text


async def test_other_tasks_get_a_turn_in_a_long_drain() -> None:
    seen: list[Any] = []
    consumers = Consumers([seen.append])
    for number in range(1000):
        consumers.put(record(number))
    consumers.start()
    await asyncio.sleep(0)
    assert len(seen) == BATCH
    await consumers.close(5)
    assert len(seen) == 1000


async def test_what_is_left_when_time_is_up_is_dropped_and_counted() -> None:
    seen: list[Any] = []
    consumers = Consumers([seen.append])
    for number in range(1000):
        consumers.put(record(number))
    consumers.start()
    await consumers.close(0)
    assert consumers.dropped > 0
    for _ in range(1000):  # turns in which more would be read
        await asyncio.sleep(0)
    assert consumers.dropped == 1000 - len(seen)


async def test_after_the_close_records_are_dropped() -> None:
    seen: list[Any] = []
    consumers = Consumers([seen.append])
    consumers.start()
    await consumers.close(5)
    consumers.put(record(1))
    assert (seen, consumers.dropped) == ([], 1)


async def test_one_that_was_never_started_closes_and_counts() -> None:
    consumers = Consumers([])
    consumers.put(record(1))
    await consumers.close(5)
    assert consumers.dropped == 1
