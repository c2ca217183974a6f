from __future__ import annotations

import asyncio
import gc
import weakref
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from gateway.runtime.turnstile import BATCH, Turnstile, turnstile_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized


def turnstile(*, streams: bool = False) -> Turnstile:
    found = Turnstile(asyncio.get_running_loop())
    if streams:
        found.streams.add(object())
    return found


async def turn_by_turn(said: Sized, until: int) -> list[int]:
    """How much is said in each turn of the loop, until it is enough."""
    loop, turns = asyncio.get_running_loop(), [0]

    def turn() -> None:
        turns.append(len(said))
        if len(said) < until:
            loop.call_soon(turn)

    turn()
    while len(said) < until:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    return [later - before for before, later in pairwise([*turns, len(said)])]


class Requests:
    """Requests that come all at once: what each did, in order."""

    def __init__(self, some: Turnstile, count: int) -> None:
        self.did: list[tuple[str, int]] = []
        self.tasks: list[asyncio.Task[None]] = []
        for number in range(count):
            some.add(partial(self.begin, some, number))

    def begin(self, some: Turnstile, number: int) -> None:
        self.tasks.append(asyncio.create_task(self.serve(some, number)))

    async def serve(self, some: Turnstile, number: int) -> None:
        for step in ("begins", "takes a step", "goes on"):
            self.did.append((step, number))
            await some.turn()

    def numbers(self, what: str) -> list[int]:
        return [number for did, number in self.did if did == what]

    async def begun(self, count: int) -> None:
        while len(self.tasks) < count:  # noqa: ASYNC110 - turn by turn
            await asyncio.sleep(0)

    async def end(self, count: int) -> None:
        await self.begun(count)
        await asyncio.gather(*self.tasks)


async def test_many_requests_that_come_at_once_begin_in_order_a_batch_in_a_turn() -> None:
    begun: list[int] = []
    count, some = 4 * BATCH, turnstile()
    for number in range(count):
        some.add(partial(begun.append, number))
    assert begun == [0]
    assert max(await turn_by_turn(begun, count)) == BATCH
    some.add(partial(begun.append, count))
    await asyncio.sleep(0)
    assert begun == list(range(count + 1))


async def test_one_request_does_one_thing_in_a_turn_while_there_are_streams() -> None:
    requests = Requests(turnstile(streams=True), 5)
    assert max(await turn_by_turn(requests.did, 15)) == 1
    await requests.end(5)
    steps = ("begins", "takes a step", "goes on")
    assert requests.did == [(step, number) for number in range(5) for step in steps]


async def test_those_that_begin_in_a_turn_take_each_step_one_after_the_other_before_any_goes_on() -> None:
    requests = Requests(turnstile(), 1 + 2 * BATCH)
    await requests.end(1 + 2 * BATCH)
    numbers = list(range(1 + 2 * BATCH))
    assert [requests.numbers(step) for step in ("begins", "takes a step", "goes on")] == [numbers] * 3
    first = requests.did[3 : 3 + 3 * BATCH]
    assert [did for did, _ in first] == [
        *["begins"] * BATCH, *["takes a step"] * BATCH, *["goes on"] * BATCH,
    ]  # fmt: skip


async def test_a_request_that_is_alone_takes_its_steps_at_once() -> None:
    some = turnstile()
    requests = Requests(some, 1)
    assert max(await turn_by_turn(requests.did, 3)) == 3
    await requests.end(1)
    await asyncio.wait_for(some.turn(), 30)


async def test_of_those_that_come_to_a_step_at_once_one_goes_on_in_a_turn_beside_streams() -> None:
    some = turnstile(streams=True)
    went_on: list[int] = []

    async def go_on(number: int) -> None:
        await some.turn()
        went_on.append(number)

    tasks = [asyncio.create_task(go_on(number)) for number in range(3)]
    assert max(await turn_by_turn(went_on, 3)) == 1
    await asyncio.gather(*tasks)
    assert went_on == [0, 1, 2]


