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
    from collections.abc import Sized


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
    await asyncio.wait_for(some.turn(), 5)


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
