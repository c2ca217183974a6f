"""One connection to a backend: a request out, and what comes in to the reader of its answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.wire.lean.response import LeanResponse


class Owner(Protocol):
    """Who keeps account of connections."""

    def released(self, connection: Connection) -> None:
        """The connection is ready for another request."""
        ...

    def lost(self, connection: Connection) -> None:
        """The connection is gone."""
        ...


def _ignore(_: bytes) -> None:
    """Nobody listens any more."""


class Connection(asyncio.Protocol):
    """A connection that serves one request after the other.

    Attributes:
        base: Scheme and authority of the backend, the key of the pool.
        usable: Whether another request may go over it once the present one has ended.
        take: Gets what comes.
        idle_since: Loop time at which it became idle.
    """

    __slots__ = ("_owner", "_response", "_transport", "base", "idle_since", "take", "usable")

    _transport: asyncio.Transport
    take: Callable[[bytes], None]

    def __init__(self, base: str, owner: Owner) -> None:
        self.base = base
        self.usable = False
        self.idle_since = 0.0
        self._owner = owner
        self._response: LeanResponse | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = transport  # type: ignore[assignment] # a stream's transport
        self._transport.set_write_buffer_limits(high=0)  # write at once, not when all others had their turn
        self.take = self._refuse
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._end(exc)
        self.take = _ignore  # the other knows this connection
        self._owner.lost(self)

    def eof_received(self) -> None:
        """Nothing more will come; returning nothing closes our side too."""
        self._end(None)

    def data_received(self, data: bytes) -> None:
        """Bytes arrived."""
        self.take(data)

    def start(self, response: LeanResponse, head: bytes, body: bytes) -> None:
        """Send a request; ``response`` reads what comes back."""
        self._response = response
        self.take = response.feed
        # One write however large: the transport goes on with it only after reading. A second one could fail
        # on a backend that has answered and closed, and take the unread answer with it.
        self._transport.writelines((head, body) if body else (head,))

    def release(self) -> None:
        """Make ready for the next request, or close if the backend has not taken all of this one."""
        if not self.usable or self._transport.get_write_buffer_size():
            self.abort()
        else:
            self._response = None
            self.take = self._refuse
            self._owner.released(self)

    def pause(self) -> None:
        """Read no more for now."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Close an idle connection in good order."""
        self.usable = False
        self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self.usable = False
        self.take = _ignore
        self._transport.abort()

    def _refuse(self, _: bytes) -> None:
        """Nobody asked."""
        self.abort()

    def _end(self, cause: Exception | None) -> None:
        self.usable = False
        if self._response is not None:
            self._response.ended(cause)
