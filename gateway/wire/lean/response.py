"""One answer: read off the bytes of a connection, handed on as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import httptools

from gateway.wire.upstream import UpstreamError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from gateway.wire.headers import Headers
    from gateway.wire.lean.connection import Connection
    from gateway.wire.upstream import Shortcut, Sink

HEAD_LIMIT: Final = 64 * 2**10
"""Most bytes of headers, and of anything else that comes without a byte of the body."""

BUFFER_LIMIT: Final = 256 * 2**10
"""Bytes that may wait for a slow reader before the connection is no longer read."""


class UnansweredError(UpstreamError):
    """The connection broke before a single byte of the answer came."""


class LeanResponse:
    """See :class:`~gateway.wire.upstream.UpstreamResponse`.

    Data goes from the connection through :meth:`feed` into the parser, which calls the ``on_`` methods.
    """

    __slots__ = (
        "_bare", "_between", "_connection", "_done", "_error", "_given_back", "_head_size", "_heard", "_keep",
        "_loop", "_parser", "_parts", "_paused", "_shorter", "_silent", "_sink", "_size", "_waiter",
        "headers", "status",
    )  # fmt: skip

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, *, bare: bool) -> None:
        """Make the reader of one answer.

        Args:
            connection: Where it comes from; :meth:`close` gives it back.
            loop: The running loop.
            bare: The answer has no body whatever its headers say, for it answers HEAD.
        """
        self.status = 0
        self.headers: Headers = []
        self._connection = connection
        self._loop = loop
        self._bare = bare
        self._parser = httptools.HttpResponseParser(self)
        self._head_size = 0
        self._silent = 0
        self._heard = False
        self._between = False
        self._done = False
        self._keep = False
        self._given_back = False
        self._error: Exception | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._sink: Sink | None = None
        self._shorter: Sink | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            UpstreamError: They did not come.
        """
        while not self.status:
            await self._more()

    def body(self) -> AsyncIterator[bytes]:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        return self  # no generator, which would be a task to close for each that is left early

    def __aiter__(self) -> Self:
        """See :meth:`body`."""
        return self

    async def __anext__(self) -> bytes:
        """See :meth:`body`."""
        while not self._parts:
            if self._done:
                raise StopAsyncIteration
            await self._more()
        data = self._take()
        if self._paused:
            self.resume()
        return data

    async def pipe(self, sink: Sink, shortcut: Shortcut | None = None) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        if self._paused:
            self.resume()
        if self._parts:
            sink(self._take())
        self._sink = sink
        self._shorter = shortcut and shortcut(self.feed)
        self._direct()
        try:
            while not self._done or self._error is not None:
                await self._more()
        finally:
            self._sink = self._shorter = None
            self._direct()

    def pause(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        if not self._given_back:
            self._paused = True
            self._connection.pause()

    def resume(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        if not self._given_back:
            self._paused = False
            self._connection.resume()

    async def close(self) -> None:
        """See :class:`~gateway.wire.upstream.UpstreamResponse`."""
        if self._given_back:
            return
        if self._paused:
            self.resume()
        self._given_back = True
        if self._done and self._keep:
            self._connection.release()
        else:
            self._connection.abort()
        self._done = True
        del self._parser  # it knows this response; without the circle both go without a collection

    async def _more(self) -> None:
        """Wait until there is something new to look at."""
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take(self) -> bytes:
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return data

    # What the connection calls.

    def feed(self, data: bytes) -> None:
        """Read bytes as they arrive; what a sink raises is for who waits for the answer, not for the loop."""
        try:
            if self._between and self._passes_the_parser(data):
                return
            if self._done or self._error is not None:
                self._keep = False
                return
            fault = self._parse(data)
            self._direct()
            if self._sink is None:
                if self._size > BUFFER_LIMIT and not self._paused:
                    self.pause()
            elif self._parts:
                self._sink(self._take())
            if fault:
                self._fail(UpstreamError("headers" if self.status else "sent", "protocol", fault))
            if self._news():
                self._wake()
        except Exception as error:  # noqa: BLE001 - raised by head(), body() or pipe()
            self._fail(error)
            self._wake()

    def _direct(self) -> None:
        """Let the connection hand on what comes next: where a chunk may begin, by the shortcut."""
        if not self._given_back:
            self._connection.take = (self._between and self._shorter) or self.feed

    def _passes_the_parser(self, data: bytes) -> bool:
        """Whether this is one whole chunk, written as everybody writes it, that the sink has taken."""
        sink = self._sink
        if sink is None:
            return False
        line = data.find(b"\r\n", 0, 10)
        size = len(data) - line - 4
        if not (size > 0 <= line and data.endswith(b"\r\n") and data[:line] == b"%x" % size):
            return False
        sink(data[line + 2 : -2])
        return True

    def _parse(self, data: bytes) -> str:
        """Give bytes to the parser; returns what is wrong with them."""
        self._heard = True
        before = self._size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._done:
                return str(error.__context__ or error)
            self._keep = False
        if self._between and not data.endswith(b"\r\n"):
            self._between = False  # a part of the next chunk's size came behind the last chunk
        if self._size > before or self._done:
            self._silent = 0
            return ""
        self._silent += len(data)
        return f"more than {HEAD_LIMIT} bytes without a body byte" if self._silent > HEAD_LIMIT else ""

    def _news(self) -> bool:
        """Whether a waiting reader has something to look at; a sink gets the body without being woken."""
        return self._done or self._error is not None or (self.status > 0 and self._sink is None)

    def ended(self, cause: Exception | None) -> None:
        """The connection brings no more bytes; ``cause`` says why unless it was closed in good order."""
        if self._done or self._error is not None:
            return
        if cause is None and self.status and self._ends_with_connection():
            self._done = True
        else:
            broken = UpstreamError if self._heard else UnansweredError
            detail = str(cause or "the backend closed the connection")
            self._error = broken("headers" if self.status else "sent", "reset", detail)
        self._wake()

    def _ends_with_connection(self) -> bool:
        return not any(name in {b"content-length", b"transfer-encoding"} for name, _ in self.headers)

    def _fail(self, error: Exception) -> None:
        self._between = False
        self._error = error
        self._connection.abort()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _refuse_more(self) -> None:
        if self._done:
            raise httptools.HttpParserError("more than the answer")

    # What the parser calls.

    def on_message_begin(self) -> None:
        """The answer begins, or another that nobody asked for."""
        self._refuse_more()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are passed over."""
        if self.status:
            return
        self._head_size += len(name) + len(value) + 4
        if self._head_size > HEAD_LIMIT:
            raise httptools.HttpParserError(f"more than {HEAD_LIMIT} bytes of headers")
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            raise httptools.HttpParserError(f"transfer encoding {value!r} was not asked for")
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Status and headers are here, or those of an interim answer."""
        status = self._parser.get_status_code()
        if status < 200:
            if status < 100:
                raise httptools.HttpParserError(f"no status: {status}")
            self.headers.clear()
            return
        self.status = status
        self._keep = self._parser.should_keep_alive()
        self._done = self._bare

    def on_body(self, data: bytes) -> None:
        """Take a part of the body."""
        if self._done:
            self._refuse_more()
        self._parts.append(data)
        self._size += len(data)

    def on_chunk_header(self) -> None:
        """A chunk begins."""
        self._between = False

    def on_chunk_complete(self) -> None:
        """A chunk has ended."""
        self._between = True

    def on_message_complete(self) -> None:
        """The body has ended, or an interim answer has."""
        self._between = False
        if self.status:
            self._done = True
