"""The last answer of a connection reaches its client whole, also one that still sends or knows no chunks."""

import asyncio
import json
import socket

import pytest

from tests.e2e.circles import EVENTS, KINDS, MODELS
from tests.e2e.front import WAYS, gateway
from tests.raw_server import serving

LIMIT = 100_000
SIZE = 16 * 2**20
NOBODY = [{"name": "a", "url": "http://127.0.0.1:1", "model": "m"}]


async def said(url, data):
    """All that comes for a client that reads nothing before it has sent this."""
    host, port = url.removeprefix("http://").split(":")
    loop, got = asyncio.get_running_loop(), b""
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, (host, int(port)))
        await loop.sock_sendall(client, data)
        while part := await loop.sock_recv(client, 2**16):
            got += part
    return got


@WAYS
@pytest.mark.parametrize(
    "head", [b"HTTP/1.1\r\nhost: g\r\nconnection: close\r\n", b"HTTP/1.0\r\n"], ids=["close", "old"]
)
@pytest.mark.parametrize(
    ("path", "status"), [(b"/v1/chat/completions", 413), (b"/-/policy/check", 413), (b"/healthz", 405)]
)
async def test_a_refusal_reaches_who_sends_a_large_body_before_reading(tmp_path, way, head, path, status):
    async with asyncio.timeout(60), gateway(tmp_path, NOBODY, body_limit=LIMIT, **way) as url:
        begin = b"POST %b %bcontent-length: %d\r\n\r\n" % (path, head, SIZE)
        answer = await said(url, begin + b"x" * SIZE)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1") == 1
    json.loads(answer.partition(b"\r\n\r\n")[2])


@WAYS
async def test_a_stream_comes_to_an_old_client_as_it_is(tmp_path, way):
    stream, asking, _ = KINDS["stream"]

    async def script(_, writer):
        writer.write(stream if server.requests.pop()[0].startswith(b"POST") else MODELS)
        return True

    async with asyncio.timeout(30), serving(script) as (server, backend):
        fleet = [{"name": "a", "url": backend, "model": "m"}]
        async with gateway(tmp_path, fleet, **way) as url:
            head, _, body = (await said(url, asking.replace(b"HTTP/1.1", b"HTTP/1.0"))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head
    assert b"\r\nconnection: close" in head
    assert body == EVENTS
