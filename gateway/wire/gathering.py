"""Gathers what is not passed on as it comes: whole answers, and what follows an error."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.wire.upstream import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.wire.resume import Splice
    from gateway.wire.sse import StreamTap
    from gateway.wire.upstream import UpstreamResponse

    Arrived = Callable[[], float]

REST_SECONDS: Final = 1.0
"""How long what follows an error is waited for, with which a stream begins: another backend may do better."""


async def whole(response: UpstreamResponse, limit: int, arrived: Arrived) -> bytes:
    """The body of an answer.

    Args:
        response: Gives it.
        limit: Most bytes.
        arrived: Called when bytes came.

    Raises:
        UpstreamError: It broke off, or is larger.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in response.body():
        arrived()
        size += len(chunk)
        if size > limit:
            raise UpstreamError("first_byte", "too_large", f"more than {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def rest(response: UpstreamResponse, tap: StreamTap | Splice, limit: int, arrived: Arrived) -> bytes:
    """What a stream brings after its error, as far as it comes soon.

    Args:
        response: Gives it.
        tap: Reads it.
        limit: Bytes after which the rest is left.
        arrived: Called when bytes came; returns the time, monotonic seconds.
    """
    found = b""
    with suppress(UpstreamError, TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            async for chunk in response.body():
                found += tap.feed(chunk, arrived())
                if len(found) > limit:
                    break
    return found
