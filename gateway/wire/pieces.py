"""Long JSON in pieces that can be looked at one by one."""

from __future__ import annotations

from typing import Final

BACKSLASH: Final = rb"\\"
"""The escape of one."""


def piece_at(body: bytes, at: int, size: int) -> bytes:
    """About so many bytes of a body.

    Args:
        body: The whole.
        at: Where the piece begins; no backslash before it escapes what stands there.
        size: Bytes, at least two.

    Returns:
        A piece that ends behind no backslash that escapes what comes, unless the body ends there.
    """
    piece = body[at : at + size]
    odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2
    return piece[: len(piece) - odd] if at + size < len(body) else piece
