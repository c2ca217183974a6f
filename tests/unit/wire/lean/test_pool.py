import asyncio
import logging
import ssl
from pathlib import Path

import pytest

from gateway.wire.lean import pool
from gateway.wire.lean.connection import Connection
from gateway.wire.lean.pool import LeanUpstream
from gateway.wire.upstream import UpstreamError, UpstreamRequest
from tests.raw_server import gone, only_first, saying, serving

CERTIFICATE = Path(__file__).parents[3] / "fixtures/tls/localhost.pem"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
async def upstream():
    made = LeanUpstream(keepalive=3600)
    yield made
    await made.close()
    assert made._open == set()


def post(url):
    return UpstreamRequest("POST", url + "/", [], b"{}")


async def ask(upstream, url):
    response = await upstream.send(post(url), 1.0)
    assert [part async for part in response.body()] == [b"hello"]
    await response.close()


async def ask_at_once(upstream, url, count):
    responses = [await upstream.send(post(url), 1.0) for _ in range(count)]
    for response in responses:
        await response.close()
    return list(upstream._idle[url])


async def failure(awaitable):
    with pytest.raises(UpstreamError) as raised:
        await awaitable
    return raised.value.phase, raised.value.error


async def test_the_freshest_connection_is_taken(upstream):
    async with serving(saying(OK)) as (_, url):
        idle = await ask_at_once(upstream, url, 3)
        for _ in range(5):
            await ask(upstream, url)
        assert list(upstream._idle[url]) == idle


async def test_each_backend_has_connections_of_its_own(upstream):
    async with serving(saying(OK)) as (one, url_one), serving(saying(OK)) as (two, url_two):
        for url in (url_one, url_two, url_one, url_two):
            await ask(upstream, url)
        assert (one.connections, two.connections) == (1, 1)
        assert (len(one.requests), len(two.requests)) == (2, 2)


async def test_a_connection_past_its_time_is_not_taken(upstream):
    async with serving(saying(OK)) as (server, url):
        (idle,) = await ask_at_once(upstream, url, 1)
        idle.idle_since -= 3600
        await ask(upstream, url)
        await server.closed.wait()
        assert server.connections == 2


async def test_a_sweep_closes_what_is_past_its_time_and_comes_again_for_the_rest(upstream):
    async with serving(saying(OK)) as (server, url), serving(saying(OK)) as (_, other):
        old, fresh = await ask_at_once(upstream, url, 2)
        (only,) = await ask_at_once(upstream, other, 1)
        old.idle_since -= 3600
        only.idle_since -= 3600
        upstream._sweeping.cancel()
        upstream._sweep()
        assert {base: list(idle) for base, idle in upstream._idle.items()} == {url: [fresh]}
        assert upstream._sweeping.when() == pytest.approx(fresh.idle_since + 3600)
        await server.closed.wait()
        fresh.idle_since -= 3600
        upstream._sweeping.cancel()
        upstream._sweep()
        assert (upstream._idle, upstream._sweeping) == ({}, None)


async def test_a_connection_that_breaks_long_after_the_request_is_not_replaced(upstream, monkeypatch):
    """The backend had the request by then, and may have broken because of it."""

    async with serving(only_first(OK)) as (server, url):
        await ask(upstream, url)
        monkeypatch.setattr(pool, "RACE_SECONDS", -1.0)
        assert await failure(upstream.send(post(url), 1.0)) == ("sent", "reset")
        assert server.connections == 1


async def test_a_closed_pool_replaces_nothing(upstream):
    async def script(reader, writer):
        if server.requests[1:]:
            arrived.set()
            await gone(reader)
        writer.write(OK)
        return True

    arrived = asyncio.Event()
    async with serving(script) as (server, url):
        await ask(upstream, url)
        sending = asyncio.get_running_loop().create_task(upstream.send(post(url), 1.0))
        await arrived.wait()
        await upstream.close()
        assert await failure(sending) == ("sent", "reset")
        assert server.connections == 1


async def test_a_connection_that_comes_to_stand_after_the_pool_was_closed_is_closed(upstream):
    async with serving(saying(OK)) as (server, url):
        sending = asyncio.get_running_loop().create_task(upstream.send(post(url), 1.0))
        await asyncio.sleep(0)
        await upstream.close()
        assert await failure(sending) == ("connect", "connect")
        assert server.requests == []


async def test_after_closing_the_pool_nothing_is_left(upstream):
    async with serving(saying(OK)) as (_, url):
        await ask_at_once(upstream, url, 3)
        await upstream.close()
        assert upstream._open == set()
        assert upstream._sweeping.cancelled()


async def test_a_connection_that_ended_with_its_answer_is_not_kept(upstream):
    async def script(reader, writer):
        writer.write(OK)
        writer.write_eof()
        await gone(reader)

    async with serving(script) as (server, url):
        response = await upstream.send(post(url), 1.0)
        await server.closed.wait()
        await response.close()
        assert upstream._idle == {}


async def test_a_pool_that_never_sent_anything_closes():
    await LeanUpstream().close()


# What goes wrong just as a connection comes to stand.


@pytest.fixture(params=["http", "https"])
async def place(request):
    """A pool, and a server that answers."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    made = LeanUpstream(tls=ssl.create_default_context(cafile=CERTIFICATE))
    async with serving(saying(OK), tls=tls if request.param == "https" else None) as (server, url):
        yield made, server, url
        async with asyncio.timeout(30.0):
            await made.close()
        assert made._open == set()


@pytest.fixture
def standing(monkeypatch):
    """Functions that get each connection as soon as it stands."""

    def connection_made(self, transport):
        made(self, transport)
        for call in calls:
            call(self)

    made, calls = Connection.connection_made, []
    monkeypatch.setattr(Connection, "connection_made", connection_made)
    return calls


async def test_a_client_that_leaves_as_the_connection_comes_to_stand_leaves_nothing(place, standing):
    upstream, server, url = place
    sending = asyncio.get_running_loop().create_task(upstream.send(post(url), 60.0))
    standing.append(lambda _: sending.cancel())
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert upstream._open == set()
    if url.startswith("http:"):  # over TLS the server may not have come to know of the connection
        await server.closed.wait()
    standing.clear()
    await ask(upstream, url)
    assert len(upstream._open) == 1


@pytest.mark.parametrize("end", [Connection.abort, Connection.eof_received])
async def test_a_connection_that_ends_as_it_comes_to_stand_is_not_used(place, standing, end):
    upstream, server, url = place
    loop = asyncio.get_running_loop()
    standing.append(lambda connection: loop.call_soon(end, connection))
    assert await failure(upstream.send(post(url), 60.0)) == ("connect", "reset")
    assert server.requests == []
    assert upstream._open == set()
    if url.startswith("http:"):  # over TLS the server may not have come to know of the connection
        await server.closed.wait()


async def test_closing_gives_up_on_a_connection_that_does_not_end(upstream, monkeypatch, caplog):
    async with serving(saying(OK)) as (_, url):
        await ask(upstream, url)
        monkeypatch.setattr(pool, "CLOSE_SECONDS", 0.01)
        monkeypatch.setattr(Connection, "abort", lambda _: None)
        with caplog.at_level(logging.WARNING):
            await upstream.close()
        assert len(caplog.records) == 1
        monkeypatch.undo()
