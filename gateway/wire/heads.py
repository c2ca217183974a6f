"""Heads of requests as the parser tells of them, with limits on their size."""

from __future__ import annotations

from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.wire import refusals
from gateway.wire.refusals import HEAD_LIMIT, TARGET_LIMIT

_CODING: Final = b"transfer-encoding"

OLD: Final = frozenset({"0.9", "1.0"})
"""Versions of HTTP whose clients know no chunks and no interim answers, and need not name a host."""

_FRAMING: Final = frozenset({b"content-length", _CODING})
"""Headers that say where a body ends."""

_OVERHEAD: Final = 4
"""Bytes of a header line that are neither name nor value."""


class HeadReader(HttpToolsProtocol):
    """A connection whose heads are read.

    Attributes:
        refusal: What the client is told, or would be, where a head cannot be read.
        target: Path and query of the last one.
    """

    refusal = refusals.UNREADABLE
    target = (b"/", b"")
    _head_open = True
    _head_size = 0
    _progress = _repeating = False

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("")

    def _decline(self, rest: bytes) -> None:
        """Go on in HTTP/1.1 with a request that offered another protocol.

        The parser takes its body for that protocol, so another one hears of the body and reads it.
        """
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's first one
        self._repeating = True
        framing = [(name, value) for name, value in self.headers if name in _FRAMING]
        head = b"".join(b"%b: %b\r\n" % header for header in framing)
        self._feed(b"POST / HTTP/1.1\r\n%b\r\n%b" % (head, rest))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A request begins."""
        self._progress = True
        if not self._repeating:
            self._head_size = 0
            self.url = b""
            self.headers = []

    def on_url(self, url: bytes) -> None:
        """Take a part of path and query."""
        self._head_size += len(url)
        if self._head_size > TARGET_LIMIT:
            self.refusal = refusals.TARGET_TOO_LONG
            raise ValueError("path and query are too long")
        if not self._repeating:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers are counted and passed over."""
        self._head_size += len(name) + len(value) + _OVERHEAD
        if self._head_size > HEAD_LIMIT:
            self.refusal = refusals.HEAD_TOO_LARGE
            raise ValueError("the headers are too large")
        if self._head_open and not self._repeating:
            name = name.lower()
            if name == _CODING and value.strip().lower() != b"chunked":
                self.refusal = refusals.UNKNOWN_CODING
                raise ValueError("a transfer encoding that is not known")
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._progress = True
        if self._head_open and not self._repeating:
            hosts = [name for name, _ in self.headers].count(b"host")
            if hosts > 1 or (hosts == 0 and self.parser.get_http_version() not in OLD):
                self.refusal = refusals.HOSTS
                raise ValueError("no host, or several")
            self.target = _target(self.url)


def _target(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of what the request line names.

    Raises:
        HttpParserInvalidURLError: It is neither a path nor a whole address.
    """
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
