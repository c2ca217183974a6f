"""Drives an ASGI application by hand: the test is the server, message by message."""

import asyncio
from contextlib import suppress

from gateway.wire.pipe import EXTENSION

JSON = (b"content-type", b"application/json")


class Conversation:
    """One HTTP exchange with an ASGI application running as a task.

    Attributes:
        piped: Whether the server offers the pipe.
        poured: How many parts came through it.
        streams: Whether the server was told of a stream.
        turns: Heavy steps before which the server was asked for a turn.
    """

    piped = False

    def __init__(
        self,
        app,
        *,
        method="POST",
        path="/v1/chat/completions",
        headers=(),
        body=b"",
        query=b"",
        raw_path=None,
    ):
        self._inbox = asyncio.Queue()
        self.sent = []
        self.poured = 0
        self.streams = False
        self.turns = 0
        self.reads_after = 0.0
        self._news = asyncio.Event()
        self._pipe = _Pipe(self)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": raw_path or path.encode(),
            "query_string": query,
            "headers": [*headers] if b"content-type" in dict(headers) else [JSON, *headers],
            "scheme": "http",
            "server": ("gateway", 80),
            "client": ("client", 1),
        }
        if self.piped:
            scope["extensions"] = {EXTENSION: self._pipe}
        if body is not None:
            self.say(body)
        self.task = asyncio.get_running_loop().create_task(app(scope, self._inbox.get, self._send))

    async def _send(self, message):
        if self.reads_after and message.get("more_body"):
            await asyncio.sleep(self.reads_after)  # the slowness is the subject
        self.take(message)

    def take(self, message):
        """A message has come."""
        self.sent.append(message)
        self._news.set()

    def say(self, data, *, more=False):
        """The client sends a part of its body."""
        self._inbox.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def whole_body(self):
        """Take what the client said, if that is all of its body."""
        said = self._inbox.get_nowait() if self._inbox.qsize() == 1 else {}
        if said.get("more_body") is False:
            return said["body"]
        if said:
            self._inbox.put_nowait(said)
        return None

    def leave(self):
        """The client closes its connection."""
        self._inbox.put_nowait({"type": "http.disconnect"})
        if self._pipe.lost is not None:
            self._pipe.lost()

    async def until(self, condition):
        """Wait until the messages sent so far fulfil a condition."""
        while not condition(self):
            self._news.clear()
            await self._news.wait()

    async def end(self):
        """Wait for the end of the exchange and return itself."""
        with suppress(asyncio.CancelledError):
            await self.task
        return self

    @property
    def status(self):
        return next((m["status"] for m in self.sent if m["type"] == "http.response.start"), None)

    @property
    def headers(self):
        return dict(next(m["headers"] for m in self.sent if m["type"] == "http.response.start"))

    @property
    def body(self):
        return b"".join(m.get("body", b"") for m in self.sent if m["type"] == "http.response.body")

    @property
    def complete(self):
        return bool(self.sent) and self.sent[-1].get("more_body") is False


class _Pipe:
    """Takes what is written at once; a client that reads slowly has caught up after a while."""

    def __init__(self, conversation):
        self._conversation = conversation
        self._room = None
        self.lost = None

    def request_body(self):
        return self._conversation.whole_body()

    async def turn(self):
        """Nothing else is under way."""
        self._conversation.turns += 1

    async def share(self, work, one):
        await self.turn()
        [found] = work([one])
        await self.turn()
        return found

    def start(self, status, headers):
        self._conversation.take({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data):
        conversation = self._conversation
        conversation.poured += 1
        conversation.take({"type": "http.response.body", "body": data, "more_body": True})
        if conversation.reads_after:
            asyncio.get_running_loop().call_later(conversation.reads_after, self._caught_up)
        return not conversation.reads_after

    def inside(self):
        return None

    def finish(self, data):
        self._conversation.take({"type": "http.response.body", "body": data, "more_body": False})

    def _caught_up(self):
        self._room()

    behind = False
    refusal = None

    def streams(self):
        self._conversation.streams = True

    def release(self):
        self._room, self.lost = lambda: None, None

    def on_room(self, call):
        self._room = call

    def on_lost(self, call):
        self.lost = call
