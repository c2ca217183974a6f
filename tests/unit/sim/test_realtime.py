from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from backends.sim import profiles
from backends.sim.engine import Engine, Job
from backends.sim.measures import Measures
from backends.sim.realtime import Flow, Inbox, Realtime

Virtual = Callable[..., Any]


def make(*, speed: float = 1.0, max_num_seqs: int = 4, draft_tokens: int = 7) -> Realtime:
    method = "dflash" if draft_tokens else "none"
    configuration = profiles.configuration("google/gemma-4-31B-it", method, draft_tokens)
    engine = Engine(configuration, seed=1, max_num_seqs=max_num_seqs)
    return Realtime(engine, Measures(4096), speed=speed)


async def drain(inbox: Inbox) -> int:
    tokens = 0
    while True:
        for share in await inbox.take():
            tokens += share.tokens
            if share.finished:
                return tokens


async def one(realtime: Realtime, tokens: int = 50) -> Flow:
    inbox = Inbox()
    flow = realtime.submit(Job("a", "chat", 20, tokens), 0, inbox)
    assert await drain(inbox) == tokens
    return flow


def test_steps_take_as_long_as_the_engine_says(virtual: Virtual) -> None:
    realtime = make(draft_tokens=0)
    flow = virtual(one(realtime, 11))
    step = realtime.engine.configuration.step(1)
    assert flow.timing.last - flow.timing.first == pytest.approx(10 * step)
    assert flow.timing.first - flow.timing.arrived >= step
    assert flow.timing.scheduled == pytest.approx(flow.timing.arrived)


def test_speed_divides_time(virtual: Virtual) -> None:
    slow, fast = virtual(one(make())).timing, virtual(one(make(speed=4.0))).timing
    assert slow.last - slow.arrived == pytest.approx(4 * (fast.last - fast.arrived))


def test_a_late_loop_makes_up_for_it_unless_it_is_far_behind(virtual: Virtual) -> None:
    async def main(delay: float) -> float:
        loop: Any = asyncio.get_running_loop()
        inbox = Inbox()
        flow = realtime.submit(Job("a", "chat", 20, 11), 0, inbox)
        await inbox.take()
        loop.now += delay
        await drain(inbox)
        return flow.timing.last - flow.timing.first

    realtime = make(draft_tokens=0)
    step = realtime.engine.configuration.step(1)
    assert virtual(main(3 * step)) == pytest.approx(10 * step)
    realtime = make(draft_tokens=0)
    assert virtual(main(5.0)) == pytest.approx(5.0 + 9 * step)


def test_who_waits_is_scheduled_when_a_slot_is_free(virtual: Virtual) -> None:
    async def main() -> tuple[Flow, Flow]:
        first, second = Inbox(), Inbox()
        flows = (
            realtime.submit(Job("a", "chat", 20, 30), 0, first),
            realtime.submit(Job("b", "chat", 20, 30), 0, second),
        )
        await first.take()
        assert (realtime.engine.running, realtime.engine.waiting) == (1, 1)
        await drain(first)
        await drain(second)
        return flows

    realtime = make(max_num_seqs=1)
    a, b = virtual(main())
    assert b.timing.scheduled == pytest.approx(a.timing.last)
    assert b.timing.first > b.timing.scheduled


def test_each_step_of_a_flow_is_noted(virtual: Virtual) -> None:
    flow = virtual(one(make(), 80))
    assert flow.acceptance is not None
    assert sum(flow.accepted) == flow.acceptance.accepted
    assert len(flow.drafted) == flow.acceptance.steps
    assert sum(flow.drafted) == flow.acceptance.drafted


def test_a_cancelled_job_leaves_its_slot_to_the_next(virtual: Virtual) -> None:
    async def main() -> None:
        first, second = Inbox(), Inbox()
        realtime.submit(Job("a", "chat", 20, 1000), 0, first)
        realtime.submit(Job("b", "chat", 20, 5), 0, second)
        await first.take()
        assert realtime.cancel("a")
        assert not realtime.cancel("a")
        assert await drain(second) == 5
        assert (realtime.engine.running, realtime.engine.waiting) == (0, 0)

    realtime = make(max_num_seqs=1)
    virtual(main())


def test_a_job_cancelled_in_the_queue_never_runs(virtual: Virtual) -> None:
    async def main() -> None:
        first, second, third = Inbox(), Inbox(), Inbox()
        realtime.submit(Job("a", "chat", 20, 50), 0, first)
        realtime.submit(Job("b", "chat", 20, 50), 0, second)
        flow = realtime.submit(Job("c", "chat", 20, 5), 0, third)
        await first.take()
        assert realtime.cancel("b")
        assert realtime.engine.waiting == 1
        assert await drain(third) == 5
        assert flow.timing.scheduled > flow.timing.arrived

    realtime = make(max_num_seqs=1)
    virtual(main())


def test_shares_not_taken_are_merged(virtual: Virtual) -> None:
    async def main() -> None:
        inbox = Inbox()
        inbox.put(0, 3, finished=False)
        inbox.put(1, 1, finished=False)
        inbox.put(0, 2, finished=True)
        shares = [(share.index, share.tokens, share.finished) for share in await inbox.take()]
        assert shares == [(0, 5, True), (1, 1, False)]

    virtual(main())


def test_an_engine_that_died_ends_every_wait(virtual: Virtual) -> None:
    async def main() -> None:
        inbox = Inbox()
        realtime.submit(Job("a", "chat", 20, 1000), 0, inbox)
        await inbox.take()
        realtime.close()
        assert await inbox.take() == []
        assert realtime.engine.running == 0

    realtime = make()
    virtual(main())
    idle = make()
    idle.close()
    assert idle.closed


def test_a_stalled_engine_keeps_everything_waiting(virtual: Virtual) -> None:
    async def main() -> None:
        first, second = Inbox(), Inbox()
        realtime.submit(Job("a", "chat", 20, 1000), 0, first)
        await first.take()
        realtime.stall()
        realtime.submit(Job("b", "chat", 20, 1000), 0, second)
        await asyncio.sleep(100)
        assert (realtime.engine.running, realtime.engine.waiting) == (1, 1)
        assert realtime.engine.counters.generation_tokens == 1
        realtime.close()
        assert await first.take() == await second.take() == []

    async def later() -> None:
        realtime.stall()
        realtime.submit(Job("a", "chat", 20, 1000), 0, Inbox())
        await asyncio.sleep(100)
        assert realtime.engine.waiting == 1

    realtime = make()
    virtual(main())
    realtime = make()
    virtual(later())
