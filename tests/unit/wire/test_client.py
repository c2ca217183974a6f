import asyncio

import pytest

from gateway.runtime import clock
from gateway.wire.client import SLOW_SECONDS, Client
from gateway.wire.errors import Problem


def client_of(*messages):
    inbox = list(messages)
    sent = []

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message)

    return Client(receive, send), sent


def part(data, *, more=False):
    return {"type": "http.request", "body": data, "more_body": more}


async def test_a_body_in_parts_is_put_together():
    client, _ = client_of(part(b"ab", more=True), part(b"", more=True), part(b"c"))
    assert await client.body(3) == b"abc"


async def test_a_body_past_the_limit_is_a_problem():
    client, _ = client_of(part(b"ab", more=True), part(b"cd", more=True))
    problem = await client.body(3)
    assert isinstance(problem, Problem)
    assert problem.status == 413


async def test_leaving_while_sending_is_noticed():
    client, _ = client_of(part(b"ab", more=True), {"type": "http.disconnect"})
    assert await client.body(10) == b""
    assert client.gone


async def test_leaving_later_is_noticed():
    client, _ = client_of(part(b""), part(b"stray"), {"type": "http.disconnect"})
    await client.body(1)
    left = asyncio.Event()
    client.watch(left.set)
    await asyncio.wait_for(left.wait(), 30)
    assert client.gone


async def test_a_watch_that_was_ended_tells_nothing():
    told = []
    gate = asyncio.Event()

    async def receive():
        await gate.wait()
        return {"type": "http.disconnect"}

    client = Client(receive, None)
    client.watch(lambda: told.append(1))()
    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert told == []
    assert not client.gone


class Pipe:
    room = lost = None

    def on_room(self, call):
        self.room = call

    def on_lost(self, call):
        self.lost = call


async def test_the_pipe_tells_that_the_client_left_until_the_watch_ends():
    pipe, told = Pipe(), []
    client = Client(None, None, pipe)
    end = client.watch(lambda: told.append(client.gone))
    pipe.lost()
    assert told == [True]
    end()
    assert pipe.lost is None


@pytest.mark.parametrize(("waited", "slow"), [(0.0, False), (2 * SLOW_SECONDS, True)])
async def test_a_client_that_does_not_keep_up_is_remembered_if_it_took_long(waited, slow):
    pipe, caught_up = Pipe(), []
    client = Client(None, None, pipe)
    client.catches_up(pipe, lambda: caught_up.append(1))
    now = clock.monotonic()
    client.fell_behind(now - waited)
    client.fell_behind(now)  # what was on its way came after
    assert client.writing
    pipe.room()
    assert caught_up == [1]
    assert not client.writing
    assert client.slow is slow


async def test_a_whole_answer_carries_its_length():
    client, sent = client_of()
    await client.answer(404, [(b"a", b"b")], b"xyz")
    assert sent == [
        {"type": "http.response.start", "status": 404, "headers": [(b"a", b"b"), (b"content-length", b"3")]},
        {"type": "http.response.body", "body": b"xyz", "more_body": False},
    ]
    assert (client.started, client.finished, client.status, client.bytes_out) == (True, True, 404, 3)


async def test_an_answer_in_parts_is_counted():
    client, sent = client_of()
    await client.start(200, [])
    await client.write(b"ab")
    assert not client.finished
    await client.finish(b"c")
    assert client.finished
    assert client.bytes_out == 3
    assert [message.get("more_body") for message in sent] == [None, True, False]
