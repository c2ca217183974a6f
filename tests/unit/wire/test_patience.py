import asyncio
from types import SimpleNamespace

import pytest

from gateway.runtime import clock
from gateway.runtime.alarms import Alarms
from gateway.wire.patience import Patience


def patience(client=None, alarms=None, **limits):
    now = clock.monotonic()
    given = {"now": now, "first_byte": 5.0, "idle": 5.0, "deadline": now + 5.0} | limits
    return Patience(
        client or SimpleNamespace(writing=False, last_sent=0.0, caught_up_at=0.0),
        Alarms() if alarms is None else alarms,
        asyncio.current_task(),
        **given,
    )


async def ended(limit, work):
    with pytest.raises(TimeoutError), limit:
        await work
    return limit.which


async def test_a_first_byte_that_does_not_come():
    assert await ended(patience(first_byte=0.01), asyncio.Event().wait()) == "timeout:first_byte"


async def test_a_deadline_that_comes_before_the_first_byte():
    limit = patience(deadline=clock.monotonic() + 0.01)
    assert await ended(limit, asyncio.Event().wait()) == "timeout:total"


async def test_a_deadline_that_has_passed_ends_the_block_at_once():
    assert await ended(patience(deadline=clock.monotonic() - 1.0), asyncio.Event().wait()) == "timeout:total"


async def test_silence_after_the_first_byte():
    limit = patience(first_byte=0.5, idle=0.01)

    async def one_arrival():
        limit.last = clock.monotonic()
        await asyncio.Event().wait()

    assert await ended(limit, one_arrival()) == "timeout:idle"


async def test_arrivals_put_the_end_off():
    limit = patience(first_byte=1.0, idle=1.0)
    with limit:
        for _ in range(8):
            limit.last = clock.monotonic()
            await asyncio.sleep(0.15)  # longer than the limit in all


async def test_what_went_straight_to_the_client_puts_the_end_off():
    client = SimpleNamespace(writing=False, last_sent=0.0, caught_up_at=0.0)
    with patience(client, first_byte=1.0, idle=1.0) as limit:
        limit.last = clock.monotonic()
        for _ in range(8):
            client.last_sent = clock.monotonic()
            await asyncio.sleep(0.15)  # longer than the limit in all


async def test_what_was_sent_before_is_no_first_byte():
    client = SimpleNamespace(writing=False, last_sent=clock.monotonic(), caught_up_at=0.0)
    limit = patience(client, first_byte=0.01)
    assert await ended(limit, asyncio.Event().wait()) == "timeout:first_byte"


async def test_the_deadline_stands_whatever_arrives():
    limit = patience(deadline=clock.monotonic() + 0.05)

    async def arriving():
        while True:
            limit.last = clock.monotonic()
            await asyncio.sleep(0.005)

    assert await ended(limit, arriving()) == "timeout:total"


async def test_waiting_for_the_client_is_not_held_against_the_backend():
    client = SimpleNamespace(writing=True, last_sent=0.0, caught_up_at=0.0)
    limit = patience(client, idle=0.02)

    async def slow_client():
        limit.last = clock.monotonic()
        await asyncio.sleep(0.1)  # five times the limit
        client.writing = False
        await asyncio.Event().wait()

    assert await ended(limit, slow_client()) == "timeout:idle"


async def test_what_a_client_that_caught_up_late_is_sent_next_may_take_its_time():
    client = SimpleNamespace(writing=False, last_sent=0.0, caught_up_at=0.0)
    limit = patience(client, idle=0.2)
    with limit:
        limit.last = clock.monotonic() - 5.0  # the client was slow since
        client.caught_up_at = clock.monotonic()
        await asyncio.sleep(0.1)


async def test_a_cancellation_from_outside_stays_one():
    async def work():
        with patience():
            await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_block_that_ends_in_time_leaves_nothing_behind():
    alarms = Alarms()
    for _ in range(1000):
        with patience(SimpleNamespace(), alarms=alarms):
            pass
    assert len(alarms) < 200
