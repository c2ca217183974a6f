"""What requests leave behind that only a garbage collection ends: python -m tests.e2e.circles FOLDER answer|stream.

A program of its own, since the collector sees a whole process: other tests leave threads that make circles, too.
"""

import asyncio
import gc
import json
import sys
from collections import Counter
from pathlib import Path

from tests.e2e.front import gateway
from tests.raw_server import serving

REQUESTS = 20
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

KINDS = {
    "answer": (http(ANSWER, b"application/json"), asking(), ANSWER),
    "stream": (http(EVENTS, b"text/event-stream"), asking(stream=True), b"0\r\n\r\n"),
}


async def circles(folder, answer, request, end):
    """Types of what a number of requests left behind, at least once each."""
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
        async with gateway(folder, fleet, on_record=[ended], **often) as url:
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))

            async def talk(times):
                for _ in range(times):
                    writer.write(request)
                    await reader.readuntil(end)
                    await asyncio.wait_for(done.wait(), 10)
                    done.clear()
                assert len(records) == times
                assert {record.outcome.status for record in records} == {"ok"}
                records.clear()

            await talk(2)
            gc.collect()
            gc.disable()
            await talk(REQUESTS)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            gc.set_debug(0)
            left = Counter(type(one).__qualname__ for one in gc.garbage)
            writer.close()
    return sorted(name for name, count in left.items() if count >= REQUESTS)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(circles(Path(sys.argv[1]), *KINDS[sys.argv[2]]))))
