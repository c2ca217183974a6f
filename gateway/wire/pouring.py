"""Passing on the rest of a stream, from connection to connection, with no task switch for a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.runtime import clock
from gateway.wire.sse import StreamTap

if TYPE_CHECKING:
    from gateway.wire.client import Client
    from gateway.wire.patience import Patience
    from gateway.wire.pipe import Pipe
    from gateway.wire.resume import Splice
    from gateway.wire.upstream import Shortcut, Sink, UpstreamResponse


_QUOTE: Final = ord(b'"')


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

    def take(chunk: bytes) -> None:
        now = clock.monotonic()
        patience.last = now
        if not tap.passes(chunk, now):
            chunk = tap.feed(chunk, now)
            client.between_events = tap.between_events
        if chunk:
            client.last_sent = now
            client.bytes_out += len(chunk)
            if not pipe.write(chunk):
                client.fell_behind(now)
                response.pause()
        if tap.error:
            raise KeptBackError

    client.catches_up(pipe, response.resume)
    await response.pipe(take, _shortcut(response, tap, client, pipe) if isinstance(tap, StreamTap) else None)


def _shortcut(response: UpstreamResponse, tap: StreamTap, client: Client, pipe: Pipe) -> Shortcut | None:
    """The way of a chunk like those before it, from one connection to the other: what most of a stream takes.

    One function, in which nothing is looked up that can be known before: each call more is a twentieth of
    what a chunk costs.
    """
    if (inside := pipe.inside()) is None:
        return None
    write, flow, cycle = inside
    reading, keep, monotonic = tap.reading, tap.reading.keep, clock.monotonic

    def shortcut(usual: Sink) -> Sink:
        def take(chunk: bytes) -> None:
            if (frame := tap.frames.get(len(chunk))) is None:
                usual(chunk)
                return
            head, tail, length, size = frame
            text = chunk.removeprefix(head).removesuffix(tail)
            if len(text) != length or _QUOTE in text or cycle.disconnected:
                usual(chunk)
                return
            write(chunk)
            client.last_sent = reading.last_token_at = monotonic()
            reading.events += 1
            client.bytes_out += size
            if tap.keeps:
                tap.keeps = keep(b'"%b"' % text)
            if flow.write_paused:
                pipe.hold_back()
                client.fell_behind(reading.last_token_at)
                response.pause()

        return take

    return shortcut
