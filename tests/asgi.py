"""Drives an ASGI application by hand: the test is the server, message by message."""

import asyncio
from contextlib import suppress


class Conversation:
    """One HTTP exchange with an ASGI application running as a task."""

    def __init__(self, app, *, method="POST", path="/v1/chat/completions", headers=(), body=b"", query=b""):
        self._inbox = asyncio.Queue()
        self.sent = []
        self.reads_after = 0.0
        self._news = asyncio.Condition()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": [(b"content-type", b"application/json"), *headers],
            "scheme": "http",
            "server": ("gateway", 80),
            "client": ("client", 1),
        }
        if body is not None:
            self._inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.task = asyncio.get_running_loop().create_task(app(scope, self._inbox.get, self._send))

    async def _send(self, message):
        if self.reads_after and message.get("more_body"):
            await asyncio.sleep(self.reads_after)  # the slowness is the subject
        async with self._news:
            self.sent.append(message)
            self._news.notify_all()

    def leave(self):
        """The client closes its connection."""
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def until(self, condition):
        """Wait until the messages sent so far fulfil a condition."""
        async with self._news:
            await self._news.wait_for(lambda: condition(self))

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
