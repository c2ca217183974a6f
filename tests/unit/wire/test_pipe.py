"""The pipe as our protocol offers it, over sockets."""

import asyncio

import pytest

from gateway.wire.pipe import pipe_of
from tests.unit.wire.test_protocol import SECONDS, connected, serving, until

GET = b"GET /x HTTP/1.1\r\nhost: h\r\n"
LAST = b"connection: close\r\n\r\n"
MB = b"x" * 2**20


class Piping:
    """Hands the pipe of each request to the test and ends when it is told to."""

    def __init__(self):
        self.pipes = []
        self.came = asyncio.Event()
        self.end = asyncio.Event()

    async def __call__(self, scope, receive, send):
        while (await receive())["more_body"]:
            pass
        self.pipes.append(pipe_of(scope))
        self.came.set()
        await self.end.wait()

    @property
    def pipe(self):
        return self.pipes[-1]


async def begin(app, port, request=GET + LAST, headers=()):
    reader, writer = await connected(port)
    writer.write(request)
    await app.came.wait()
    if headers is not None:
        app.pipe.start(200, list(headers))
    return reader, writer


async def headed(reader):
    """Status line and headers of an answer."""
    line, *headers = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    return line, dict(header.split(b": ") for header in headers)


def test_a_server_that_offers_none():
    assert pipe_of({}) is None
    assert pipe_of({"extensions": {"http.response.push": {}}}) is None


async def test_without_a_length_the_body_comes_in_chunks():
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port, headers=[(b"x-a", b"b")])
        assert app.pipe.write(b"one")
        line, headers = await headed(reader)
        assert line == b"HTTP/1.1 200 OK"
        assert headers.pop(b"date")
        assert headers.pop(b"server") == b"uvicorn"
        assert headers == {b"x-a": b"b", b"transfer-encoding": b"chunked", b"connection": b"close"}
        assert await reader.readexactly(8) == b"3\r\none\r\n"
        assert app.pipe.write(b"x" * 17)
        app.pipe.finish(b"y")
        app.end.set()
        assert await reader.read() == b"11\r\n" + b"x" * 17 + b"\r\n1\r\ny\r\n0\r\n\r\n"
        writer.close()


async def test_an_old_client_gets_the_body_as_it_is_until_the_connection_ends():
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        old = b"POST /x HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\na"
        reader, writer = await begin(app, port, old)
        assert app.pipe.write(b"one")
        assert app.pipe.inside() is None
        app.pipe.finish(b"two")
        app.end.set()
        line, headers = await headed(reader)
        assert line == b"HTTP/1.1 200 OK"
        assert headers[b"connection"] == b"close"
        assert b"transfer-encoding" not in headers
        assert await reader.read() == b"onetwo"
        writer.close()


class Hasty(Piping):
    """Answers without reading."""

    async def __call__(self, scope, receive, send):
        pipe = pipe_of(scope)
        pipe.start(413, [(b"content-length", b"2")])
        pipe.finish(b"no")


@pytest.mark.parametrize(
    "head", [b"POST /x HTTP/1.0\r\n", b"POST /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n"]
)
async def test_a_client_that_sends_all_before_it_reads_gets_to_read_the_answer(head):
    async with serving(app=Hasty()) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(head + b"content-length: %d\r\n\r\n" % (8 * len(MB)))
        for _ in range(8):
            writer.write(MB)
            await writer.drain()
        assert (await headed(reader))[0] == b"HTTP/1.1 413 Request Entity Too Large"
        assert await reader.read() == b"no"
        writer.close()


async def test_a_part_that_is_framed_already_goes_out_as_it_is():
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        app.pipe.write(b"one")
        put, flow, cycle = app.pipe.inside()
        assert app.pipe.write(b"two")
        put(b"5\r\nthree\r\n")
        assert not flow.write_paused
        assert not cycle.disconnected
        app.pipe.finish(b"")
        app.end.set()
        await headed(reader)
        assert await reader.read() == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"
        writer.close()


async def test_where_the_length_is_known_it_comes_as_it_is_and_the_connection_goes_on():
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port, GET + b"\r\n", [(b"content-length", b"3")])
        app.pipe.finish(b"one")
        _, headers = await headed(reader)
        assert b"transfer-encoding" not in headers
        assert b"connection" not in headers
        assert app.pipe.inside() is None
        assert await reader.readexactly(3) == b"one"
        app.end.set()
        app.end = asyncio.Event()
        app.came.clear()
        writer.write(GET + LAST)
        await app.came.wait()
        app.pipe.start(404, [])
        app.pipe.finish(b"")
        assert (await headed(reader))[0] == b"HTTP/1.1 404 Not Found"
        app.end.set()
        assert await reader.read() == b"0\r\n\r\n"
        writer.close()


