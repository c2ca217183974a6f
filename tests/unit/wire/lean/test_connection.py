import asyncio
import socket

import pytest

from gateway.wire.lean.pool import LeanUpstream
from gateway.wire.upstream import UpstreamRequest
from tests.raw_server import gone, saying, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
MEGABYTE = 2**20


@pytest.fixture
async def upstream():
    made = LeanUpstream()
    yield made
    await made.close()


def post(url, body=b"{}"):
    return UpstreamRequest("POST", url + "/", [], body)


async def turns():
    for _ in range(50):
        await asyncio.sleep(0)


async def test_small_writes_are_not_held_back(upstream):
    async with serving(saying(OK)) as (_, url):
        response = await upstream.send(post(url), 1.0)
        (connection,) = upstream._open
        wire = connection._transport.get_extra_info("socket")
        assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        await response.close()


async def test_an_answer_before_the_body_was_taken_ends_its_sending(upstream):
    async def script(reader, writer):
        writer.write(OK)
        await answered.wait()
        got.append(0)
        while data := await reader.read(MEGABYTE):
            got[0] += len(data)
        ended.set()

    got, answered, ended = [], asyncio.Event(), asyncio.Event()
    async with serving(script, unread=True) as (_, url):
        response = await upstream.send(post(url, bytes(64 * MEGABYTE)), 1.0)
        assert [part async for part in response.body()] == [b"hello"]
        await response.close()
        answered.set()
        await ended.wait()
        assert got[0] < 32 * MEGABYTE


async def test_a_sink_is_called_by_the_connection_itself(upstream):
    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        await gate.wait()
        writer.write(b"world")
        return True

    def sink(data):
        callers.append((data, asyncio.current_task()))
        gate.set()

    callers, gate = [], asyncio.Event()
    async with serving(script) as (_, url):
        response = await upstream.send(post(url), 1.0)
        await response.pipe(sink)
        await response.close()
    assert callers == [(b"hello", asyncio.current_task()), (b"world", None)]


async def test_of_what_comes_after_a_fault_nothing_is_looked_at(upstream):
    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await gate.wait()
        writer.write(b"1\r\nb\r\n")
        return True

    def sink(data):
        gate.set()
        if data == b"b":
            raise KeyError(data)

    def shortcut(usual):
        return lambda data: (seen.append(data), usual(data))

    seen, gate = [], asyncio.Event()
    async with serving(script) as (_, url):
        response = await upstream.send(post(url), 1.0)
        (connection,) = upstream._open
        piping = asyncio.create_task(response.pipe(sink, shortcut))
        while not seen:  # noqa: ASYNC110 - until the fault, and no turn longer
            await asyncio.sleep(0)
        connection.data_received(b"1\r\nc\r\n")
        with pytest.raises(KeyError):
            await piping
        await response.close()
        connection.data_received(b"1\r\nd\r\n")
    assert seen == [b"1\r\nb\r\n"]


async def test_a_request_cancelled_while_it_is_sent_leaves_nothing(upstream):
    async def script(reader, _):
        arrived.set()
        await gone(reader)

    arrived = asyncio.Event()
    async with serving(script, unread=True) as (_, url):
        sending = asyncio.get_running_loop().create_task(upstream.send(post(url, bytes(64 * MEGABYTE)), 1.0))
        await arrived.wait()
        sending.cancel()
        await asyncio.wait([sending])
        await turns()
        assert upstream._open == set()
