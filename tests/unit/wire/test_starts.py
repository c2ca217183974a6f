import asyncio
from itertools import pairwise

from gateway.wire.starts import Starts


async def test_of_many_requests_that_come_at_once_one_begins_in_a_turn():
    loop = asyncio.get_running_loop()
    begun, turns, starts = [], [], Starts(loop)

    def turn():
        turns.append(len(begun))
        if len(begun) < 7:
            loop.call_soon(turn)

    for number in range(7):
        starts.add(lambda number=number: begun.append(number))
    assert begun == [0]
    loop.call_soon(turn)
    while len(begun) < 7:  # noqa: ASYNC110 - turn by turn
        await asyncio.sleep(0)
    starts.add(lambda: begun.append(7))
    await asyncio.sleep(0)
    assert begun == list(range(8))
    assert all(later - before <= 1 for before, later in pairwise(turns))
