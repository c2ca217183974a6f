"""The one seam to backends: send a request, get status and headers, then body bytes as they arrive."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.wire.headers import Headers

    Sink = Callable[[bytes], None]
    Shortcut = Callable[[Sink], Sink]

KEEPALIVE_SECONDS = 4.0
"""Below uvicorn's 5 s, so that a pooled connection is not taken just as the server closes it."""

CLOSE_SECONDS = 2.0
"""How long the closing of a pool may wait for its connections to end."""


class Sent:
    """Whether a request is on its way.

    Attributes:
        done: Whether a connection stood and the request was written to it.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False


@value(frozen=True, slots=True)
class UpstreamRequest:
    """A request as it goes to a backend.

    Attributes:
        url: Scheme, host, port, path and query.
        headers: All but those of the connection, which are Host, Content-Length and the like.
        body: Sent as it is.
        sent: Told once it is on its way.
        repeatable: Whether it may be sent again once the backend may have read it.
    """

    method: str
    url: str
    headers: Headers
    body: bytes
    sent: Sent = field(default_factory=Sent, compare=False)
    repeatable: bool = True


class UpstreamError(Exception):
    """A backend could not be reached or broke the connection.

    Attributes:
        phase: Last phase reached, one of :data:`gateway.core.outcome.PHASES`.
        error: ``connect``, ``timeout:connect``, ``reset`` or ``protocol``; where a backend is to go on
            with a stream also ``cannot_go_on`` or ``status:NNN``.
    """

    def __init__(self, phase: str, error: str, detail: str) -> None:
        super().__init__(f"{error} in phase {phase}: {detail}")
        self.phase = phase
        self.error = error


class UpstreamResponse(Protocol):
    """An answer whose status and headers have arrived."""

    status: int
    headers: Headers
    """Names in lower case."""

    def body(self) -> AsyncIterator[bytes]:
        """Body bytes as they arrive, still encoded as the headers say; raises :class:`UpstreamError`.

        While they are not taken, only a bounded number of bytes is read from the backend.
        """
        ...

    async def pipe(self, sink: Sink, shortcut: Shortcut | None = None) -> None:
        """Hand what is left of the body to ``sink`` as it arrives, and return at its end.

        The sink may be called from the connection itself, with no task switch; what it raises is raised here.
        It may follow upon :meth:`body`, and holds back a fast backend by :meth:`pause`.

        Where a body comes in chunks, the connection may be led past all this: what ``shortcut`` makes of the
        usual way is called with bytes as they came, framing included, wherever a chunk may begin. It hands to
        the usual way what it does not take, and must not raise.

        Raises:
            UpstreamError: The body broke off.
        """
        ...

    def pause(self) -> None:
        """Read no more from the backend; the sink may still get what was read already."""
        ...

    def resume(self) -> None:
        """Read on after :meth:`pause`."""
        ...

    async def close(self) -> None:
        """Give the connection back, or close it if the body has not come to its end."""
        ...


class Upstream(Protocol):
    """A pool of connections to all backends."""

    async def send(self, request: UpstreamRequest, connect_timeout: float) -> UpstreamResponse:
        """Send a request and wait for status and headers.

        Args:
            request: What to send.
            connect_timeout: Seconds within which the connection must stand; other limits are the caller's.

        Raises:
            UpstreamError: With the phase that was reached.
        """
        ...

    async def close(self) -> None:
        """Close every connection; returns within :data:`CLOSE_SECONDS`, whatever the backends do."""
        ...
