"""The pipe as our protocol offers it, over sockets."""

import asyncio

from gateway.wire.pipe import EXTENSION
from tests.unit.wire.test_protocol import SECONDS, connected, serving

GET = b"GET /x HTTP/1.1\r\nhost: h\r\n"
LAST = b"connection: close\r\n\r\n"
MB = b"x" * 2**20


class Pouring:
    """Begins an answer, hands the pipe to the test, and ends the answer when it is told to."""

    def __init__(self, headers=()):
        self.headers = list(headers)
        self.pipes = []
        self.begun = asyncio.Event()
        self.end = asyncio.Event()

    async def __call__(self, scope, receive, send):
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        self.pipes.append(scope["extensions"][EXTENSION])
        self.begun.set()
        await self.end.wait()
        await send({"type": "http.response.body", "body": b""})

    @property
    def pipe(self):
        return self.pipes[-1]


async def begin(app, port, request=GET + LAST):
    reader, writer = await connected(port)
    writer.write(request)
    await app.begun.wait()
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_what_is_poured_comes_as_chunks_between_beginning_and_end():
    app = Pouring()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        assert app.pipe.write(b"one")
        assert await reader.readexactly(8) == b"3\r\none\r\n"
        assert app.pipe.write(b"x" * 17)
        app.end.set()
        assert await reader.read() == b"11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"
        writer.close()


async def test_where_the_length_is_known_it_comes_as_it_is():
    app = Pouring([(b"content-length", b"3")])
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        app.pipe.write(b"one")
        assert await reader.readexactly(3) == b"one"
        writer.close()


async def test_a_client_that_does_not_read_is_told_of_and_so_is_its_catching_up():
    app = Pouring()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await begin(app, port)
        room = asyncio.Event()
        app.pipe.on_room(room.set)
        parts = 1
        while app.pipe.write(MB):
            parts += 1
            await asyncio.sleep(0)
        assert not app.pipe.write(MB)
        assert not room.is_set()
        app.end.set()
        got = await reader.read()
        assert got.count(b"x") == (parts + 1) * 2**20
        assert room.is_set()
        room.clear()
        writer.close()
    assert not room.is_set()


async def test_a_client_that_leaves_is_told_of_once():
    app, told = Pouring(), []
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port)
        left = asyncio.Event()
        app.pipe.on_lost(lambda: (told.append(1), left.set()))
        writer.close()
        await left.wait()
        assert app.pipe.write(b"into the void")
        again = asyncio.Event()
        app.pipe.on_lost(again.set)
        await again.wait()
        app.end.set()
        assert not protocols.made[0].watched
    assert told == [1]


async def test_who_no_longer_asks_is_not_told():
    app, told = Pouring(), []
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
    app = Pouring()
    async with serving(app=app) as (_, protocols, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port, GET + b"\r\n" + GET + LAST)
        lost = asyncio.Event()
        first = app.pipe
        first.on_lost(lost.set)
        writer.close()
        await lost.wait()
        app.end.set()
        assert protocols.made[0].cycle is not first._cycle


async def test_a_client_that_sends_junk_behind_its_request_has_left():
    app = Pouring()
    async with serving(app=app) as (_, _, port), asyncio.timeout(SECONDS):
        _, writer = await begin(app, port, GET + b"\r\n")
        lost = asyncio.Event()
        app.pipe.on_lost(lost.set)
        writer.write(b"\0\0 junk\r\n\r\n")
        await lost.wait()
        app.end.set()
        writer.close()
