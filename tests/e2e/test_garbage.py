"""A request leaves nothing behind that only a garbage collection ends: those took a tenth of all time."""

import asyncio
import gc
import json
from collections import Counter

import pytest

from tests.e2e.front import gateway
from tests.raw_server import serving

REQUESTS = 20
ROUNDS = 3
ANSWER = json.dumps(
    {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}}]}
).encode()
EVENTS = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def http(body, content_type):
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        content_type,
        len(body),
        body,
    )


def asking(**more):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello."}], **more}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


MODELS = http(b'{"object": "list", "data": [{"id": "m"}]}', b"application/json")
"""The answer to every probe."""


@pytest.mark.parametrize(
    ("answer", "request_", "end"),
    [
        (http(ANSWER, b"application/json"), asking(), ANSWER),
        (http(EVENTS, b"text/event-stream"), asking(stream=True), b"0\r\n\r\n"),
    ],
    ids=["answer", "stream"],
)
async def test_a_request_leaves_no_circles(tmp_path, answer, request_, end):
    records, done = [], asyncio.Event()

    def ended(record):
        records.append(record)
        done.set()

    async def script(_, writer):
        head = server.requests.pop()[0]
        writer.write(answer if head.startswith(b"POST") else MODELS)
        return True

    async with serving(script) as (server, backend):
        fleet = [{"name": "one", "url": backend, "model": "m"}]
        often = {"scrape_interval": 3600.0, "probe_interval": 3600.0}
        async with gateway(tmp_path, fleet, on_record=[ended], **often) as url:
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))

            async def talk(times):
                records.clear()
                for _ in range(times):
                    writer.write(request_)
                    await reader.readuntil(end)
                    await asyncio.wait_for(done.wait(), 10)
                    done.clear()
                assert len(records) == times
                assert {record.outcome.status for record in records} == {"ok"}
                records.clear()

            await talk(2)
            gc.collect()
            gc.disable()
            try:
                found = [await circles(talk) for _ in range(ROUNDS)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()
                writer.close()
    # What only one round shows is of something else in this process, such as the threads of other tests.
    assert set.intersection(*found) == set()


async def circles(talk):
    """Types of what a number of requests left behind, at least once each."""
    await talk(REQUESTS)
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    left = Counter(type(one).__qualname__ for one in gc.garbage)
    gc.garbage.clear()
    return {name for name, count in left.items() if count >= REQUESTS}
