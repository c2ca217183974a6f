from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from gateway.runtime import tasks
from gateway.runtime.fleet import Fleet
from gateway.runtime.visits import Visits, get
from tests.factories import backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.core.fleet import Backend


class Round:
    """Notes who was visited; those named in ``slow`` never end."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[str] = asyncio.Queue()
        self.slow: set[str] = set()

    async def __call__(self, one: Backend) -> None:
        self.seen.put_nowait(one.url)
        if one.name in self.slow:
            await asyncio.Event().wait()

    async def next(self, count: int) -> list[str]:
        return [await self.seen.get() for _ in range(count)]

    def forget(self) -> None:
        while not self.seen.empty():
            self.seen.get_nowait()


A, B, C = (backend(name).url for name in "abc")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet([backend("a")], "fleet-1")


@pytest.fixture
def visited() -> Round:
    return Round()


@pytest.fixture
async def visits(fleet: Fleet, visited: Round) -> AsyncIterator[Visits]:
    one = Visits(fleet, visited, interval=0.0, name="visit")
    yield one
    await one.close()


async def test_each_backend_is_visited_again_and_again(fleet: Fleet, visits: Visits, visited: Round) -> None:
    fleet.replace([backend("a"), backend("b")], "fleet-2")
    visits.sync()
    assert sorted(await visited.next(6)) == [A] * 3 + [B] * 3


async def test_a_slow_backend_delays_nobody_else(fleet: Fleet, visits: Visits, visited: Round) -> None:
    fleet.replace([backend("a"), backend("b")], "fleet-2")
    visited.slow.add("a")
    visits.sync()
    assert sorted(await visited.next(4)) == [A] + [B] * 3


async def test_a_visit_that_fails_is_not_the_last(fleet: Fleet) -> None:
    calls: asyncio.Queue[None] = asyncio.Queue()

    async def failing(_: Backend) -> None:
        calls.put_nowait(None)
        raise RecursionError

    visits = Visits(fleet, failing, interval=0.0, name="visit")
    visits.sync()
    for _ in range(3):
        await calls.get()
    await visits.close()


async def test_there_is_one_loop_for_each_backend_of_the_fleet(fleet: Fleet, visits: Visits) -> None:
    def names() -> list[str]:
        running = (one.get_name() for one in tasks._running if not one.cancelling())
        return sorted(name for name in running if name.startswith("visit"))

    visits.sync()
    visits.sync()
    assert names() == ["visit a"]
    fleet.replace([backend("a"), backend("b")], "fleet-2")
    visits.sync()
    assert names() == ["visit a", "visit b"]
    kept = {one for one in tasks._running if one.get_name() == "visit b"}
    fleet.replace([backend("b"), backend("c")], "fleet-3")
    visits.sync()
    assert names() == ["visit b", "visit c"]
    assert kept < tasks._running
    await visits.close()
    assert names() == []


async def test_a_backend_that_moved_is_visited_at_its_new_address(
    fleet: Fleet, visits: Visits, visited: Round
) -> None:
    visits.sync()
    await visited.next(1)
    fleet.replace([backend("a", url="http://new.test:8000")], "fleet-2")
    visits.sync()
    visited.forget()
    assert await visited.next(3) == ["http://new.test:8000"] * 3


async def test_after_the_end_nobody_is_visited(visits: Visits, visited: Round) -> None:
    visits.sync()
    await visited.next(1)
    await visits.close()
    visited.forget()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert visited.seen.empty()


async def test_at_the_end_a_visit_that_will_not_stop_keeps_no_other_from_stopping() -> None:
    async def visit(one: Backend) -> None:
        at_work.release()
        try:
            await asyncio.Event().wait()
        finally:
            if one.name == "a":
                await go.wait()
            else:
                stopped.release()

    at_work, stopped, go = asyncio.Semaphore(0), asyncio.Semaphore(0), asyncio.Event()
    visits = Visits(Fleet([backend(name) for name in "abc"], "fleet-1"), visit, interval=0.0, name="visit")
    visits.sync()
    for _ in range(3):
        await at_work.acquire()
    closing = tasks.spawn(visits.close(), name="close")
    for _ in range(2):
        await stopped.acquire()
    assert not closing.done()
    go.set()
    await closing


# One call

URL = "http://a.test:8000/page"


async def test_a_page_is_asked_for_with_the_key_whatever_it_holds() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == URL
        return httpx.Response(200, content=request.headers.get("authorization", "none").encode())

    pages = httpx.MockTransport(answer)
    assert (await get(pages, URL, 9.0)).content == b"none"
    assert (await get(pages, URL, 9.0, "clé")).content == "Bearer clé".encode()


async def test_a_call_is_bounded_as_a_whole() -> None:
    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(TimeoutError):
        await get(httpx.MockTransport(never), URL, 0.0)
