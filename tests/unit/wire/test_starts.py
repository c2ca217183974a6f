import asyncio
from itertools import pairwise

from gateway.wire.starts import BATCH, Starts


async def begun_by_turn(starts, count):
    """How many of so many requests that come at once have begun before each turn of the loop."""
    loop = asyncio.get_running_loop()
    begun, turns = [], []

    def turn():
        turns.append(len(begun))
        if len(begun) < count:
            loop.call_soon(turn)

    for number in range(count):
        starts.add(lambda number=number: begun.append(number))
    assert begun == [0]
    loop.call_soon(turn)
    while len(begun) < count:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    starts.add(lambda: begun.append(count))
    await asyncio.sleep(0)
    assert begun == list(range(count + 1))
    return turns


async def test_of_many_requests_that_come_at_once_one_begins_in_a_turn_while_there_is_a_stream():
    starts = Starts(asyncio.get_running_loop())
    starts.streams.add(object())
    turns = await begun_by_turn(starts, 7)
    assert all(later - before <= 1 for before, later in pairwise(turns))


async def test_a_few_begin_in_a_turn_while_there_is_none():
    turns = await begun_by_turn(Starts(asyncio.get_running_loop()), 4 * BATCH)
    assert max(later - before for before, later in pairwise(turns)) == BATCH
