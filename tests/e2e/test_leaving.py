"""A client leaves at any moment of a request: the server sees it within a second, and nothing stays in flight."""

import asyncio
import json
import random

from tests.e2e.front import WAYS, gateway, idle

MOMENTS = 500
AT_ONCE = 25
SPAN = 0.12
"""Seconds from the start of a request within which its client leaves: the server is silent for the first third."""

BEAT = 0.01
WITHIN = 100
"""Beats of :class:`Pulse` until the server sees that its client has left: a second."""

PATIENCE = 30.0
"""Seconds after which nothing is waited for any longer."""

CHUNK = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
CONTROL = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 25\r\n\r\n{"data":[{"id":"m/big"}]}'


class Pulse:
    """A clock that beats each 10 ms at most, and stands still while the machine runs other programs."""

    def __init__(self):
        self.beats = 0

    async def __aenter__(self):
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_):
        self._beating.cancel()

    async def _beat(self):
        while True:
            await asyncio.sleep(BEAT)
            self.beats += 1


class Slow:
    """A server whose answers never end. It knows of each request at which beat its client was gone."""

    def __init__(self, pulse):
        self.gone, self._pulse = {}, pulse

    async def __call__(self, reader, writer):
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(CONTROL)
            return True
        headers = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
        body = json.loads(await reader.readexactly(int(headers[b"content-length"])))
        gone = self.gone[headers[b"x-request-id"].decode()] = asyncio.get_running_loop().create_future()
        answering = asyncio.create_task(self._answer(writer, stream=body.get("stream", False)))
        try:
            while await reader.read(1):
                pass
        except ConnectionError:
            pass
        finally:
            answering.cancel()
            gone.set_result(self._pulse.beats)
        return False

    async def _answer(self, writer, *, stream):
        await asyncio.sleep(SPAN / 3)
        writer.write(STREAM if stream else WHOLE)
        while True:
            await asyncio.sleep(0.003)
            writer.write(b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK) if stream else b" ")


ENDPOINTS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/rerank",
    "/v1/score", "/v1/audio/transcriptions", "/tokenize", "/v1/some/other",
)  # fmt: skip


def request(identity, *, endpoint, stream):
    asked = {"prompt": "hi", "input": "hi", "messages": [{"role": "user", "content": "hi"}]}
    body = json.dumps({"model": "m/big", "stream": stream, **asked}).encode()
    return (
        b"POST %b HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"x-request-id: %b\r\n\r\n" % (endpoint.encode(), len(body), identity.encode())
    ) + body


PROBE = b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n"
LARGE = b"POST /v1/embeddings HTTP/1.1\r\nhost: g\r\ncontent-length: 900000\r\n\r\n" + b" " * 70_000
"""What some clients send behind their requests without waiting for the answer."""


class Silent(Slow):
    """One that says nothing at all, and of which is known that it was asked."""

    def __init__(self, pulse):
        super().__init__(pulse)
        self.asked = asyncio.Event()

    async def _answer(self, writer, *, stream):
        self.asked.set()
        await asyncio.Event().wait()


async def leave(url, identity, rng, pulse):
    """Send a request and be gone after a random time. Returns at which beat that was."""
    host, port = url.removeprefix("http://").split(":")
    asked = request(identity, endpoint=rng.choice(ENDPOINTS), stream=rng.random() < 0.5)
    sent = rng.choice((len(asked), len(asked), len(asked), rng.randrange(len(asked))))
    stay, hard = rng.uniform(0.0, SPAN), rng.random() < 0.5
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(asked[:sent])
    if sent == len(asked):
        behind = rng.choice((0.0, 0.5)) * stay
        stay -= behind
        await asyncio.sleep(behind)
        writer.write(rng.choice((b"", b"", b"", PROBE, PROBE * 9, asked, asked[:-1], LARGE)))
    await asyncio.sleep(stay)
    left = pulse.beats
    if hard:
        writer.transport.abort()
    else:
        writer.close()
    return left


@WAYS
async def test_the_server_sees_a_client_leave_at_any_moment(tmp_path, way):
    rng = random.Random(11)  # noqa: S311 - not for secrets
    records, seen = asyncio.Queue(), 0
    async with Pulse() as pulse:
        slow = Slow(pulse)
        listener = await asyncio.start_server(slow, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        backends = [{"name": "slow", "url": f"http://127.0.0.1:{port}", "model": "m/big"}]
        async with listener, gateway(tmp_path, backends, on_record=[records.put_nowait], **way) as url:
            await idle(url)
            for batch in range(MOMENTS // AT_ONCE):
                names = [f"{batch}-{number}" for number in range(AT_ONCE)]
                left = await asyncio.gather(*(leave(url, name, rng, pulse) for name in names))
                await idle(url)
                for name, when in zip(names, left, strict=True):
                    if name in slow.gone:
                        seen += 1
                        assert await asyncio.wait_for(slow.gone[name], PATIENCE) - when < WITHIN
    every = [records.get_nowait() for _ in range(records.qsize())]
    tried = [one.outcome.status for one in every if one.attempts]
    assert seen > MOMENTS / 3
    assert len(tried) >= seen
    assert set(tried) == {"cancelled"}
    # What was sent behind without waiting may be too much to be read, and is refused then.
    assert {one.outcome.status for one in every} <= {"cancelled", "client_error"}


@WAYS
async def test_what_a_server_had_before_its_client_left_was_sent(tmp_path, way):
    """It may have been served, and is no sign of a server that cannot be reached."""
    server, records, ended = Silent(Pulse()), [], asyncio.Event()

    def on_record(record):
        records.append(record)
        ended.set()

    listener = await asyncio.start_server(server, "127.0.0.1", 0)
    async with listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        backends = [{"name": "a", "url": url, "model": "m/big"}]
        async with (
            asyncio.timeout(30),
            gateway(tmp_path, backends, on_record=[on_record], **way) as front,
        ):
            await idle(front)
            host, port = front.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            body = json.dumps({"model": "m/big", "messages": []}).encode()
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
                % (len(body), body)
            )
            await server.asked.wait()
            writer.close()
            await ended.wait()
    assert [(one.phase, one.error) for one in records[0].attempts] == [("sent", "client_gone")]
    assert records[0].outcome.status == "cancelled"
