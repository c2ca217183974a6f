"""A provider of hosted models that speaks OpenAI's HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": '{"in": "UTC"}'}}


class Provider:
    """Answers by what the last message says.

    Attributes:
        asked: Bodies of the requests.
        keys: Keys that they came with.
        left: Whether a caller was seen to leave in the middle of a stream.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.left = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = json.loads(body)
        self.asked.append(asked)
        self.keys.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        if "prompt" in asked:
            await _completion(send, stream=bool(asked.get("stream")))
            return
        said = str(asked["messages"][-1]["content"])
        if said.startswith("status "):
            error = {"message": f"because of sk-secret {said}", "type": "x", "param": None, "code": "y"}
            await _whole(send, int(said.split()[1]), {"error": error})
        elif asked.get("stream"):
            await self._stream(receive, send, asked, endless="endless" in said)
        else:
            message = {"role": "assistant", "content": "hosted words"}
            if asked.get("tools"):
                message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
            why = "tool_calls" if asked.get("tools") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": why, "logprobs": None}
            await _whole(send, 200, {"object": "chat.completion", "choices": [choice], "usage": USAGE})

    async def _stream(self, receive: Any, send: Any, asked: dict[str, Any], *, endless: bool) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for delta in ({"role": "assistant", "content": ""}, {"content": "hosted "}, {"content": "words"}):
            await _event(send, [{"index": 0, "delta": delta, "finish_reason": None}])
        if endless:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        await _event(send, [{"index": 0, "delta": {}, "finish_reason": "stop"}])
        if (asked.get("stream_options") or {}).get("include_usage"):
            await _event(send, [], usage=USAGE)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _completion(send: Any, *, stream: bool) -> None:
    choice = {"index": 0, "text": "hosted words", "finish_reason": "stop", "logprobs": None}
    if not stream:
        await _whole(send, 200, {"object": "text_completion", "choices": [choice], "usage": USAGE})
        return
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _event(send, [choice], object="text_completion")
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _whole(send: Any, status: int, answer: dict[str, Any]) -> None:
    body = json.dumps({"id": "c1", "created": 1, "model": "hosted-1", **answer}).encode()
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"7")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _event(send: Any, choices: list[Any], **more: Any) -> None:
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "hosted-1"}
    data = f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n"
    await send({"type": "http.response.body", "body": data.encode(), "more_body": True})
