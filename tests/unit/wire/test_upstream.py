"""One contract for every implementation of the seam to backends, over real sockets."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.wire import portable
from gateway.wire.lean import pool
from gateway.wire.lean.pool import LeanUpstream
from gateway.wire.portable import HttpxUpstream
from gateway.wire.upstream import UpstreamError, UpstreamRequest
from tests.raw_server import full_listener, gone, only_first, reset, saying, serving

CERTIFICATE = Path(__file__).parents[2] / "fixtures/tls/localhost.pem"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
MEGABYTE = 2**20

KINDS = {"lean": LeanUpstream, "httpx": HttpxUpstream}

pytestmark = pytest.mark.filterwarnings(
    "ignore:Sending a large body directly with raw bytes:ResourceWarning"  # aiohttp's, of bodies that are bytes
)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
async def upstream(kind):
    made = KINDS[kind]()
    yield made
    await made.close()


def post(url, body=b"{}", headers=()):
    return UpstreamRequest(
        "POST", url + "/v1/x?q=%20", [(b"content-type", b"application/json"), *headers], body
    )


def get(url, method="GET"):
    return UpstreamRequest(method, url + "/", [], b"")


async def read(response):
    return b"".join([chunk async for chunk in response.body()])


async def ask(upstream, request):
    """Status and body of a whole exchange."""
    response = await upstream.send(request, 1.0)
    try:
        return response.status, await read(response)
    finally:
        await response.close()


async def failure(awaitable):
    with pytest.raises(UpstreamError) as raised:
        await awaitable
    return raised.value.phase, raised.value.error


def spawn(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


async def settled(count):
    """Wait until ``count()`` stands still over many turns of the loop."""
    still, last = 0, None
    while still < 200:
        await asyncio.sleep(0)
        still, last = (still + 1, last) if count() == last else (0, count())
    return last


# The request.


async def test_request_and_answer_pass_as_they_are_and_the_connection_is_used_again(upstream):
    async with serving(saying(OK)) as (server, url):
        for _ in range(3):
            response = await upstream.send(post(url), 1.0)
            assert response.status == 200
            assert (b"content-type", b"text/plain") in response.headers
            assert await read(response) == b"hello"
            await response.close()
        assert server.connections == 1
        head, body = server.requests[0]
        lines = head.split(b"\r\n")
        assert lines[0] == b"POST /v1/x?q=%20 HTTP/1.1"
        assert body == b"{}"
        names = {line.split(b":")[0].lower() for line in lines[1:] if line}
        assert names == {b"host", b"content-type", b"content-length"}
        assert f"host: {url.removeprefix('http://')}".encode() in head.lower()


@pytest.mark.parametrize(
    ("method", "told"), [("GET", False), ("HEAD", False), ("OPTIONS", False), ("POST", True), ("PUT", True)]
)
async def test_the_length_of_an_empty_body_is_told_where_a_body_is_due(upstream, method, told):
    async with serving(saying(EMPTY)) as (server, url):
        assert await ask(upstream, get(url, method)) == (200, b"")
        head, _ = server.requests[0]
        assert head.startswith(method.encode() + b" / HTTP/1.1\r\n")
        assert (b"content-length: 0" in head.lower()) is told


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("/a b", b"/a%20b"),
        ("/\u1ea1", b"/%E1%BA%A1"),
        ("/a?x=%2F&y=:/@", b"/a?x=%2F&y=:/@"),
        ("/a#b", b"/a"),
        ("", b"/"),
        *(
            (target, target.encode())
            for target in (
                "/v1/x%2fy%20z?q=a+b%20c%27[1]&k=%ff",
                "//x/../y/./z",
                "/x?a=1&&b",
                "/x;p=1?a={b}|c",
                "/%7Euser/%41",
                "/x?url=http://a/b?c=d",
                "/a%00b",
                '/x?a="b"<c>',
                "/x:y@z",
            )
        ),
    ],
)
async def test_a_target_goes_out_as_http_allows_it(upstream, target, sent):
    async with serving(saying(EMPTY)) as (server, url):
        await ask(upstream, UpstreamRequest("GET", url + target, [], b""))
        assert server.requests[0][0].split(b" ")[1] == sent


@pytest.mark.parametrize("value", [b"a\r\nevil: 1", b"a\nevil: 1", b"a\rb", b"a\0b"])
async def test_a_header_that_would_become_two_is_refused(upstream, value):
    async with serving(saying(OK)) as (server, url):
        with pytest.raises(ValueError, match=r"."):
            await upstream.send(post(url, headers=[(b"x", value)]), 1.0)
        assert server.requests == []


async def test_a_large_body_reaches_a_slow_server_whole(upstream):
    body = bytes(range(256)) * 4 * 2**13
    slow = asyncio.Event()
    came = []

    async def script(reader, writer):
        await slow.wait()
        came.append(await reader.readexactly(len(body)))
        writer.write(OK)
        return True

    async with serving(script, unread=True) as (_, url):
        sending = spawn(upstream.send(post(url, body), 1.0))
        await asyncio.sleep(0)
        slow.set()
        response = await sending
        assert came == [body]
        assert await read(response) == b"hello"
        await response.close()


@pytest.mark.parametrize("last", [gone, None], ids=["and waits", "and closes"])
async def test_an_answer_before_the_body_was_taken_is_an_answer(upstream, last):
    async def script(reader, writer):
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        return last is not None and await last(reader)

    async with serving(script, unread=True) as (server, url):
        for _ in range(2):
            assert await ask(upstream, post(url, bytes(32 * MEGABYTE))) == (413, b"big")
        assert server.connections == 2


async def test_the_answer_of_a_server_that_closes_before_it_read_the_body_is_not_lost(upstream):
    """The server has a thread of its own: its reset must be able to overtake what we do."""

    def refuse(listener):
        for _ in range(20):
            peer, _ = listener.accept()
            with peer:
                peer.recv(2**16)
                peer.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = spawn(asyncio.to_thread(refuse, listener))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            for _ in range(20):
                assert await ask(upstream, post(url, bytes(3 * MEGABYTE))) == (413, b"big")
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # which also wakes the thread
            with suppress(OSError):
                await refusing


# The answer.


async def test_chunks_arrive_as_they_are_sent(upstream):
    gate = asyncio.Event()

    async def script(_, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await gate.wait()
        writer.write(b"2\r\nde\r\n0\r\n\r\n")
        return True

    async with serving(script) as (_, url):
        response = await upstream.send(post(url), 1.0)
        body = response.body()
        assert await anext(body) == b"abc"
        gate.set()
        assert await anext(body) == b"de"
        with pytest.raises(StopAsyncIteration):
            await anext(body)
        await response.close()


async def test_a_compressed_body_stays_compressed(upstream):
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\x01"
    async with serving(saying(answer)) as (_, url):
        assert await ask(upstream, post(url)) == (200, b"\x1f\x8b\x00\x01")


async def test_redirects_and_cookies_are_the_clients_business(upstream):
    answer = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(answer)) as (server, url):
        for _ in range(2):
            assert await ask(upstream, post(url)) == (302, b"")
        assert all(b"cookie" not in head.lower() for head, _ in server.requests)


async def test_header_names_come_in_lower_case_and_values_without_the_space_around_them(upstream):
    answer = b"HTTP/1.1 200 OK\r\nX-A:  b c \t\r\nX-a: d\r\nx-EMPTY:\r\nContent-Length: 0\r\n\r\n"
    async with serving(saying(answer)) as (_, url):
        response = await upstream.send(post(url), 1.0)
        assert response.headers[:3] == [(b"x-a", b"b c"), (b"x-a", b"d"), (b"x-empty", b"")]
        await response.close()


@pytest.mark.parametrize(
    "header",
    [b"x-big: " + b"a" * 20_000 + b"\r\n", b"".join(b"x-%d: a\r\n" % at for at in range(300))],
    ids=["long", "many"],
)
async def test_a_head_may_be_long(upstream, header):
    answer = OK.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n")
    async with serving(saying(answer)) as (_, url):
        assert await ask(upstream, post(url)) == (200, b"hello")


@pytest.mark.parametrize(
    ("method", "answer", "status"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304),
    ],
    ids=["head", "head-chunked", "204", "304"],
)
async def test_an_answer_without_a_body_ends_with_its_head(upstream, method, answer, status):
    async with serving(saying(answer)) as (server, url):
        for _ in range(2):
            assert await ask(upstream, get(url, method)) == (status, b"")
        assert server.connections == 1


@pytest.mark.parametrize(
    "interim",
    [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3],
    ids=["100", "103"],
)
async def test_interim_answers_are_passed_over(upstream, interim):
    async with serving(saying(interim + OK)) as (server, url):
        for _ in range(2):
            response = await upstream.send(post(url), 1.0)
            assert response.status == 200
            assert b"link" not in dict(response.headers)
            assert await read(response) == b"hello"
            await response.close()
        assert server.connections == 1


async def test_trailers_and_chunk_extensions_are_passed_over(upstream):
    answer = CHUNKED + b'3;a=b;c="d"\r\nabc\r\n00002\r\nde\r\n0;last\r\nX-Trailer: 1\r\nX-More: 2\r\n\r\n'
    async with serving(saying(answer)) as (server, url):
        for _ in range(2):
            response = await upstream.send(post(url), 1.0)
            assert await read(response) == b"abcde"
            assert [name for name, _ in response.headers] == [b"transfer-encoding"]
            await response.close()
        assert server.connections == 1


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"],
    ids=["1.0", "1.1", "close"],
)
async def test_a_body_without_a_length_ends_with_the_connection(upstream, head):
    async def script(_, writer):
        writer.write(head + b"hello")
        return False

    async with serving(script) as (server, url):
        for _ in range(2):
            assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 2


async def test_http_1_0_may_keep_the_connection(upstream):
    answer = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"
    async with serving(saying(answer)) as (server, url):
        for _ in range(2):
            assert await ask(upstream, post(url)) == (200, b"ok")
        assert server.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        OK + b"evil",
    ],
    ids=["close", "1.0", "second answer", "more bytes"],
)
async def test_a_connection_that_should_not_be_used_again_is_closed(upstream, kind, answer):
    if kind == "httpx" and answer.endswith(b"helloevil"):
        pytest.skip("aiohttp takes the whole answer for bad if what follows it in the same bytes is no HTTP")
    async with serving(saying(answer, OK)) as (server, url):
        for _ in range(2):
            assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 2


# Faults.


async def test_nobody_listens(upstream):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert await failure(upstream.send(get(url), 1.0)) == ("connect", "connect")


async def test_a_server_that_does_not_accept_runs_into_the_connect_limit(upstream):
    async with full_listener() as url:
        assert await failure(upstream.send(get(url), 0.05)) == ("connect", "timeout:connect")


@pytest.mark.parametrize("abort", [False, True], ids=["closes", "resets"])
async def test_a_server_that_hangs_up_before_the_status_line_is_asked_once(upstream, abort):
    async def script(_, writer):
        if abort:
            reset(writer)
        return False

    async with serving(script) as (server, url):
        assert await failure(upstream.send(post(url), 1.0)) == ("sent", "reset")
        assert server.connections == 1


async def test_a_server_that_closes_only_its_side_before_the_status_line(upstream):
    async def script(reader, writer):
        writer.write_eof()
        await gone(reader)

    async with serving(script) as (server, url):
        assert await failure(upstream.send(post(url), 1.0)) == ("sent", "reset")
        await server.closed.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
        b"HTTP/1.1 099 Nothing\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**17 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 2**15 + b"\r\n",
    ],
    ids=[
        "no http",
        "two lengths",
        "negative length",
        "length and chunked",
        "101",
        "status of no class",
        "unknown coding",
        "unknown coding apart",
        "long header",
        "many headers",
    ],
)
async def test_an_answer_that_cannot_be_trusted(upstream, answer):
    async def script(reader, writer):
        writer.write(answer)
        await gone(reader)

    async with serving(script) as (server, url):
        assert await failure(upstream.send(post(url), 1.0)) == ("sent", "protocol")
        await server.closed.wait()


@pytest.mark.parametrize(
    "rest",
    [b"zz\r\nabc\r\n", b"3\r\nabcd\r\n", b"3\r\nabc\r\n-1\r\n", b"fffffffffffffffff\r\n"],
    ids=["no number", "too long", "negative", "huge"],
)
async def test_chunks_that_cannot_be_trusted(upstream, kind, rest):
    if kind == "httpx":
        pytest.skip(
            "aiohttp notices a bad chunk only when the connection ends: a time limit must end the wait"
        )

    async def script(reader, writer):
        writer.write(CHUNKED + b"2\r\nok\r\n")
        await read_on.wait()
        writer.write(rest)
        await gone(reader)

    read_on = asyncio.Event()
    async with serving(script) as (server, url):
        response = await upstream.send(post(url), 1.0)
        assert await anext(response.body()) == b"ok"
        read_on.set()
        assert await failure(read(response)) == ("headers", "protocol")
        await response.close()
        await server.closed.wait()


@pytest.mark.parametrize("abort", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
    ids=["length", "chunked"],
)
async def test_a_body_that_is_cut_off_gives_its_beginning_and_a_reset(upstream, head, abort):
    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        await cut.wait()
        if abort:
            reset(writer)
        return False

    cut = asyncio.Event()
    async with serving(script) as (_, url):
        response = await upstream.send(post(url), 1.0)
        assert await anext(response.body()) == b"abc"
        cut.set()
        assert await failure(read(response)) == ("headers", "reset")
        await response.close()


ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\n", b"hello"),
    "chunked": (CHUNKED, b"2;x\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n"),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"hello"),
}


@pytest.mark.parametrize(("head", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_cut_off_at_any_byte_is_never_taken_for_whole(upstream, head, body):
    answer = head + body
    offset = 0

    async def script(_, writer):
        writer.write(answer[:offset])
        return False

    async with serving(script) as (_, url):
        for offset in range(len(answer)):
            expected = ("sent" if offset < len(head) else "headers", "reset")
            assert await failure(ask(upstream, post(url))) == expected


@pytest.mark.parametrize(("head", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_in_two_pieces_is_the_same_wherever_it_is_split(upstream, head, body):
    answer = head + body
    offset = 0

    async def script(_, writer):
        writer.write(answer[:offset])
        for _ in range(8):
            await asyncio.sleep(0)  # let the first piece be read alone
        writer.write(answer[offset:])
        return True

    async with serving(script) as (server, url):
        for offset in range(len(answer)):  # noqa: B007 - the script reads it
            assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 1


# Connections that are kept.


@pytest.fixture
def unhurried(monkeypatch):
    """However slow this machine is, an end that comes at once has crossed the request."""
    monkeypatch.setattr(pool, "RACE_SECONDS", 3600.0)


@pytest.mark.usefixtures("unhurried")
async def test_a_connection_closed_in_the_moment_of_use_is_replaced(upstream, kind):
    """Nothing was received on it, so the backend closed it before it saw the request."""

    async def script(_, writer):
        if len(server.requests) == 2:
            return False
        writer.write(OK)
        return True

    async with serving(script) as (server, url):
        assert await ask(upstream, get(url)) == (200, b"hello")
        if kind == "httpx":  # aiohttp does so for GET and its like only
            assert await ask(upstream, get(url)) == (200, b"hello")
        else:
            assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 2
        assert server.requests[1] == server.requests[2]


@pytest.mark.usefixtures("unhurried")
async def test_a_replaced_connection_is_not_replaced_again(upstream):
    async with serving(only_first(OK)) as (server, url):
        assert await ask(upstream, get(url)) == (200, b"hello")
        assert await failure(upstream.send(get(url), 1.0)) == ("sent", "reset")
        assert server.connections == 2


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
@pytest.mark.usefixtures("unhurried")
async def test_no_connection_is_replaced_for_what_may_not_be_repeated(upstream, method):
    async with serving(only_first(OK)) as (server, url):
        assert await ask(upstream, get(url)) == (200, b"hello")
        once = UpstreamRequest(method, url + "/", [], b"", repeatable=False)
        assert await failure(upstream.send(once, 1.0)) == ("sent", "reset")
        assert len(server.requests) == 2


async def test_a_connection_that_breaks_within_the_status_line_is_not_replaced(upstream):
    async def script(_, writer):
        writer.write(OK if len(server.requests) == 1 else b"HTTP/1.1 20")
        return len(server.requests) == 1

    async with serving(script) as (server, url):
        assert await ask(upstream, post(url)) == (200, b"hello")
        assert await failure(upstream.send(post(url), 1.0)) == ("sent", "reset")
        assert server.connections == 1


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half"])
async def test_a_connection_closed_after_an_answer_is_not_used_again(upstream, half):
    async def script(reader, writer):
        writer.write(OK)
        if half:
            writer.write_eof()
            await gone(reader)
        return False

    async with serving(script) as (server, url):
        for _ in range(2):
            response = await upstream.send(post(url), 1.0)
            assert await read(response) == b"hello"
            await settled(lambda: 0)
            await response.close()
        assert server.connections == 2


async def test_what_a_server_says_unasked_is_never_taken_for_an_answer(upstream, kind):
    if kind == "httpx":
        pytest.skip("aiohttp takes it for the answer to the next request")

    async def script(reader, writer):
        writer.write(OK)
        if server.connections == 1:
            await speak.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            spoken.set()
            await gone(reader)
        return True

    speak, spoken = asyncio.Event(), asyncio.Event()
    async with serving(script) as (server, url):
        assert await ask(upstream, post(url)) == (200, b"hello")
        speak.set()
        await spoken.wait()
        await settled(lambda: 0)
        assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 2


async def test_an_idle_connection_is_closed_after_its_time(kind):
    upstream = KINDS[kind](keepalive=0.01)
    async with serving(saying(OK)) as (server, url):
        assert await ask(upstream, post(url)) == (200, b"hello")
        await server.closed.wait()
        assert await ask(upstream, post(url)) == (200, b"hello")
        assert server.connections == 2
    await upstream.close()


async def test_many_at_once_have_a_connection_each_and_share_them_afterwards(upstream):
    async def script(_, writer):
        if len(server.requests) == 20:
            go.set()
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(server.requests[0][1]), b"a"))
        return True

    go = asyncio.Event()
    async with serving(script) as (server, url):
        answers = await asyncio.gather(*(ask(upstream, post(url, b"1")) for _ in range(20)))
        assert answers == [(200, b"a")] * 20
        assert server.connections == 20
        for _ in range(5):
            await ask(upstream, post(url, b"1"))
        assert server.connections == 20


# Leaving.


async def test_closing_an_unfinished_answer_closes_the_connection(upstream):
    async def script(reader, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await gone(reader)

    async with serving(script) as (server, url):
        response = await upstream.send(post(url), 1.0)
        await anext(response.body())
        await response.close()
        await response.close()
        await server.closed.wait()


async def test_cancelled_while_connecting(upstream):
    async with full_listener() as url:
        sending = spawn(upstream.send(get(url), 60.0))
        await settled(lambda: 0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_cancelled_at_any_turn_of_connecting(kind, server_tls, scheme, host):
    """Whatever had come to stand by then, it is closed, and so is the pool."""

    async def script(reader, _):
        asked.set()
        await gone(reader)

    asked = asyncio.Event()
    upstream = KINDS[kind](tls=ssl.create_default_context(cafile=CERTIFICATE))
    async with serving(script, tls=server_tls if scheme == "https" else None) as (server, url):
        request = get(f"{scheme}://{host}:{url.rsplit(':', 1)[1]}")
        turns = 0
        while not asked.is_set():
            sending = spawn(upstream.send(request, 60.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            turns += 1 + turns // 20
        await settled(lambda: server.connections)
        await asyncio.gather(*server._handlers)
        async with asyncio.timeout(30.0):
            await upstream.close()


async def test_cancelled_while_sending(upstream):
    async def script(reader, _):
        reading.set()
        await go_on.wait()
        await gone(reader)

    reading, go_on = asyncio.Event(), asyncio.Event()
    async with serving(script, unread=True) as (server, url):
        sending = spawn(upstream.send(post(url, bytes(64 * MEGABYTE)), 1.0))
        await reading.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        go_on.set()
        await server.closed.wait()


async def test_cancelled_while_waiting_for_the_status_line(upstream):
    async def script(reader, _):
        arrived.set()
        await gone(reader)

    arrived = asyncio.Event()
    async with serving(script) as (server, url):
        sending = spawn(upstream.send(post(url), 1.0))
        await arrived.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.closed.wait()


@pytest.mark.parametrize("piped", [False, True], ids=["body", "pipe"])
async def test_cancelled_while_reading(upstream, piped):
    async def script(reader, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await gone(reader)

    async def consume():
        response = await upstream.send(post(url), 1.0)
        try:
            if piped:
                await response.pipe(lambda _: came.set())
            else:
                async for _ in response.body():
                    came.set()
        finally:
            await response.close()

    came = asyncio.Event()
    async with serving(script) as (server, url):
        consuming = spawn(consume())
        await came.wait()
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        await server.closed.wait()


async def test_closing_the_pool_closes_every_connection(kind):
    async def script(reader, writer):
        if len(server.requests) == 1:
            writer.write(OK)
            return True
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        return await gone(reader)

    upstream = KINDS[kind]()
    async with serving(script) as (server, url):
        assert await ask(upstream, post(url)) == (200, b"hello")
        response = await upstream.send(post(url), 1.0)
        assert await anext(response.body()) == b"abc"
        await upstream.close()
        await server.closed.wait()
        assert await failure(read(response)) == ("headers", "reset")
        await response.close()


async def test_closing_the_pool_does_not_wait_for_a_server_that_takes_nothing(kind, monkeypatch):
    async def script(*_):
        reading.set()
        await asyncio.Event().wait()

    monkeypatch.setattr({"lean": pool, "httpx": portable}[kind], "CLOSE_SECONDS", 0.05)
    reading = asyncio.Event()
    upstream = KINDS[kind]()
    async with serving(script, unread=True) as (_, url):
        sending = spawn(upstream.send(post(url, bytes(64 * MEGABYTE)), 1.0))
        await reading.wait()
        async with asyncio.timeout(30.0):
            await upstream.close()
        sending.cancel()
        await asyncio.wait([sending])


# Flow.


@pytest.mark.parametrize("piped", [False, True], ids=["body", "pipe"])
async def test_a_slow_reader_holds_back_the_server(upstream, piped):
    total, sent = 64 * MEGABYTE, 0

    async def script(_, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            writer.write(bytes(MEGABYTE))
            sent += MEGABYTE
            await writer.drain()
        return True

    def sink(data):
        nonlocal got
        got += len(data)
        if not held.is_set():
            response.pause()
            held.set()

    got, held = 0, asyncio.Event()
    async with serving(script) as (_, url):
        response = await upstream.send(post(url), 1.0)
        body = response.body()
        if piped:
            piping = spawn(response.pipe(sink))
            await held.wait()
        else:
            got = len(await anext(body))
        assert await settled(lambda: sent) < 24 * MEGABYTE  # the kernel's buffers and ours
        if piped:
            assert got < 2 * MEGABYTE
            response.resume()
            await piping
        else:
            async for data in body:
                got += len(data)
        assert got == total
        await response.close()


async def test_a_pipe_goes_on_where_reading_stopped_and_the_connection_is_used_again(upstream):
    async def script(_, writer):
        gate.clear()
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await gate.wait()
        writer.write(b"2\r\nde\r\n0\r\n\r\n")
        return True

    gate = asyncio.Event()
    async with serving(script) as (server, url):
        for _ in range(2):
            got = []
            response = await upstream.send(post(url), 1.0)
            assert await anext(response.body()) == b"abc"
            gate.set()
            await response.pipe(got.append)
            await response.close()
            assert b"".join(got) == b"de"
        assert server.connections == 1


async def test_a_pipe_that_breaks_tells_after_it_gave_what_there_was(upstream):
    async def script(_, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        return False

    async with serving(script) as (_, url):
        got = []
        response = await upstream.send(post(url), 1.0)
        assert await failure(response.pipe(got.append)) == ("headers", "reset")
        assert b"".join(got) == b"abc"
        await response.close()


@pytest.mark.parametrize("at", [1, 2], ids=["what is there", "what comes"])
async def test_what_a_sink_raises_is_raised_by_the_pipe(upstream, at):
    async def script(reader, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await more.wait()
        writer.write(b"2\r\nde\r\n0\r\n\r\n")
        await gone(reader)

    def sink(data):
        got.append(data)
        if len(got) == at:
            raise KeyError(data)
        more.set()

    got, more = [], asyncio.Event()
    async with serving(script) as (server, url):
        response = await upstream.send(post(url), 1.0)
        with pytest.raises(KeyError):
            await response.pipe(sink)
        assert b"".join(got) == (b"abc", b"abcde")[at - 1]
        more.set()
        await response.close()
        if at == 1:
            await server.closed.wait()


async def test_pausing_and_resuming_an_answer_that_was_closed_does_nothing(upstream):
    async with serving(saying(OK)) as (server, url):
        first = await upstream.send(post(url), 1.0)
        await read(first)
        await first.close()
        first.pause()
        assert await ask(upstream, post(url)) == (200, b"hello")
        first.resume()
        assert server.connections == 1


# Addresses and TLS.


async def test_ipv6(upstream):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    async with serving(saying(OK), host="::1") as (server, url):
        assert await ask(upstream, post(url)) == (200, b"hello")
        assert f"host: {url.removeprefix('http://')}".encode() in server.requests[0][0].lower()


@pytest.mark.parametrize("url", ["ftp://h/", "http:///x", "h:80/"])
async def test_what_is_no_address_of_a_backend_is_refused(upstream, url):
    with pytest.raises((ValueError, UpstreamError)):
        await upstream.send(UpstreamRequest("GET", url, [], b""), 1.0)


@pytest.fixture
def server_tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


@pytest.fixture
async def trusting(kind):
    made = KINDS[kind](tls=ssl.create_default_context(cafile=CERTIFICATE))
    yield made
    await made.close()


async def test_tls(trusting, server_tls):
    body = bytes(range(256)) * 4096

    async def script(_, writer):
        writer.write(CHUNKED + b"3\r\nabc\r\n")
        await gate.wait()
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        return True

    gate = asyncio.Event()
    async with serving(script, tls=server_tls) as (server, url):
        for _ in range(2):
            gate.clear()
            response = await trusting.send(post(url, body), 1.0)
            assert await anext(response.body()) == b"abc"
            gate.set()
            assert await read(response) == body
            await response.close()
        assert server.connections == 1
        assert server.requests[0][1] == body


async def test_tls_without_a_body(trusting, server_tls):
    async with serving(saying(OK), tls=server_tls) as (server, url):
        for _ in range(2):
            assert await ask(trusting, get(url)) == (200, b"hello")
        assert server.connections == 1


async def test_tls_with_a_slow_reader(trusting, server_tls):
    total, sent = 32 * MEGABYTE, 0

    async def script(_, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        while sent < total:
            writer.write(bytes(MEGABYTE))
            sent += MEGABYTE
            await writer.drain()
        return True

    async with serving(script, tls=server_tls) as (_, url):
        response = await trusting.send(post(url), 1.0)
        got = len(await anext(body := response.body()))
        assert await settled(lambda: sent) < 24 * MEGABYTE
        async for data in body:
            got += len(data)
        assert got == total
        await response.close()


async def test_a_certificate_that_nobody_vouches_for(upstream, server_tls):
    async with serving(saying(OK), tls=server_tls) as (server, url):
        assert await failure(upstream.send(post(url), 1.0)) == ("connect", "connect")
        assert server.requests == []


async def test_a_certificate_for_another_name(trusting, server_tls):
    async with serving(saying(OK), tls=server_tls, host="127.0.0.2") as (server, url):
        assert await failure(trusting.send(post(url), 1.0)) == ("connect", "connect")
        assert server.requests == []


async def test_a_server_that_does_not_speak_tls(trusting):
    async def script(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return False

    async with serving(script, silent=True) as (_, url):
        assert await failure(trusting.send(post(url.replace("http", "https")), 1.0)) == ("connect", "connect")


async def test_a_handshake_that_stalls_runs_into_the_connect_limit(trusting):
    async def script(reader, _):
        await gone(reader)

    async with serving(script, silent=True) as (server, url):
        assert await failure(trusting.send(post(url.replace("http", "https")), 0.05)) == (
            "connect",
            "timeout:connect",
        )
        await server.closed.wait()
