"""Bodies that are none of the gateway's business arrive as they are, with the headers that explain them."""

import asyncio
import gzip
import hashlib
import io
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.cli.running import serving
from gateway.runtime.reload import load_files
from gateway.settings import Settings
from tests.contract.stack import listening

FLEET = """\
version: 1
backends:
  - {{name: a, url: "{0}", model: m}}
"""
POLICY = """\
version: 1
breaker: {consecutive: 1000, share: 100%}
timeouts: {keep_alive: 50ms}
routes:
  - {name: all, prefer: [any]}
"""
# aiohttp warns of bodies as large as an upload of sound; in pieces it would lose an answer that comes before the end.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
CHAT = "/v1/chat/completions"
MEGABYTE = 2**20
DOCUMENT = b'{"id":"c","choices":[{"message":{"content":"h\xc3\xa9"},"finish_reason":"stop"}]}'
EVENTS = b'data: {"id":"c","choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ERROR = b'{"error":{"message":"no","type":"invalid_request_error","param":null,"code":400}}'


class Server:
    """Answers with whatever the test says, and keeps what it was sent."""

    def __init__(self):
        self.answer = (200, [], [b""])
        self.gate = None
        self.bodies = []
        self.headers = []

    async def __call__(self, scope, receive, send):
        body, more = [], True
        while more:
            message = await receive()
            body.append(message.get("body", b""))
            more = message.get("more_body", False)
        if scope["path"] in {"/health", "/metrics", "/v1/models"}:
            listed = b'{"data":[{"id":"m"}]}' if scope["path"] == "/v1/models" else b""
            await say(send, 200, [], [listed])
            return
        self.bodies.append(b"".join(body))
        self.headers.append(dict(scope["headers"]))
        if self.gate is not None:
            await self.gate.wait()
        await say(send, *self.answer)


async def say(send, status, headers, parts):
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(params=["lean", "httpx"])
async def upstream(request):
    return request.param


@asynccontextmanager
async def gateway(folder, upstream):
    server = Server()
    async with listening(server) as backend:
        (folder / "fleet.yaml").write_text(FLEET.format(backend))
        (folder / "policy.yaml").write_text(POLICY)
        settings = Settings(
            fleet=folder / "fleet.yaml", policy=folder / "policy.yaml", port=0, upstream=upstream
        )
        loaded = load_files(settings.fleet, settings.policy, {})
        async with (
            serving(Gateway(settings, loaded), settings) as url,
            aiohttp.ClientSession(url, auto_decompress=False) as session,
        ):
            yield server, session, url


def in_parts(data, size=7):
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("encoding", ["gzip", "br"])
@pytest.mark.parametrize(
    ("path", "status", "kind", "plain"),
    [
        (CHAT, 200, "application/json", DOCUMENT),
        (CHAT, 200, "text/event-stream; charset=utf-8", EVENTS),
        (CHAT, 400, "application/json", ERROR),
        (CHAT, 503, "application/json", ERROR),
        ("/v1/audio/speech", 200, "audio/wav", bytes(range(256)) * 20),
        ("/v1/audio/speech", 422, "text/plain", b"no such voice"),
    ],
    ids=["document", "events", "refusal", "failure", "binary", "binary-refusal"],
)
async def test_a_compressed_answer_stays_compressed_and_says_so(
    tmp_path, upstream, encoding, path, status, kind, plain
):
    coded = gzip.compress(plain) if encoding == "gzip" else b"\x0b" + plain[::-1] + b"\x03"
    async with gateway(tmp_path, upstream) as (server, session, _):
        headers = [(b"content-type", kind.encode()), (b"content-encoding", encoding.encode())]
        server.answer = (status, [*headers, (b"vary", b"accept-encoding")], in_parts(coded))
        asked = {"model": "m", "messages": [], "stream": kind.startswith("text/event")}
        async with session.post(path, json=asked, headers={"accept-encoding": "gzip, br"}) as answer:
            assert answer.status == status
            assert await answer.read() == coded
            assert answer.headers["content-encoding"] == encoding
            assert answer.headers["content-type"] == kind
            assert answer.headers["vary"] == "accept-encoding"
        assert server.headers[0][b"accept-encoding"] == b"identity"


