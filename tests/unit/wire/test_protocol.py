import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from gateway.cli import running
from gateway.settings import Settings
from gateway.wire.protocol import AHEAD_LIMIT, LimitedProtocol
from gateway.wire.refusals import HEAD_LIMIT, TARGET_LIMIT

SECONDS = 20.0
"""How long a connection may stay open before a test gives up."""

OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]}


class App:
    """Answers every request with what it was; ``/wait`` begins an answer and never ends it."""

    def __init__(self):
        self.scopes = []
        self.bodies = []
        self.left = asyncio.Event()
        self.began = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        self.began.set()
        if scope["path"] == "/wait":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        if scope["path"] == "/wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        await send(OK)
        await send({"type": "http.response.body", "body": b"ok"})


class Quick(LimitedProtocol):
    head_seconds = 0.05
    linger_seconds = 0.05


class Protocols:
    """Keeps the connections that a server makes."""

    def __init__(self, kind):
        self._kind = kind
        self.made = []

    def __call__(self, **how):
        self.made.append(self._kind(**how))
        return self.made[-1]


@asynccontextmanager
async def serving(kind=LimitedProtocol, app=None):
    app, protocols = app or App(), Protocols(kind)
    config = uvicorn.Config(app, http=protocols, ws="none", lifespan="off", log_config=None)
    server = running._Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        try:
            yield app, protocols, listener.getsockname()[1]
        finally:
            server.should_exit = True
            server.force_exit = True
            await task


async def connected(port):
    return await asyncio.open_connection("127.0.0.1", port)


async def say(port, *parts, ends=False):
    """Send these bytes one after the other; returns all that comes back until the server closes."""
    reader, writer = await connected(port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if ends:
            writer.write_eof()
        async with asyncio.timeout(SECONDS):
            return await reader.read()
    finally:
        writer.close()


async def until(holds):
    """Let the others run until something holds."""
    while not holds():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


def problem(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    return int(head.split()[1]), json.loads(body)["error"]


GET = b"GET /x HTTP/1.1\r\nhost: h\r\n"
LAST = b"connection: close\r\n\r\n"


async def test_an_ordinary_request_is_answered():
    async with serving() as (app, _, port):
        answer = await say(port, GET + b"x-a: 1\r\n" + LAST)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"ok")
    assert (b"x-a", b"1") in app.scopes[0]["headers"]


@pytest.mark.parametrize(
    "parts",
    [
        [GET + b"x-a: " + b"a" * HEAD_LIMIT + b"\r\n" + LAST],
        [GET, *[b"x-a: " + b"a" * 1000 + b"\r\n"] * 70],
        [GET + b"x-a: ", *[b"a" * 10_000] * 60],
        [GET + b"x-a", *[b"a" * 10_000] * 60],
    ],
    ids=["one", "many", "never-ends", "name-never-ends"],
)
async def test_headers_beyond_the_limit_are_refused(parts):
    async with serving() as (app, _, port):
        status, error = problem(await say(port, *parts, ends=True))
    assert (status, error["code"]) == (431, "request_too_large")
    assert app.scopes == []


async def test_headers_within_the_limit_pass():
    async with serving() as (_, _, port):
        answer = await say(port, GET + b"x-a: " + b"a" * (HEAD_LIMIT - 100) + b"\r\n" + LAST)
    assert answer.startswith(b"HTTP/1.1 200")


async def test_the_limit_is_one_requests_not_the_connections():
    large = b"x-a: " + b"a" * (HEAD_LIMIT - 100) + b"\r\n"
    async with serving() as (_, _, port):
        answer = await say(port, GET + large + b"\r\n", GET + large + LAST)
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_a_path_beyond_the_limit_is_refused():
    async with serving(Quick) as (_, _, port):
        status, error = problem(await say(port, b"GET /" + b"a" * TARGET_LIMIT + b" HTTP/1.1\r\n" + LAST))
    assert (status, error["code"]) == (414, "request_too_large")


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: h\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
async def test_what_is_not_http_is_refused_in_words(junk):
    async with serving(Quick) as (app, _, port):
        status, error = problem(await say(port, junk))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert app.bodies == []


@pytest.mark.parametrize("hosts", [b"", b"host: a\r\nHost: a\r\n"], ids=["none", "two"])
async def test_a_request_must_say_once_which_host_it_is_for(hosts):
    async with serving(Quick) as (app, _, port):
        status, error = problem(await say(port, b"GET / HTTP/1.1\r\n" + hosts + LAST))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert "host" in error["message"]
    assert app.scopes == []


async def test_a_request_must_say_which_host_it_is_for_behind_another_too():
    async with serving(app=Held()) as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(GET + b"\r\nGET / HTTP/1.1\r\n\r\n")
        await until(lambda: protocols.made and protocols.made[0].refused)
        app.may.set()
        assert (await reader.read()).count(b"HTTP/1.1 200") == 1
        writer.close()
    assert len(app.scopes) == 1


@pytest.mark.parametrize("version", [b"0.9", b"1.0"])
async def test_an_old_client_need_not_say_which_host_it_asks(version):
    async with serving() as (app, _, port):
        answer = await say(port, b"GET /a HTTP/%b\r\n\r\n" % version)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
    assert [scope["path"] for scope in app.scopes] == ["/a"]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://h", b"/", b""),
        (b"http://h?a=b", b"/", b"a=b"),
        (b"http://h:1/?a", b"/", b"a"),
        (b"https://u@h/b%20c?a=b", b"/b%20c", b"a=b"),
    ],
)
async def test_a_target_may_be_a_whole_address(target, path, query):
    async with serving() as (app, _, port):
        answer = await say(port, b"GET " + target + b" HTTP/1.1\r\nhost: h\r\n" + LAST)
    assert answer.startswith(b"HTTP/1.1 200")
    assert (app.scopes[0]["raw_path"], app.scopes[0]["query_string"]) == (path, query)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(
    "line",
    [
        b"GET http://h:99999/x HTTP/1.1",
        b"GET http://h:x/ HTTP/1.1",
        b"CONNECT h:80 HTTP/1.1",
        b"CONNECT h HTTP/1.1",
    ],
)
async def test_a_target_that_names_no_path_is_refused_in_words(line, before):
    async with serving(Quick) as (app, _, port):
        reader, writer = await connected(port)
        for _ in range(before):
            writer.write(GET + b"\r\n")
            await reader.readuntil(b"ok")
        writer.write(line + b"\r\nhost: h\r\n\r\n")
        async with asyncio.timeout(SECONDS):
            status, error = problem(await reader.read())
        writer.close()
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert len(app.scopes) == before