async def test_a_request_that_was_given_up_holds_up_no_other() -> None:
    requests = Requests(turnstile(), 4)
    await requests.begun(4)
    await asyncio.sleep(0)
    requests.tasks[2].cancel()
    await asyncio.wait(requests.tasks)
    assert requests.numbers("goes on") == [0, 1, 3]
    with pytest.raises(asyncio.CancelledError):
        await requests.tasks[2]


async def test_a_request_that_cannot_begin_keeps_no_other_from_it() -> None:
    some, begun = turnstile(), []
    some.add(lambda: begun.append(0))
    for number in (1, 0, 2):
        some.add(lambda number=number: begun.append(12 // number))  # type: ignore[misc] # bound here
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
    while len(begun) < 3:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    assert begun == [0, 12, 6]
    assert [type(one) for one in said] == [ZeroDivisionError]


class Shared:
    """Requests that come at once and have a step done on their number: what was done together, and what came of it.

    The step fails for those of the numbers that are broken.
    """

    def __init__(self, some: Turnstile, count: int, broken: frozenset[int] = frozenset()) -> None:
        self.some = some
        self.broken = broken
        self.did: list[list[int]] = []
        self.steps: list[str] = []
        self.tasks: list[asyncio.Task[int]] = []
        for number in range(count):
            some.add(partial(self.begin, number))

    def begin(self, number: int) -> None:
        self.tasks.append(asyncio.create_task(self.serve(number)))

    async def serve(self, number: int) -> int:
        self.steps.append("begins")
        found = await self.some.share(self.squares, number)
        self.steps.append("goes on")
        return found

    def squares(self, numbers: Sequence[int]) -> list[int]:
        self.did.append([*numbers])
        self.steps.append("done")
        if not self.broken.isdisjoint(numbers):
            raise ZeroDivisionError
        return [number * number for number in numbers]

    async def end(self, count: int) -> list[int | BaseException]:
        while len(self.tasks) < count:  # noqa: ASYNC110 - turn by turn
            await asyncio.sleep(0)
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_a_step_is_done_at_once_for_those_that_begin_in_a_turn() -> None:
    count = 1 + 2 * BATCH
    shared = Shared(turnstile(), count)
    assert await shared.end(count) == [number * number for number in range(count)]
    assert max(map(len, shared.did)) == BATCH
    assert [number for some in shared.did for number in some] == [*range(count)]


async def test_who_is_alone_has_its_step_done_at_once() -> None:
    some = turnstile()
    shared = Shared(some, 1)
    assert max(await turn_by_turn(shared.steps, 3)) == 3
    assert await shared.end(1) == [0]
    assert await asyncio.wait_for(some.share(shared.squares, 3), 30) == 9


async def test_beside_streams_a_step_is_done_for_one_alone_and_it_goes_on_a_turn_later() -> None:
    shared = Shared(turnstile(streams=True), 5)
    assert max(await turn_by_turn(shared.steps, 15)) == 1
    assert await shared.end(5) == [0, 1, 4, 9, 16]
    assert shared.did == [[number] for number in range(5)]


@pytest.mark.parametrize("count", [3, 6])
async def test_what_fails_for_one_is_done_for_the_others(count: int) -> None:
    shared = Shared(turnstile(), count, broken=frozenset({1}))
    found = await shared.end(count)
    assert [one if isinstance(one, int) else type(one) for one in found] == [
        0, ZeroDivisionError, 4, 9, 16, 25,
    ][:count]  # fmt: skip


async def test_nothing_is_done_for_a_request_that_was_given_up() -> None:
    shared = Shared(turnstile(), 4)
    while len(shared.steps) < 4:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    shared.tasks[2].cancel()
    found = await shared.end(4)
    assert [number for some in shared.did for number in some] == [0, 1, 3]
    assert isinstance(found[2], asyncio.CancelledError)


async def test_a_loop_has_one() -> None:
    assert turnstile_of(asyncio.get_running_loop()) is turnstile_of(asyncio.get_running_loop())


def test_none_keeps_its_loop_from_going() -> None:
    loop = asyncio.new_event_loop()
    turnstile_of(loop)
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None