@pytest.mark.parametrize("status", [200, 400])
async def test_a_compressed_answer_is_not_put_into_a_stream_that_has_begun(tmp_path, upstream, status):
    async with gateway(tmp_path, upstream) as (server, session, _):
        server.gate = asyncio.Event()
        kind = b"text/event-stream" if status == 200 else b"application/json"
        headers = [(b"content-type", kind), (b"content-encoding", b"gzip")]
        server.answer = (status, headers, [gzip.compress(EVENTS)])
        async with session.post(CHAT, json={"model": "m", "messages": [], "stream": True}) as answer:
            assert await answer.content.readuntil(b"\n\n") == b": keep-alive\n\n"
            server.gate.set()
            rest = (await answer.content.read()).replace(b": keep-alive\n\n", b"")
            assert answer.headers.get("content-encoding") is None
        assert json.loads(rest.removeprefix(b"data: "))["error"]["code"] == "upstream_error"


async def test_a_large_binary_answer_arrives_whole(tmp_path, upstream):
    sound = bytes(range(256)) * 4096 * 8
    async with gateway(tmp_path, upstream) as (server, session, _):
        server.answer = (200, [(b"content-type", b"audio/wav")], in_parts(sound, 100_000))
        async with session.post("/v1/audio/speech", json={"model": "m", "input": "hi"}) as answer:
            assert answer.headers["content-type"] == "audio/wav"
            assert hashlib.sha256(await answer.read()).digest() == hashlib.sha256(sound).digest()


async def test_a_sound_of_25_megabytes_is_uploaded_as_it_is(tmp_path, upstream):
    sound = bytes(range(256)) * (25 * 4096)
    form = (
        b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        + sound
        + b"\r\n--x--\r\n"
    )
    async with gateway(tmp_path, upstream) as (server, session, _):
        server.answer = (200, [(b"content-type", b"application/json")], [b'{"text":"hi"}'])
        kind = 'multipart/form-data; boundary="x"'
        sent = session.post("/v1/audio/transcriptions", data=io.BytesIO(form), headers={"content-type": kind})
        async with sent as answer:
            assert (answer.status, await answer.read()) == (200, b'{"text":"hi"}')
        assert len(server.bodies[0]) == len(form)
        assert hashlib.sha256(server.bodies[0]).digest() == hashlib.sha256(form).digest()
        assert server.headers[0][b"content-type"] == kind.encode()


async def expecting(url, size):
    """The gateway's first line for an upload of that size, and the connection."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: {size}\r\n"
    writer.write(f"{head}content-type: multipart/form-data\r\nconnection: close\r\n\r\n".encode())
    return await reader.readline(), reader, writer


async def test_who_asks_whether_to_send_is_told_so_by_the_gateway(tmp_path, upstream):
    async with gateway(tmp_path, upstream) as (server, _, url):
        server.answer = (200, [(b"content-type", b"application/json")], [b"{}"])
        line, reader, writer = await expecting(url, 2 * MEGABYTE)
        assert line == b"HTTP/1.1 100 Continue\r\n"
        writer.write(b"a" * 2 * MEGABYTE)
        assert b"HTTP/1.1 200" in await reader.read()
        writer.close()
        assert len(server.bodies[0]) == 2 * MEGABYTE
        assert b"expect" not in server.headers[0]


async def test_who_asks_whether_to_send_too_much_is_told_not_to(tmp_path, upstream):
    async with gateway(tmp_path, upstream) as (server, _, url):
        line, _, writer = await expecting(url, 33 * MEGABYTE)
        assert line == b"HTTP/1.1 413 Request Entity Too Large\r\n"
        writer.close()
        assert server.bodies == []