@pytest.mark.parametrize(
    "coding",
    [
        b"transfer-encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: deflate,chunked\r\n",
    ],
)
async def test_a_body_in_a_coding_that_is_not_known_is_refused(coding):
    async with serving(Quick) as (app, _, port):
        status, error = problem(await say(port, b"POST / HTTP/1.1\r\n" + coding + b"\r\n0\r\n\r\n"))
    assert (status, error["type"]) == (501, "invalid_request_error")
    assert "chunked" in error["message"]
    assert app.scopes == []


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked", b" chunked "])
async def test_chunks_are_known_however_they_are_spelled(coding):
    async with serving() as (app, _, port):
        head = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: %b\r\n" % coding
        await say(port, head + LAST + b"3\r\nabc\r\n0\r\n\r\n")
    assert app.bodies == [b"abc"]


async def test_a_piece_of_a_body_is_copied_once_however_many_there_are():
    async with serving(app=Held()) as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"1\r\na\r\n" * 2)
        await until(lambda: protocols.made and (cycle := protocols.made[0].cycle) and len(cycle.body) == 2)
        gathered = protocols.made[0].cycle.body
        writer.write(b"1\r\na\r\n" * 998 + b"0\r\n\r\n")
        await until(lambda: not protocols.made[0].cycle.more_body)
        assert protocols.made[0].cycle.body is gathered
        app.may.set()
        await reader.readuntil(b"ok")
        writer.close()
    assert app.bodies == [b"a" * 1000]


async def test_a_body_that_breaks_the_rules_ends_its_request_alone():
    async with serving(Quick) as (app, _, port):
        begin = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"
        reader, writer = await connected(port)
        writer.write(begin)
        await app.began.wait()
        writer.write(b"zz\r\n")
        assert problem(await reader.read())[0] == 400
        await app.left.wait()
        writer.close()


class Paused(App):
    """Begins an answer with a length, and ends it when it may."""

    def __init__(self):
        super().__init__()
        self.may = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        self.began.set()
        await self.may.wait()
        await send({"type": "http.response.body", "body": b"ended"})


JUNK = b"\0\0\0 junk\r\n\r\n"


