import asyncio
from dataclasses import replace

import pytest

from gateway.core.classes import ServiceClass
from gateway.core.fleet import Backend, Guide
from gateway.core.outcome import Attempt
from gateway.core.plan import Limits, Plan
from gateway.core.policy import AUTO, Learning, Waiting
from tests.relaying import Bench, body
from tests.scripted import answer

PLAN = Plan({"chat": frozenset({"a"}), "bulk": frozenset({"b"})}, caps={"a": 1})
BULK = [(b"x-specroute-class", b"bulk")]
LONG, SHORT = Limits(ttft=60.0), Limits(ttft=0.002)


def full(limits=LONG, *, wait=60.0, length=5, plan=PLAN, busy="a", refuses=()):
    """A relay with a server for chat, ``a``, that has as much as its limits let it, and another one for the rest."""
    backends = [Backend(name, f"http://{name}", "target", "m", max_in_flight=2) for name in "ab"]
    backends[1] = replace(backends[1], refuses=frozenset(refuses))
    bench = Bench(
        backends=backends,
        queue=Waiting(wait, length),
        **{name: [answer(f'{{"{name}":1}}'.encode()) for _ in range(9)] for name in "ab"},
    )
    classes = (ServiceClass("chat", limits=limits), ServiceClass("bulk"))
    bench.policy = replace(bench.policy, classes=classes, learning=Learning(AUTO, 1.0))
    bench.fleet.guide(Guide(plan={"target": plan}))
    for name in busy:
        bench.fleet.dispatched(name)
    return bench


def freed(bench, name):
    """One of the requests there has ended."""
    bench.fleet.finished(name, Attempt(name, "done", "", 200, 0.0, 0.0))


async def queued(bench, count=1):
    """Wait until so many requests wait."""
    while len(bench.fleet.queue) != count:  # noqa: ASYNC110 - lets the others run
        await asyncio.sleep(0)


async def test_a_request_waits_for_a_server_of_its_class():
    bench = full()
    client = bench.open(body())
    await queued(bench)
    assert bench.upstream.requests == []
    freed(bench, "a")
    assert (await client.end()).body == b'{"a":1}'
    assert bench.record.queued > 0.0


async def test_when_its_patience_ends_it_goes_elsewhere():
    bench = full(SHORT)
    client = await bench.talk(body())
    assert client.body == b'{"b":1}'
    assert bench.record.queued > 0.0


async def test_with_no_room_there_either_it_goes_on_waiting():
    bench = full(SHORT, busy="aabb")
    client = bench.open(body())
    await queued(bench)
    while len(bench.relay.alarms):  # noqa: ASYNC110 - its patience has not ended
        await asyncio.sleep(0.001)
    assert len(bench.fleet.queue) == 1
    assert bench.fleet.queue.patient == 0
    freed(bench, "b")
    assert (await client.end()).body == b'{"b":1}'


async def test_who_may_wait_for_less_is_not_refused():
    bench = full(wait=0.001)
    assert (await bench.talk(body())).body == b'{"b":1}'


async def test_a_full_queue_is_not_waited_in():
    bench = full(length=1, busy="abb")
    bulk = bench.open(body(), headers=BULK)
    await queued(bench)
    assert (await bench.talk(body())).body == b'{"a":1}'
    assert bench.record.queued == 0.0
    freed(bench, "b")
    assert (await bulk.end()).body == b'{"b":1}'


async def test_it_takes_no_place_in_the_queue_from_who_must_wait():
    bench = full(length=1, busy="abb")
    chat = bench.open(body())
    await queued(bench, 1)
    bulk = bench.open(body(), headers=BULK)
    await queued(bench, 2)
    freed(bench, "b")
    assert (await bulk.end()).body == b'{"b":1}'
    freed(bench, "a")
    assert (await chat.end()).body == b'{"a":1}'
    assert bench.fleet.queue.patient == 0


async def test_who_needs_a_server_of_others_keeps_nobody_of_its_class_from_its_own():
    bench = full(busy="abb", refuses={"logprobs"})
    picky = bench.open(body(logprobs=True), headers=BULK)
    await queued(bench, 1)
    plain = bench.open(body(), headers=BULK)
    await queued(bench, 2)
    freed(bench, "b")
    assert (await plain.end()).body == b'{"b":1}'
    freed(bench, "a")
    assert (await picky.end()).body == b'{"a":1}'


async def test_a_client_that_leaves_leaves_nothing_behind():
    bench = full()
    client = bench.open(body())
    await queued(bench)
    client.leave()
    await client.end()
    assert len(bench.fleet.queue) == 0
    assert bench.fleet.queue.patient == 0
    assert all(alarm.call is None for alarm in bench.relay.alarms._heap)
    assert bench.record.outcome.status == "cancelled"


async def test_it_no_longer_waits_for_a_server_that_goes_down():
    bench = full()
    client = bench.open(body())
    await queued(bench)
    bench.fleet.down("a", "probe")
    assert (await client.end()).body == b'{"b":1}'


@pytest.mark.parametrize(
    "never",
    [
        {"limits": Limits(tpot=1e-3)},
        {"wait": 0.0},
        {"length": 0},
        {"plan": Plan(caps={"a": 1, "b": 5})},
        {"plan": Plan({"chat": frozenset({"c"}), "bulk": frozenset({"b"})}, caps={"a": 1, "b": 5})},
    ],
)
async def test_nobody_waits_without(never):
    bench = full(**never)
    client = await bench.talk(body())
    assert client.status == 200
    assert bench.record.queued == 0.0
