"""Passing on the rest of a stream, from connection to connection, with no task switch for a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.runtime import clock

if TYPE_CHECKING:
    from gateway.wire.client import Client
    from gateway.wire.patience import Patience
    from gateway.wire.pipe import Pipe
    from gateway.wire.resume import Splice
    from gateway.wire.sse import StreamTap
    from gateway.wire.upstream import UpstreamResponse


class KeptBackError(Exception):
    """The stream ended with an error event that is kept back, so that another backend may go on."""


async def pour(
    response: UpstreamResponse, tap: StreamTap | Splice, client: Client, pipe: Pipe, patience: Patience
) -> None:
    """Pass on what is left of a stream that has begun.

    Args:
        response: Gives it.
        tap: Reads it on the way.
        client: Gets it.
        pipe: The way to the client.
        patience: Is told when bytes come.

    Raises:
        KeptBackError: It ended so.
        UpstreamError: It broke off.
    """
    passes, passes_framed, feed = tap.passes, tap.passes_framed, tap.feed
    write, write_framed, chunked = pipe.pouring()

    def take(chunk: bytes) -> None:
        now = clock.monotonic()
        patience.last = now
        if not passes(chunk, now):
            chunk = feed(chunk, now)
            client.between_events = tap.between_events
        if chunk:
            client.last_sent = now
            client.bytes_out += len(chunk)
            if not write(chunk):
                client.fell_behind(now)
                response.pause()
        if tap.error:
            raise KeptBackError

    def take_framed(chunk: bytes) -> bool:
        now = clock.monotonic()
        size = passes_framed(chunk, now)
        if not size:
            return False
        patience.last = client.last_sent = now
        client.bytes_out += size
        if not write_framed(chunk):
            client.fell_behind(now)
            response.pause()
        return True

    client.catches_up(pipe, response.resume)
    await response.pipe(take, take_framed if chunked else None)
