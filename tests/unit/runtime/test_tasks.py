from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from gateway.aside import AT_A_STRETCH
from gateway.runtime import tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(autouse=True)
async def _nothing_is_left_behind() -> AsyncIterator[None]:
    before = set(tasks._running)
    yield
    await asyncio.sleep(0)
    assert tasks._running == before


async def test_a_task_has_its_name_and_gives_its_result() -> None:
    async def answer() -> int:
        return 42

    task = tasks.spawn(answer(), name="answer")
    assert task.get_name() == "answer"
    assert await task == 42


async def test_the_garbage_collector_cannot_take_a_running_task() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(waiter)  # weakly: nothing but the task itself keeps what it waits for
        await waiter
        ended.set()

    waiters: weakref.WeakSet[asyncio.Future[None]] = weakref.WeakSet()
    tasks.spawn(wait(), name="wait")
    await asyncio.sleep(0)
    gc.collect()
    (waiter,) = waiters
    waiter.set_result(None)
    await ended.wait()
    await asyncio.sleep(0)


async def test_a_failure_is_logged_with_its_name_and_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    task = tasks.spawn(fail(), name="scrape a")
    with caplog.at_level(logging.ERROR):
        await asyncio.wait((task,))
        await asyncio.sleep(0)
    (logged,) = caplog.records
    assert logged.getMessage() == "task scrape a failed"
    assert logged.exc_info is not None
    assert isinstance(logged.exc_info[1], ValueError)


async def test_a_task_that_missed_its_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.0)
    missed = 0

    async def miss() -> None:
        nonlocal missed
        while missed < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                missed += 1
        await asyncio.Event().wait()

    task = tasks.spawn(miss(), name="miss")
    await asyncio.sleep(0)
    await tasks.cancel(task)
    assert task.cancelled()
    assert missed == 2


async def test_a_cancelled_task_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    task = tasks.spawn(asyncio.Event().wait(), name="wait")
    await tasks.cancel(task)
    assert task.cancelled()
    assert not caplog.records


async def test_cancelling_waits_until_the_task_has_cleaned_up() -> None:
    steps: list[str] = []
    started = asyncio.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    task = tasks.spawn(work(), name="work")
    await started.wait()
    await tasks.cancel(task)
    assert steps == ["cleaned up"]


async def test_cancelling_what_has_ended_is_harmless() -> None:
    async def end() -> None:
        pass

    task = tasks.spawn(end(), name="end")
    await task
    await tasks.cancel(task)
    assert not task.cancelled()


async def test_a_failure_on_the_way_out_is_logged_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("cannot close")

    task = tasks.spawn(work(), name="work")
    await started.wait()
    await tasks.cancel(task)
    await asyncio.sleep(0)
    assert [one.getMessage() for one in caplog.records] == ["task work failed"]


async def test_a_task_that_was_not_started_yet_can_be_cancelled() -> None:
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    await tasks.cancel(tasks.spawn(work(), name="work"))
    assert not begun


async def test_what_ends_in_time_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        steps.append("done")

    await tasks.bounded(work(), within=60.0, name="work")
    assert steps == ["done"]
    assert not caplog.records


async def test_what_does_not_end_in_time_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Even if it does not let itself be cancelled."""
    go = asyncio.Event()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go.wait()
        ended.set()

    await tasks.bounded(work(), within=0.01, name="work")
    assert [one.getMessage() for one in caplog.records] == [
        "task work did not end within 0.01 s and is given up"
    ]
    go.set()
    await ended.wait()


async def test_what_fails_in_time_is_logged_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError("cannot close")

    await tasks.bounded(fail(), within=60.0, name="work")
    await asyncio.sleep(0)
    assert [one.getMessage() for one in caplog.records] == ["task work failed"]


async def test_others_have_their_turn_during_work_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    now, done, seen = 0.0, 0, []
    monkeypatch.setattr(tasks.clock, "monotonic", lambda: now)

    def work() -> Iterator[None]:
        nonlocal now, done
        for _ in range(40):
            now += AT_A_STRETCH / 4.0
            done += 1
            yield

    working = asyncio.create_task(tasks.in_turns(work()))
    while not working.done():
        await asyncio.sleep(0)
        seen.append(done)
    assert done == 40
    assert max(later - before for before, later in pairwise(seen)) <= 6
