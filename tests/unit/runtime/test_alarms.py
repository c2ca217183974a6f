import asyncio

from gateway.runtime import clock
from gateway.runtime.alarms import Alarms


async def rung(alarms, *after):
    """In which order alarms ring that are set for so many seconds from now."""
    now, order, last = clock.monotonic(), [], asyncio.Event()
    for seconds in after:
        alarms.at(now + seconds, lambda seconds=seconds: order.append(seconds))
    alarms.at(now + max(after), last.set)
    await asyncio.wait_for(last.wait(), 30)
    return order


async def test_they_ring_in_the_order_of_their_times_not_before():
    began = clock.monotonic()
    assert await rung(Alarms(), 0.03, 0.01, 0.02, 0.0, -1.0) == [-1.0, 0.0, 0.01, 0.02, 0.03]
    assert clock.monotonic() - began >= 0.03


async def test_one_that_was_called_off_does_not_ring():
    alarms, told = Alarms(), []
    first = alarms.at(clock.monotonic() + 0.005, lambda: told.append(1))
    second = alarms.at(clock.monotonic() + 0.01, lambda: told.append(2))
    second.off()
    second.off()
    await rung(alarms, 0.02)
    assert told == [1]
    first.off()  # too late, and no harm
    assert len(alarms) == 0


async def test_one_that_rings_may_set_and_call_off_others():
    alarms, told, last = Alarms(), [], asyncio.Event()
    now = clock.monotonic()
    others = []

    def first():
        others[0].off()
        alarms.at(now - 1.0, last.set)

    alarms.at(now, first)
    others.append(alarms.at(now + 0.05, lambda: told.append(1)))
    await asyncio.wait_for(last.wait(), 30)
    await rung(alarms, 0.06)
    assert told == []


async def test_those_that_were_called_off_do_not_pile_up():
    alarms = Alarms()
    kept = [alarms.at(clock.monotonic() + 60.0, lambda: None) for _ in range(100)]
    for _ in range(10_000):
        alarms.at(clock.monotonic() + 60.0, lambda: None).off()
        assert len(alarms) < 300
    for alarm in kept:
        alarm.off()


async def test_they_use_one_timer(monkeypatch):
    alarms, timers = Alarms(), []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda *args: timers.append(later(*args)) or timers[-1])
    first = alarms.at(clock.monotonic() + 60.0, lambda: None)
    for _ in range(100):
        alarms.at(clock.monotonic() + 61.0, lambda: None).off()
    assert len(timers) == 1
    alarms.at(clock.monotonic() + 30.0, lambda: None).off()
    assert [timer.cancelled() for timer in timers] == [True, False]
    first.off()
    timers[-1].cancel()
