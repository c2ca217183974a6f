"""A scripted upstream: each backend plays the acts it was given, one a request."""

import asyncio
from dataclasses import dataclass, field

from gateway.wire.upstream import UpstreamError

JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
NEVER = object()
"""An item that does not end."""


@dataclass
class Act:
    """What a backend does with one request.

    ``body`` holds bytes to give, exceptions to raise, and events to wait for, in order; ``before`` the same for
    the time until the status line.
    """

    status: int = 200
    headers: list = field(default_factory=lambda: [JSON])
    body: list = field(default_factory=list)
    before: list = field(default_factory=list)


def stream(*body, before=()):
    return Act(headers=[EVENTS], body=list(body), before=list(before))


def answer(body=b"{}", status=200, headers=()):
    return Act(status=status, headers=[JSON, *headers], body=[body])


def fails(phase, error):
    return Act(before=[UpstreamError(phase, error, "scripted")])


class Response:
    def __init__(self, act, upstream):
        self._act = act
        self._upstream = upstream
        self.status = act.status
        self.headers = act.headers
        self._body = self._play()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.pause = self._flowing.clear
        self.resume = self._flowing.set

    def body(self):
        return self._body

    async def pipe(self, sink, framed=None):
        async for chunk in self._body:
            sink(chunk)
            await self._flowing.wait()

    async def _play(self):
        for item in self._act.body:
            if isinstance(item, bytes):
                yield item
            else:
                await play(item)

    async def close(self):
        self._upstream.open -= 1
        self._upstream.closed.set()


async def play(item):
    if isinstance(item, BaseException):
        raise item
    await (asyncio.Event() if item is NEVER else item).wait()


class ScriptedUpstream:
    """Plays ``acts[backend url]``; keeps what it was sent."""

    def __init__(self, **acts):
        self._acts = {name: list(given) for name, given in acts.items()}
        self.requests = []
        self.sent = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()
        self.open = 0

    async def send(self, request, connect_timeout):
        self.requests.append(request)
        self.sent.set()
        act = self._acts[request.url.split("/")[2]].pop(0)
        try:
            for item in act.before:
                await play(item)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        self.open += 1
        return Response(act, self)

    async def close(self):
        pass

    @property
    def order(self):
        return [request.url.split("/")[2] for request in self.requests]
