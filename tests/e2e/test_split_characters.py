"""A stream cut at every byte: characters of several bytes reach the client as they left the server."""

import asyncio
import json

import aiohttp
import pytest

from tests.e2e.front import POLICY, WAYS, gateway, idle
from tests.raw_server import serving

MODEL = "m/big"
PIECES = ("Tiếng Việt: ", "trường học", "怎么泡茶才好喝𠮷", "👩🏽‍🚀🇻🇳", "é\u0301")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
TURNS = 4
"""Turns of the loop in which what was written arrives: the server, the gateway and the client share it."""


def event(fields):
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": MODEL}
    return f"data: {json.dumps(head | fields, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def piece(text):
    return event({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


ANSWER = b"".join(map(piece, PIECES)) + event(
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
)
USAGE = event({"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11}})
DONE = b"data: [DONE]\n\n"
WHOLE = ANSWER + USAGE + DONE


def control(content):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(content),
        content,
    )


class Cutting:
    """A server that sends the same stream each time, in the parts that it is told to."""

    def __init__(self):
        self.parts = []

    async def __call__(self, _, writer, head):
        if head.startswith(b"GET"):
            writer.write(control(b'{"data":[{"id":"m/big"}]}'))
            return True
        writer.write(HEAD)
        for part in self.parts:
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            for _ in range(TURNS):
                await asyncio.sleep(0)
        writer.write(END)
        return True


def cuts():
    """The stream in two at every place, and byte by byte in groups of each size up to a character's."""
    yield from ([WHOLE[:at], WHOLE[at:]] for at in range(1, len(WHOLE)))
    for size in (1, 2, 3, 4):
        yield [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]


@pytest.mark.parametrize(
    ("resume", "usage"), [("off", True), ("exact", False)], ids=["as-it-is", "usage-taken-out"]
)
@WAYS
async def test_a_stream_arrives_byte_for_byte(tmp_path, way, resume, usage):
    cutting = Cutting()
    read = 0

    async def script(reader, writer):
        return await cutting(reader, writer, server.requests[-1][0])

    asked = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    if usage:
        asked["stream_options"] = {"include_usage": True}
    async with serving(script) as (server, backend):
        backends = [{"name": "cutting", "url": backend, "model": MODEL}]
        policy = f"{POLICY}resume: {{mode: {resume}}}\n"
        async with (
            gateway(tmp_path, backends, policy=policy, **way) as url,
            aiohttp.ClientSession(url) as session,
        ):
            await idle(url)
            for parts in cuts():
                cutting.parts = parts
                async with session.post("/v1/chat/completions", json=asked) as response:
                    body = await response.read()
                assert body == (WHOLE if usage else ANSWER + DONE), parts[0][-8:]
                read += 1
    assert read == len(WHOLE) - 1 + 4
