import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from gateway.wire.upstream import HttpxUpstream, UpstreamError, UpstreamRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


class Server:
    """A raw socket server: each connection is handed to ``script`` after its request was read."""

    def __init__(self, script):
        self._script = script
        self.requests = []
        self.connections = 0
        self.closed = asyncio.Event()

    async def __call__(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                self.requests.append((head, await reader.readexactly(length)))
                if not await self._script(reader, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
        finally:
            writer.close()


@asynccontextmanager
async def serving(script):
    server = Server(script)
    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    upstream = HttpxUpstream()
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1/x?q=%20"
    try:
        yield server, upstream, UpstreamRequest("POST", url, [(b"content-type", b"application/json")], b"{}")
    finally:
        await upstream.close()
        listener.close()
        await listener.wait_closed()


async def read(response):
    return b"".join([chunk async for chunk in response.body()])


async def test_request_and_answer_pass_as_they_are_and_the_connection_is_used_again():
    async def script(_, writer):
        writer.write(OK)
        return True

    async with serving(script) as (server, upstream, request):
        for _ in range(3):
            response = await upstream.send(request, 1.0)
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


async def test_chunks_arrive_as_they_are_sent():
    gate = asyncio.Event()

    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await gate.wait()
        writer.write(b"2\r\nde\r\n0\r\n\r\n")
        return True

    async with serving(script) as (_, upstream, request):
        response = await upstream.send(request, 1.0)
        body = response.body()
        assert await anext(body) == b"abc"
        gate.set()
        assert await anext(body) == b"de"
        await response.close()


async def test_a_compressed_body_stays_compressed():
    async def script(_, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x00\x01"
        )
        return True

    async with serving(script) as (_, upstream, request):
        response = await upstream.send(request, 1.0)
        assert await read(response) == b"\x1f\x8b\x00\x01"
        await response.close()


async def test_redirects_and_cookies_are_the_clients_business():
    async def script(_, writer):
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /y\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
        return True

    async with serving(script) as (server, upstream, request):
        for _ in range(2):
            response = await upstream.send(request, 1.0)
            assert response.status == 302
            await response.close()
        assert all(b"cookie" not in head.lower() for head, _ in server.requests)


async def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        upstream = HttpxUpstream()
        with pytest.raises(UpstreamError) as failure:
            await upstream.send(UpstreamRequest("GET", url, [], b""), 1.0)
        assert (failure.value.phase, failure.value.error) == ("connect", "connect")
        await upstream.close()


async def test_a_server_that_does_not_accept_runs_into_the_connect_limit():
    with socket.socket() as listener, socket.socket() as filler:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        filler.connect(listener.getsockname())
        upstream = HttpxUpstream()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(UpstreamError) as failure:
            await upstream.send(UpstreamRequest("GET", url, [], b""), 0.05)
        assert (failure.value.phase, failure.value.error) == ("connect", "timeout:connect")
        await upstream.close()


async def test_a_server_that_hangs_up_before_the_status_line():
    async def script(_reader, _writer):
        return False

    async with serving(script) as (_, upstream, request):
        with pytest.raises(UpstreamError) as failure:
            await upstream.send(request, 1.0)
        assert (failure.value.phase, failure.value.error) == ("sent", "reset")


async def test_a_server_that_resets_before_the_status_line():
    async def script(_, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        return False

    async with serving(script) as (_, upstream, request):
        with pytest.raises(UpstreamError) as failure:
            await upstream.send(request, 1.0)
        assert (failure.value.phase, failure.value.error) == ("sent", "reset")


async def test_a_server_that_speaks_no_http():
    async def script(_, writer):
        writer.write(b"SSH-2.0-x\r\n\r\n")
        return False

    async with serving(script) as (_, upstream, request):
        with pytest.raises(UpstreamError) as failure:
            await upstream.send(request, 1.0)
        assert failure.value.phase == "sent"


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 9\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
    ids=["length", "chunked"],
)
async def test_a_body_that_is_cut_off_is_a_reset(head):
    async def script(_, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n" + head)
        return False

    async with serving(script) as (_, upstream, request):
        response = await upstream.send(request, 1.0)
        with pytest.raises(UpstreamError) as failure:
            await read(response)
        assert failure.value.error == "reset"
        await response.close()


async def test_closing_an_unfinished_answer_closes_the_connection():
    async def script(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        return not await reader.read()

    async with serving(script) as (server, upstream, request):
        response = await upstream.send(request, 1.0)
        await anext(response.body())
        await response.close()
        await server.closed.wait()


async def test_a_send_that_is_cancelled_closes_the_connection():
    arrived = asyncio.Event()

    async def script(reader, _writer):
        arrived.set()
        return not await reader.read()

    async with serving(script) as (server, upstream, request):
        sending = asyncio.get_running_loop().create_task(upstream.send(request, 1.0))
        await arrived.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.closed.wait()
