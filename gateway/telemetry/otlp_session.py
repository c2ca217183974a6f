"""Postings to an OTLP receiver: they end in time and go nowhere else, and little of an answer is read."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from requests.adapters import HTTPAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from urllib3.connectionpool import HTTPConnectionPool

_MOST_ANSWER: Final = 2**16
"""Bytes of an answer that are read: receivers send two or three, or why they reject something."""

_TOLD: Final = re.compile(r"(https?://)(?:[^?#]*@)?([^?#@]*)(?:[?#][^@]*)?")
"""What may be told of an address, in two parts: neither user and password nor query."""


class Session(requests.Session):
    """Posts, and remembers what came of it. For one thread.

    Args:
        url: Where it posts to.

    Attributes:
        trouble: What was wrong with the last posting, empty if all was taken.
        rejected: How many spans or data points of it were not taken though the others were.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        told = _TOLD.fullmatch(url)
        self._shown = f"{told[1]}{told[2]}" if told else "the receiver"
        self.trouble = ""
        self.rejected = 0
        self.headers["accept-encoding"] = "identity"  # what is small may be large when it is unpacked
        self._line = _Line()
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(self._line))

    def send(
        self,
        request: requests.PreparedRequest,
        **kwargs: Any,  # noqa: ANN401 - as the library has it
    ) -> requests.Response:
        """Send, and go nowhere else: where a receiver redirects to, keys must not follow."""
        self.rejected = 0
        try:
            with self._line.within(kwargs["timeout"]):
                answer = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
                answer._content = _beginning(answer)  # noqa: SLF001 - or others would read all of it
        except requests.RequestException as error:
            self.trouble = self.told(error)
            raise
        self.trouble = self._said(answer)
        return answer

    def _said(self, answer: requests.Response) -> str:
        if not 200 <= answer.status_code < 300:
            return f"{self._shown} answered {answer.status_code}"
        self.rejected = _rejected(answer.content)
        return f"{self._shown} rejected {self.rejected} of those it was sent" if self.rejected else ""

    def told(self, error: requests.RequestException) -> str:
        """An error in words, without what may be secret of the address."""
        if isinstance(error, requests.Timeout):
            return f"{self._shown} did not answer in time"
        if isinstance(error, requests.ConnectionError):
            return f"no connection to {self._shown}"
        return f"{self._shown}: {type(error).__name__}"

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self._line.close()


def _beginning(answer: requests.Response) -> bytes:
    """The body, however it is framed; nothing of one that is too long, which is not read to its end."""
    length = answer.headers.get("content-length", "0")
    body = bytearray()
    if length.isdecimal() and int(length) <= _MOST_ANSWER:
        for part in answer.iter_content(_MOST_ANSWER):
            body += part
            if len(body) > _MOST_ANSWER:
                break
        else:
            return bytes(body)
    answer.close()
    return b""


def _rejected(answer: bytes) -> int:
    """How many a receiver rejects by an answer, of which those for spans and for metrics look alike."""
    try:
        said = ExportTraceServiceResponse.FromString(answer)
    except Exception:  # noqa: BLE001 - what is no such message
        return 0
    return max(0, int(said.partial_success.rejected_spans))


class _Line:
    """The connection in use, which is cut when a posting takes too long: the library limits single reads."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._late = self._closed = False

    def opened(self, connection: socket.socket) -> None:
        """Take a connection before anything is said on it; one that comes too late is cut at once."""
        if self._late or self._closed:
            with suppress(OSError):  # whoever is at its other end may be gone already
                connection.shutdown(socket.SHUT_RDWR)
            return
        self._forget()
        # One of our own: what becomes of the other, such as one with encryption, is not known here.
        self._socket = connection.dup()

    def close(self) -> None:
        """Take no further connection."""
        self._closed = True
        self._forget()

    def __del__(self) -> None:
        """As the library's own connections, it is closed with whoever had it."""
        self._forget()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Cut the connection after so long.

        Raises:
            requests.Timeout: That has happened, whatever came of it: half a head may look like a whole one.
        """
        self._late = False
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        except requests.RequestException:
            if not self._late:
                raise
        finally:
            timer.cancel()
        if self._late:
            raise requests.Timeout

    def _cut(self) -> None:
        self._late = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class _Adapter(HTTPAdapter):
    """Lets a line know of connections."""

    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> HTTPConnectionPool:  # noqa: ANN401
        """As the library has it."""
        pool = super().get_connection_with_tls_context(*args, **kwargs)
        if "ConnectionCls" in vars(pool):
            return pool  # it has been here before
        usual, opened = type(pool).ConnectionCls, self._line.opened

        class Connection(usual):  # type: ignore[misc, valid-type]
            def _new_conn(self) -> socket.socket:
                found: socket.socket = super()._new_conn()
                opened(found)
                return found

        pool.ConnectionCls = Connection
        return pool