@pytest.mark.parametrize("behind", [JUNK, GET + b"\r\n" + JUNK, b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000])
async def test_what_cannot_be_read_behind_requests_leaves_their_answers_whole(behind):
    async with serving(app=Paused()) as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(GET + b"\r\n")
        await reader.readuntil(b"begun")
        writer.write(behind)
        await until(lambda: protocols.made[0].refused)
        app.may.set()
        rest = await reader.read()
        writer.close()
    assert rest.startswith(b"ended")
    assert rest.count(b"begunended") == rest.count(b"HTTP/1.1") == behind.count(JUNK) * behind.count(GET)


async def test_what_cannot_be_read_behind_a_request_is_not_told_in_its_place():
    async with serving(app=Held()) as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(POST % 3 + b"abc" + JUNK)
        await until(lambda: protocols.made and protocols.made[0].refused)
        app.may.set()
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1
    assert app.bodies == [b"abc"]


async def test_a_body_that_breaks_the_rules_after_its_answer_began_ends_the_connection():
    async with serving() as (app, _, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(b"POST /wait HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        begun = await reader.readuntil(b"begun")
        writer.write(b"zz\r\n")
        rest = await reader.read()
        await app.left.wait()
        writer.close()
    assert begun.count(b"HTTP/1.1") == 1
    assert b"HTTP/1.1" not in rest


async def test_requests_behind_each_other_are_answered_in_order():
    async with serving() as (app, _, port):
        post = b"POST /%d HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabc"
        answer = await say(port, post % 1 + post % 2 + GET + LAST)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert [scope["path"] for scope in app.scopes] == ["/1", "/2", "/x"]
    assert app.bodies == [b"abc", b"abc", b""]


WAIT = b"GET /wait HTTP/1.1\r\nhost: h\r\n\r\n"
POST = b"POST /b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n"


@pytest.mark.parametrize(
    "behind",
    [GET + b"\r\n", (GET + b"\r\n") * 300, POST % 9 + b"abc", POST % 900_000 + b"a" * 300_000, b"GET / HT"],
    ids=["one", "many", "half", "large", "head"],
)
@pytest.mark.parametrize("how", ["abort", "close", "half-close"])
async def test_a_client_that_sent_more_behind_its_request_is_seen_leaving(behind, how):
    async with serving() as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(WAIT)
        await reader.readuntil(b"begun")
        writer.write(behind)
        await writer.drain()
        if how == "abort":
            writer.transport.abort()
        elif how == "close":
            writer.close()
        else:
            writer.write_eof()
        await app.left.wait()
        writer.close()
    assert [scope["path"] for scope in app.scopes] == ["/wait"]
    assert not protocols.made[0].pipeline


class Held(App):
    """Answers when it may."""

    def __init__(self):
        super().__init__()
        self.may = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await self.may.wait()
        await super().__call__(scope, receive, send)


async def test_of_what_is_sent_behind_a_request_so_much_is_read_and_the_rest_thrown_away():
    large = POST % (2 * AHEAD_LIMIT) + b"a" * (2 * AHEAD_LIMIT)
    async with serving(app=Held()) as (app, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(GET + b"\r\n" + POST % 3 + b"abc" + large + GET + b"\r\n")
        await until(lambda: protocols.made and protocols.made[0].refused)
        app.may.set()
        answers = await reader.read()
        writer.close()
    assert answers.count(b"HTTP/1.1 200") == 2
    assert app.bodies == [b"", b"abc"]


async def test_each_request_may_have_so_much_behind_it():
    body = b"a" * (AHEAD_LIMIT * 3 // 4)
    async with serving(app=Held()) as (app, _, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        app.may.set()
        for _ in range(3):
            writer.write((POST % len(body) + body) * 2)
            for _ in range(2):
                await reader.readuntil(b"ok")
        writer.close()
    assert app.bodies == [body] * 6


class Curt(LimitedProtocol):
    linger_seconds = 0.0


class Early(App):
    """Answers before it has read anything."""

    async def __call__(self, scope, receive, send):
        await send(OK)
        await send({"type": "http.response.body", "body": b"no"})


@pytest.mark.parametrize(
    "head", [b"POST /x HTTP/1.0\r\n", b"POST /x HTTP/1.1\r\nhost: h\r\nconnection: close\r\n"]
)
async def test_a_body_is_read_to_its_end_before_the_connection_is_closed(head):
    async with serving(Curt, Early()) as (_, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(head + b"content-length: 1000000\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nno")
        for _ in range(10):
            writer.write(b"a" * 99_999)
            await writer.drain()
            await asyncio.sleep(0)
        assert not protocols.made[0].transport.is_closing()
        writer.write(b"a" * 10)
        await until(protocols.made[0].transport.is_closing)
        writer.close()


async def test_a_last_answer_is_not_lost_by_what_comes_behind_it():
    async with serving(app=Held()) as (app, protocols, port), asyncio.timeout(SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall((GET + b"\r\n") * 2 + JUNK)
            await until(lambda: protocols.made and protocols.made[0].refused)
            app.may.set()
            await until(lambda: protocols.made[0].cycle.response_complete)
            for _ in range(2):
                client.sendall(JUNK)
                await asyncio.sleep(0)
            answers = await asyncio.to_thread(client.makefile("rb").read)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.endswith(b"ok")


async def test_a_body_that_breaks_the_rules_behind_its_answer_is_not_answered_again():
    async with serving(Quick, Early()) as (_, _, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        answer = await reader.readuntil(b"no")
        writer.write(b"zz\r\n")
        assert await reader.read() == b""
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200")


class Streaming(App):
    """Answers in two parts."""

    def __init__(self, headers):
        super().__init__()
        self.headers = headers

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"6")]], ids=["stream", "length"])
@pytest.mark.parametrize(("method", "told"), [(b"GET", b"onetwo"), (b"HEAD", b"")])
async def test_an_old_client_gets_the_body_as_it_is(headers, method, told):
    async with serving(app=Streaming(headers)) as (_, _, port):
        head, _, body = (await say(port, method + b" / HTTP/1.0\r\n\r\n")).partition(b"\r\n\r\n")
    assert (b"ontent-length: 6" in head.replace(b"C", b"c")) == bool(headers)
    assert b"transfer-encoding" not in head
    assert body == told


class Flood(App):
    """Writes more than the kernel takes, and ends or does not."""

    def __init__(self, *, ends=True):
        super().__init__()
        self.ends = ends

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 2**24, "more_body": not self.ends})
        self.began.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


class Unread(LimitedProtocol):
    unread_seconds = 0.2


async def test_what_a_client_does_not_read_is_not_kept_for_ever():
    async with serving(Unread, Flood()) as (app, protocols, port), asyncio.timeout(SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET + b"\r\n")
            await app.left.wait()
            while protocols.made[0].parser is not None:  # noqa: ASYNC110 - uvicorn drops it with the connection
                await asyncio.sleep(0)
    assert protocols.made[0].transport.get_write_buffer_size() == 0


async def test_a_client_that_sends_no_more_and_reads_nothing_has_left():
    async with serving(app=Flood(ends=False)) as (app, protocols, port), asyncio.timeout(SECONDS):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(GET + b"\r\n")
            await app.began.wait()
            assert not app.left.is_set()
            client.shutdown(socket.SHUT_WR)
            await app.left.wait()
            assert protocols.made[0].parser is not None


@pytest.mark.parametrize("last", [b"\r\n", LAST], ids=["goes-on", "closes"])
async def test_a_client_that_reads_slowly_gets_all_of_its_answer(last):
    async with serving(Unread, Flood()) as (_, protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(GET + last)
        got = 0
        while got < 2**24:
            got += len(await reader.read(2**20))
            await asyncio.sleep(Unread.unread_seconds / 40)  # that it is slow is the subject
        writer.close()
    assert protocols.made[0]._stall._timer is None or protocols.made[0]._stall._timer.cancelled()


async def test_trailers_are_no_headers():
    async with serving() as (app, _, port):
        chunked = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n" + LAST
        await say(port, chunked + b"3\r\nabc\r\n0\r\nx-specroute-tenant: forged\r\n\r\n")
    assert app.bodies == [b"abc"]
    assert all(name != b"x-specroute-tenant" for name, _ in app.scopes[0]["headers"])


FRAMED = [
    (b"content-length: 3\r\n", b"abc"),
    (b"transfer-encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    (b"", b""),
]


@pytest.mark.parametrize("cut", [0, 2, 100])
async def test_an_offer_to_speak_another_protocol_is_passed_over(cut):
    async with serving() as (app, _, port):
        offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQA\r\n"
        reader, writer = await connected(port)
        for framing, body in FRAMED:
            writer.write(b"POST / HTTP/1.1\r\nhost: h\r\n" + offer + framing + b"\r\n" + body[:cut])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(body[cut:])
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert app.bodies == [b"abc", b"abc", b""]


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", GET, b"\r\n\r\n"], ids=["nothing", "line", "headers", "blank"]
)
async def test_a_head_that_does_not_end_is_not_waited_for(begun):
    async with serving(Quick) as (app, _, port):
        assert await say(port, begun) == b""
    assert app.scopes == []


async def test_a_second_head_that_does_not_end_is_not_waited_for():
    async with serving(Quick) as (_, _, port):
        answer = await say(port, GET + b"\r\n" + GET)
    assert answer.count(b"HTTP/1.1 200") == 1


async def test_a_request_that_is_answered_slowly_is_not_cut_off():
    async with serving(Quick) as (app, protocols, port):
        reader, writer = await connected(port)
        writer.write(b"GET /wait HTTP/1.1\r\nhost: h\r\n\r\n")
        await reader.readuntil(b"begun")
        assert protocols.made[0]._timer is None
        writer.close()
        await app.left.wait()


async def test_a_body_may_take_longer_than_a_head():
    async with serving(Quick) as (app, _, port):
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\n")
        await app.began.wait()
        await asyncio.sleep(Quick.head_seconds * 2)
        writer.write(b"abc")
        await reader.readuntil(b"ok")
        writer.close()


class Impatient(LimitedProtocol):
    body_seconds = 0.2
    linger_seconds = 0.05


@pytest.mark.parametrize(
    "framing", [b"content-length: 9\r\n\r\nabc", b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\n"]
)
async def test_a_body_that_stalls_is_not_waited_for(framing):
    async with serving(Impatient) as (app, _, port):
        status, error = problem(await say(port, b"POST / HTTP/1.1\r\nhost: h\r\n" + framing))
        await app.left.wait()
    assert (status, error["code"]) == (408, "request_timeout")
    assert app.bodies == []


async def test_a_body_that_goes_on_may_take_its_time():
    async with serving(Impatient) as (app, _, port):
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 6\r\n\r\n")
        for _ in range(6):
            await asyncio.sleep(Impatient.body_seconds / 4)
            writer.write(b"a")
        await reader.readuntil(b"ok")
        writer.close()
    assert app.bodies == [b"aaaaaa"]


class Late(App):
    """Takes a body once it may."""

    def __init__(self):
        super().__init__()
        self.may = asyncio.Event()

    async def __call__(self, scope, receive, send):
        await self.may.wait()
        await super().__call__(scope, receive, send)


class Looking(Impatient):
    looks = 0

    def _body_stalled(self):
        self.looks += 1
        super()._body_stalled()


async def test_a_body_that_we_hold_back_has_not_stalled():
    async with serving(Looking, Late()) as (app, protocols, port):
        reader, writer = await connected(port)
        writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n" + b"a" * 80_000)
        await until(lambda: protocols.made and protocols.made[0].looks == 2)
        app.may.set()
        writer.write(b"a" * 20_000)
        await reader.readuntil(b"ok")
        writer.close()
    assert not app.left.is_set()
    assert app.bodies == [b"a" * 100_000]


class Refusing(App):
    """Answers a large body before it was read, as soon as more of it is here than is read ahead."""

    def __init__(self):
        super().__init__()
        self.protocols = None

    async def __call__(self, scope, receive, send):
        if scope["path"] == "/large":
            await until(lambda: len(self.protocols.made[-1].cycle.body) > HIGH_WATER_LIMIT)
            await send(OK)
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await super().__call__(scope, receive, send)


@pytest.mark.parametrize("size", [200_000, 5_000_000])
async def test_a_body_that_was_answered_unread_does_not_hold_up_what_comes_next(size):
    app = Refusing()
    async with serving(app=app) as (_, app.protocols, port), asyncio.timeout(SECONDS):
        reader, writer = await connected(port)
        writer.write(b"POST /large HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % size)
        writer.write(b"a" * size)
        await reader.readuntil(b"no")
        writer.write(POST % 3 + b"abc")
        await reader.readuntil(b"ok")
        writer.close()
    assert app.bodies == [b"abc"]


async def test_small_answers_are_not_held_back_by_the_kernel():
    async with serving() as (_, protocols, port):
        await say(port, GET + LAST)
        reader, writer = await connected(port)
        writer.write(GET + b"\r\n")
        await reader.readuntil(b"ok")
        accepted = protocols.made[-1].transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


async def test_of_requests_at_many_connections_all_are_answered():
    async with serving() as (app, _, port), asyncio.timeout(SECONDS):
        answers = await asyncio.gather(*(say(port, GET + LAST) for _ in range(50)))
    assert all(answer.endswith(b"ok") for answer in answers)
    assert len(app.scopes) == 50


def test_the_gateway_listens_with_these_limits(tmp_path):
    settings = Settings(fleet=tmp_path / "fleet.yaml", policy=tmp_path / "policy.yaml")
    config = running._config(None, settings)
    assert config.http is LimitedProtocol
