"""Clients that do not read what is written to them, over sockets: their requests end in time all the same."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import pytest

from gateway.core.policy import Timeouts
from gateway.runtime import clock
from gateway.wire import client as clients
from tests.relaying import Bench, body
from tests.scripted import NEVER, answer, stream
from tests.unit.wire.test_protocol import SECONDS, connected, serving

LARGE = b'{"x":"' + b"a" * 2**24 + b'"}'
EVENT = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"'
    + b"a" * 2**20
    + b'"},"finish_reason":null}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


@pytest.fixture(params=[True, False], ids=["pipe", "messages"])
def piped(request):
    return request.param


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(clients, "LAST_SECONDS", 0.2)


@asynccontextmanager
async def relaying(bench, *, piped):
    bench.relay = replace(bench.relay, pipe=piped)
    async with serving(app=bench.relay) as (_, protocols, port), asyncio.timeout(SECONDS):
        yield protocols, port


@contextmanager
def asking(port, said):
    """A client that asks and does not read."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(said), said)
        )
        yield client


def behind(protocols):
    """Whether the kernel takes no more of what is written to the first client."""
    return bool(protocols.made and protocols.made[0].flow and protocols.made[0].flow.write_paused)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - lets the others run
        await asyncio.sleep(0)


async def test_a_stream_that_is_not_read_ends_with_its_time(piped):
    bench = Bench(a=[stream(*[EVENT] * 20, NEVER)], timeouts=Timeouts(total=0.3))
    async with relaying(bench, piped=piped) as (protocols, port):
        with asking(port, body(stream=True)):
            await until(lambda: bench.records)
            assert bench.admission.open == 0
            await until(lambda: protocols.made[0].parser is None)
    assert (bench.record.outcome.status, bench.record.outcome.error) == ("truncated", "timeout:total")
    assert bench.idle


@pytest.mark.parametrize("parts", [[*[EVENT] * 20, DONE], [EVENT * 20 + DONE]], ids=["parts", "at-once"])
async def test_a_whole_stream_that_is_not_read_ends_with_its_time(piped, parts):
    bench = Bench(a=[stream(*parts)], timeouts=Timeouts(total=0.3))
    async with relaying(bench, piped=piped) as (protocols, port):
        with asking(port, body(stream=True)):
            await until(lambda: bench.records)
            await until(lambda: protocols.made[0].parser is None)
    assert bench.idle


async def test_a_whole_answer_that_is_not_read_counts_as_open_until_its_time_is_over(piped):
    bench = Bench(a=[answer(LARGE)], timeouts=Timeouts(total=1.0))
    async with relaying(bench, piped=piped) as (protocols, port):
        with asking(port, body()):
            await until(lambda: behind(protocols))
            assert bench.idle
            assert bench.admission.open == 1
            given = clock.monotonic()
            await until(lambda: bench.records)
            assert bench.admission.open == 0
            await until(lambda: protocols.made[0].parser is None)
    assert bench.record.outcome.status == "ok"
    assert bench.record.ended <= given


async def test_a_whole_answer_that_is_read_slowly_arrives_whole(piped, monkeypatch):
    monkeypatch.setattr(clients, "LAST_SECONDS", 0.0)  # the time of the request holds, not that of last words
    bench = Bench(a=[answer(LARGE), answer(b"{}")])
    async with relaying(bench, piped=piped) as (protocols, port):
        reader, writer = await connected(port)
        said = body()
        ask = b"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b" % (
            len(said),
            said,
        )
        writer.write(ask * 2)
        await until(lambda: behind(protocols))
        assert bench.admission.open >= 1
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: %d" % len(LARGE) in head
        assert await reader.readexactly(len(LARGE)) == LARGE
        assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200")
        writer.close()
        await until(lambda: len(bench.records) == 2 and not bench.admission.open)


async def test_a_client_that_leaves_while_it_reads_is_not_waited_for(piped):
    bench = Bench(a=[answer(LARGE)])
    async with relaying(bench, piped=piped) as (protocols, port):
        with asking(port, body()):
            await until(lambda: behind(protocols))
            assert bench.admission.open == 1
        await until(lambda: bench.records)
    assert bench.admission.open == 0


async def test_a_client_that_does_not_read_does_not_hold_up_the_end_of_the_process(piped, caplog):
    bench = Bench(a=[stream(*[EVENT] * 20, NEVER)])
    async with relaying(bench, piped=piped) as (protocols, port):
        with asking(port, body(stream=True)):
            await until(lambda: behind(protocols))
            (task,) = protocols.made[0].tasks
            task.cancel()
            await until(lambda: bench.records)
            await until(task.done)
    assert (
        json.dumps([one.message for one in caplog.records if one.exc_info or one.levelname == "ERROR"])
        == "[]"
    )
    assert bench.record.outcome.error == "shutting_down"
