import asyncio
from itertools import pairwise

import pytest

from gateway.wire.starts import BATCH, BESIDE_STREAMS, Starts


def starts(*, streams=False):
    found = Starts(asyncio.get_running_loop())
    if streams:
        found.streams.add(object())
    return found


async def turn_by_turn(loop, said, until):
    """What has been said before each turn of the loop, until enough has."""
    turns = []

    def turn():
        turns.append(len(said))
        if len(said) < until:
            loop.call_soon(turn)

    turn()
    while len(said) < until:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    return [later - before for before, later in pairwise([*turns, len(said)])]


class Requests:
    """Requests that come all at once: what each did, in order."""

    def __init__(self, starts, count):
        self.did, self.tasks = [], []
        for number in range(count):
            starts.add(
                lambda number=number: self.tasks.append(asyncio.create_task(self.serve(starts, number)))
            )

    async def serve(self, starts, number):
        self.did.append(("begins", number))
        found = await starts.together(lambda: self.did.append(("step", number)) or number)
        self.did.append(("goes on", found))

    def numbers(self, what):
        return [number for did, number in self.did if did == what]


async def test_many_requests_that_come_at_once_begin_in_order_a_batch_in_a_turn():
    begun, count = [], 4 * BATCH
    loop, some = asyncio.get_running_loop(), starts()
    for number in range(count):
        some.add(lambda number=number: begun.append(number))
    assert begun == [0]
    assert max(await turn_by_turn(loop, begun, count)) == BATCH
    some.add(lambda: begun.append(count))
    await asyncio.sleep(0)
    assert begun == list(range(count + 1))


async def test_fewer_begin_in_a_turn_while_there_are_streams():
    begun, some = [], starts(streams=True)
    for number in range(4 * BATCH):
        some.add(lambda number=number: begun.append(number))
    assert max(await turn_by_turn(asyncio.get_running_loop(), begun, 4 * BATCH)) == BESIDE_STREAMS


async def test_those_that_begin_in_a_turn_take_the_step_one_after_the_other_before_any_goes_on():
    requests = Requests(starts(), 1 + 2 * BATCH)
    await asyncio.sleep(0)
    await asyncio.gather(*(requests.tasks[0:1]))
    while len(requests.tasks) < 1 + 2 * BATCH:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    await asyncio.gather(*requests.tasks)
    numbers = list(range(1 + 2 * BATCH))
    assert requests.numbers("begins") == requests.numbers("step") == requests.numbers("goes on") == numbers
    first = requests.did[3 : 3 + 3 * BATCH]
    assert [did for did, _ in first] == ["begins"] * BATCH + ["step"] * BATCH + ["goes on"] * BATCH


async def test_while_there_are_streams_one_goes_on_in_a_turn():
    some = starts(streams=True)
    requests, went_on = Requests(some, 3 * BESIDE_STREAMS), []
    requests.did = _Listed(went_on)
    turns = await turn_by_turn(asyncio.get_running_loop(), went_on, 3 * BESIDE_STREAMS)
    assert max(turns) == 1
    await asyncio.gather(*requests.tasks)
    assert went_on == list(range(3 * BESIDE_STREAMS))


class _Listed(list):
    """What requests did; the numbers of those that went on are listed by themselves as well."""

    def __init__(self, went_on):
        super().__init__()
        self.went_on = went_on

    def append(self, did):
        super().append(did)
        if did[0] == "goes on":
            self.went_on.append(did[1])


async def test_a_request_that_is_alone_takes_its_step_at_once():
    some, turns = starts(), []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    requests = Requests(some, 1)
    await requests.tasks[0]
    assert [did for did, _ in requests.did] == ["begins", "step", "goes on"]
    assert await some.together(lambda: 7) == 7


async def test_what_goes_wrong_in_one_step_concerns_one_request():
    some, found = starts(), []

    async def serve(number):
        found.append((number, await some.together(lambda: 12 // number)))

    tasks = []
    for number in (6, 0, 3):
        some.add(lambda number=number: tasks.append(asyncio.create_task(serve(number))))
    while len(tasks) < 3:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert found == [(6, 2), (3, 4)]
    assert isinstance(ends[1], ZeroDivisionError)


async def test_a_request_that_was_given_up_holds_up_no_other():
    some = starts()
    requests = Requests(some, 4)
    while len(requests.numbers("begins")) < 4:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    requests.tasks[2].cancel()
    await asyncio.wait(requests.tasks)
    assert requests.numbers("goes on") == [0, 1, 3]
    with pytest.raises(asyncio.CancelledError):
        await requests.tasks[2]


async def test_a_request_that_cannot_begin_keeps_no_other_from_it():
    some, begun = starts(), []
    some.add(lambda: begun.append(0))
    for number in (1, 0, 2):
        some.add(lambda number=number: begun.append(12 // number))
    said = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
    while len(begun) < 3:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    assert begun == [0, 12, 6]
    assert [type(one) for one in said] == [ZeroDivisionError]
