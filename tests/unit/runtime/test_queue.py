import asyncio
import random
from typing import NamedTuple

import pytest

from gateway.runtime import clock
from gateway.runtime.elders import Waits
from gateway.runtime.queue import Picky, Queue

LONG = 60.0


class Rooms:
    """Room by kind, and a queue of those who look for it."""

    def __init__(self, next_change=lambda: None, **left):
        self.left = left
        self.looks = []
        self.served = []
        self.queue = Queue(next_change)

    def look(self, name, kind):
        self.looks.append(name)
        if self.left.get(kind, 0) <= 0:
            return None
        self.left[kind] -= 1
        self.served.append(name)
        return name

    def wait(self, name, kind="k", seconds=LONG):
        task = self.queue.wait(kind, lambda: self.look(name, kind), seconds)
        return asyncio.get_running_loop().create_task(task)

    def free(self, kind="k", count=1):
        self.left[kind] = self.left.get(kind, 0) + count
        self.queue.news()


async def settle():
    for _ in range(100):
        await asyncio.sleep(0)


async def test_first_come_first_served_and_nobody_else_looks():
    rooms = Rooms()
    tasks = [rooms.wait(name) for name in range(5)]
    await settle()
    assert len(rooms.queue) == 5
    assert rooms.looks == []
    rooms.free()
    await settle()
    assert rooms.served == [0]
    assert rooms.looks == [0, 1]  # the second found none, so the others need not look
    rooms.free(count=4)
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
    assert rooms.served == [0, 1, 2, 3, 4]
    assert len(rooms.queue) == 0
    assert not rooms.queue.moving


async def test_who_finds_no_room_does_not_keep_those_from_it_who_can_use_another():
    rooms = Rooms()
    tasks = [rooms.wait("a1", "a"), rooms.wait("a2", "a"), rooms.wait("b1", "b")]
    await settle()
    rooms.free("b")
    assert await tasks[2] == "b1"
    await settle()
    assert rooms.looks == ["a1", "b1"]
    rooms.free("a", 2)
    assert await asyncio.gather(*tasks[:2]) == ["a1", "a2"]


async def test_who_finds_none_for_itself_alone_keeps_nobody_of_its_kind_from_room():
    rooms, picky = Rooms(), []

    def nothing():
        picky.append(len(rooms.served))
        return Picky.NOTHING

    waiting = asyncio.get_running_loop().create_task(rooms.queue.wait("k", nothing, LONG))
    tasks = [rooms.wait("one"), rooms.wait("two")]
    await settle()
    rooms.free()
    await settle()
    assert rooms.looks == ["one", "two"]
    assert picky == [0], "it has the first turn, and the next one when there is news again"
    rooms.free()
    assert await asyncio.gather(*tasks) == ["one", "two"]
    assert picky == [0, 1]
    assert not rooms.queue.moving
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_news_while_somebody_looks_are_not_lost():
    rooms = Rooms()
    first, second = rooms.wait("first", "a"), rooms.wait("second", "b")
    await settle()
    rooms.queue.news()  # the turn is on its way to the first
    assert rooms.queue.moving
    rooms.free("b")
    assert await second == "second"
    rooms.free("a")
    assert await first == "first"


async def test_news_after_all_have_looked_in_vain_wake_them_again():
    rooms = Rooms()
    task = rooms.wait("one")
    await settle()
    rooms.queue.news()
    await settle()
    assert rooms.looks == ["one"]
    rooms.free()
    assert await task == "one"


async def test_who_comes_while_the_turn_goes_round_waits_behind_the_others():
    rooms = Rooms()
    first = rooms.wait("first")
    await settle()
    second = rooms.wait("second")
    rooms.free(count=2)
    assert rooms.queue.moving
    assert len(rooms.queue) == 1
    assert await asyncio.gather(first, second) == ["first", "second"]


async def test_after_its_time_a_request_leaves_with_nothing():
    rooms = Rooms()
    assert await rooms.wait("one", seconds=0.001) is None
    assert len(rooms.queue) == 0


async def test_who_leaves_with_the_turn_in_hand_passes_it_on():
    rooms = Rooms()
    first, second = rooms.wait("first"), rooms.wait("second")
    await settle()
    rooms.free()
    first.cancel()
    assert await second == "second"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert rooms.looks == ["second"]


async def test_the_turn_is_not_given_to_one_that_is_leaving():
    rooms = Rooms()
    first, second = rooms.wait("first"), rooms.wait("second")
    await settle()
    first.cancel()
    rooms.free()
    assert await second == "second"
    assert len(rooms.queue) == 0


async def test_a_look_that_fails_ends_its_own_wait_alone():
    rooms = Rooms()

    def fails():
        raise RuntimeError("look")

    broken = asyncio.get_running_loop().create_task(rooms.queue.wait("x", fails, LONG))
    second = rooms.wait("second")
    await settle()
    rooms.free()
    assert await second == "second"
    with pytest.raises(RuntimeError, match="look"):
        await broken