@pytest.mark.parametrize(
    ("method", "status", "length"), [(b"HEAD", 200, [(b"content-length", b"3")]), (b"GET", 204, [])]
)
async def test_an_answer_without_a_body_has_none(method, status, length):
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        request = method + b" /x HTTP/1.1\r\nhost: h\r\n" + LAST
        reader, writer = await begin(app, port, request, None)
        app.pipe.start(status, length)
        app.pipe.finish(b"abc" if length else b"")
        app.end.set()
        _, headers = await headed(reader)
        assert b"transfer-encoding" not in headers
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_header_with_a_line_break_is_refused(value):
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port, headers=None)
        with pytest.raises(ValueError, match="line break"):
            app.pipe.start(200, [(b"x", value)])
        writer.close()
        app.end.set()


@pytest.mark.parametrize("inside", [False, True])
async def test_a_client_that_does_not_read_is_told_of_and_so_is_its_catching_up(inside):
    app = Piping()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        room = asyncio.Event()
        app.pipe.on_room(room.set)
        parts = 1
        app.pipe.write(MB)
        put, flow, _ = app.pipe.inside()

        def write(data):
            if not inside:
                return app.pipe.write(data)
            put(b"%x\r\n%b\r\n" % (len(data), data))
            if flow.write_paused:
                app.pipe.hold_back()
            return not flow.write_paused

        while write(MB):
            parts += 1
            await asyncio.sleep(0)
        assert not write(MB)
        assert not room.is_set()
        app.pipe.finish(b"")
        app.end.set()
        got = await reader.read()
        assert got.count(MB[:1024]) // 1024 == parts + 2
        assert room.is_set()
        room.clear()
        writer.close()
    assert not room.is_set()


async def test_a_client_that_leaves_is_told_of_once():
    app, told = Piping(), []
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port)
        left = asyncio.Event()
        app.pipe.on_lost(lambda: (told.append(1), left.set()))
        writer.close()
        await left.wait()
        assert app.pipe.write(b"into the void")
        app.pipe.finish(b"")
        again = asyncio.Event()
        app.pipe.on_lost(again.set)
        await again.wait()
        app.end.set()
        assert not protocols.made[0].watched
    assert told == [1]


async def test_what_is_poured_when_the_connection_is_gone_goes_into_the_void():
    """A backend's chunk may come between the end of the connection and that of the exchange."""
    app = Piping()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port)
        app.pipe.write(b"one")
        cycle = app.pipe.inside()[2]
        (protocol,) = protocols.made
        writer.transport.abort()
        while protocol in protocol.connections:  # noqa: ASYNC110 - lets the others run
            await asyncio.sleep(0)
        assert cycle.disconnected
        assert app.pipe.write(b"two")
        app.pipe.finish(b"")
        app.end.set()


async def test_who_no_longer_asks_is_not_told():
    app, told = Piping(), []
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port)
        app.pipe.on_lost(lambda: told.append(1))
        app.pipe.on_lost(None)
        writer.close()
        while not app.pipe._cycle.disconnected:  # noqa: ASYNC110 - lets the others run
            await asyncio.sleep(0)
        app.end.set()
    assert told == []


async def test_of_requests_behind_each_other_each_has_its_own():
    app = Piping()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port, GET + b"\r\n" + GET + LAST)
        lost = asyncio.Event()
        first = app.pipe
        first.on_lost(lost.set)
        writer.close()
        await lost.wait()
        app.end.set()
        assert protocols.made[0].cycle is not first._cycle


async def test_a_client_that_sends_junk_behind_its_request_is_there_until_it_leaves():
    app = Piping()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port, GET + b"\r\n")
        lost = asyncio.Event()
        app.pipe.on_lost(lost.set)
        app.pipe.write(b"one")
        writer.write(b"\0\0 junk\r\n\r\n")
        await until(lambda: protocols.made[0].refused)
        assert app.pipe.write(b"two")
        assert (await reader.readuntil(b"two\r\n")).count(b"HTTP/1.1") == 1
        assert not lost.is_set()
        writer.close()
        await lost.wait()
        app.end.set()


async def test_a_client_that_leaves_behind_junk_has_left_and_was_told_nothing():
    app = Piping()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port, GET + b"\r\n\0\0 junk\r\n\r\n", None)
        await until(lambda: protocols.made[0].refused)
        writer.close()
        await until(lambda: app.pipe._cycle.disconnected)
        assert app.pipe.refusal is None
        app.end.set()


async def test_a_stream_is_one_until_its_exchange_ends():
    app = Piping()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        turnstile = protocols.made[-1].turnstile
        app.pipe.streams()
        assert turnstile.streams == {app.pipe}
        app.pipe.finish(b"")
        app.pipe.release()
        assert not turnstile.streams
        app.end.set()
        await reader.read()
        writer.close()