async def test_the_passing_of_time_is_news():
    rooms = Rooms(next_change=lambda: 0.001, k=1)
    assert await rooms.wait("one") == "one"


async def test_nothing_is_left_running_when_nobody_waits():
    rooms = Rooms(next_change=lambda: LONG)
    task = rooms.wait("one")
    await settle()
    assert rooms.queue._timer is not None
    task.cancel()
    await settle()
    assert rooms.queue._timer is None
    assert not rooms.queue.moving


@pytest.mark.parametrize("seed", range(20))
async def test_no_wake_up_is_lost_and_nobody_is_overtaken_within_a_kind(seed):
    chance = random.Random(seed)  # noqa: S311 - a test that can be repeated
    rooms = Rooms()
    waiting, gone, order = {}, set(), {"a": [], "b": []}
    for number in range(200):
        kind = chance.choice("ab")
        waiting[number] = rooms.wait(number, kind)
        order[kind].append(number)
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.2:
            left = chance.choice(list(waiting))
            waiting[left].cancel()
        if chance.random() < 0.5:
            rooms.free(chance.choice("ab"))
    for kind in "ab":
        rooms.free(kind, 200)
    results = await asyncio.gather(*waiting.values(), return_exceptions=True)
    gone = {
        number for number, result in zip(waiting, results, strict=True) if isinstance(result, BaseException)
    }
    assert len(rooms.queue) == 0
    assert not rooms.queue.moving
    for numbers in order.values():
        served = [number for number in rooms.served if number in numbers]
        assert served == sorted(served)
        assert set(numbers) - gone <= set(served)


async def test_the_higher_priority_looks_first_and_among_equals_who_came_first() -> None:
    queue = Queue(lambda: None)
    found: list[str] = []

    async def waits(name: str, priority: int) -> None:
        def look() -> str:
            found.append(name)
            return name

        await queue.wait(name, look, 5.0, priority)

    tasks = [
        asyncio.create_task(waits(name, priority))
        for name, priority in (("bulk-1", 0), ("bulk-2", 0), ("chat-1", 2), ("chat-2", 2))
    ]
    for _ in range(2):
        await asyncio.sleep(0)
    assert len(queue) == 4
    queue.news()
    await asyncio.gather(*tasks)
    assert found == ["chat-1", "chat-2", "bulk-1", "bulk-2"]


class Two(NamedTuple):
    """Two workers that share room; what one frees the other hears of when it is told."""

    one: Rooms
    two: Rooms

    @classmethod
    def sharing(cls) -> "Two":
        waits, both = Waits(2), (Rooms(), Rooms())
        for number, rooms in enumerate(both):
            rooms.queue = Queue(lambda: None, waits.of(number))
            rooms.left = both[0].left
        return cls(*both)


async def test_room_goes_to_who_waits_longest_in_whichever_worker():
    one, two = Two.sharing()
    first, second, third = two.wait("first"), one.wait("second"), two.wait("third")
    await settle()
    one.free()  # its own request is not the first
    await settle()
    assert one.looks == []
    two.queue.news()
    assert await first == "first"
    two.free(count=2)
    assert await second == "second"  # the other worker was not told: it looks by itself after a moment
    two.queue.news()
    assert await third == "third"


async def test_who_comes_is_behind_those_who_wait_in_another_worker():
    one, two = Two.sharing()
    assert not one.queue.behind("k")
    waiting = two.wait("first")
    await settle()
    assert one.queue.behind("k")
    assert not one.queue.behind("other")
    assert not two.queue.behind("k")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not one.queue.behind("k")


async def test_room_that_the_other_worker_does_not_take_is_left_for_a_moment_only():
    one, two = Two.sharing()
    never = two.wait("first")
    await settle()
    late = one.wait("late")
    one.left["k"] = 1
    assert await late == "late"
    assert one.served == ["late"]
    assert two.looks == []
    never.cancel()
    await asyncio.wait([never])


async def test_what_is_left_to_others_keeps_no_other_kind_from_room():
    one, two = Two.sharing()
    never = two.wait("first", "a")
    await settle()
    tasks = [one.wait("a1", "a"), one.wait("a2", "a"), one.wait("b", "b")]
    await settle()
    one.free("b")
    assert await tasks[2] == "b"
    assert one.looks == ["b"]
    for task in (never, *tasks):
        task.cancel()
    await asyncio.wait([never, *tasks])


async def test_those_who_wait_are_told_of_for_as_long_as_they_look(monkeypatch):
    one, two = Two.sharing()
    now = [clock.monotonic()]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    waiting = two.wait("first")
    await settle()
    now[0] += 1.0
    assert not one.queue.behind("k")
    two.queue.beat()
    assert one.queue.behind("k")
    Queue(lambda: None).beat()
    waiting.cancel()
    await asyncio.wait([waiting])
