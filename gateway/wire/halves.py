"""Halves of surrogate pairs in JSON, which Python reads and writes and no UTF-8 can hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.wire.pieces import BACKSLASH, piece_at

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE: Final = 2**14
"""Bytes of a piece: one full of halves takes less than a millisecond."""

_HALF: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD]...))"
)
"""A first half with no second behind it, or a second with no first before it."""

_FIRST: Final = re.compile(rb"\\u[dD][89abAB]")
_ESCAPE: Final = 6
"""Bytes of the escape of a half."""

_REPLACEMENT: Final = rb"\\ufffd"
"""As a template, which is filled in without a call for each."""

_STAND_IN: Final = b"\xff\xff"
"""Bytes of no UTF-8, so that a body that holds them is none that could be decoded."""


def occur(body: bytes) -> bool:
    """Whether halves, or pairs of them, may stand in a body that could be decoded otherwise."""
    return (rb"\ud" in body or rb"\uD" in body) and _STAND_IN[:1] not in body


def replaced(body: bytes) -> Iterator[bytes]:
    r"""Puts the replacement character, which is as long, in place of each half of a pair.

    ``\ud800`` alone is what a cut through an emoji leaves. JSON allows it (RFC 8259, section 8.2), and
    Python's clients send it.

    Args:
        body: One in which they :func:`occur`.

    Yields:
        The body, piece by piece, as to find millions of them takes a second.
    """
    at = 0
    while at < len(body):
        piece = piece_at(body, at, _PIECE)
        # Without escaped backslashes, every backslash begins an escape.
        escapes = piece.replace(BACKSLASH, _STAND_IN)
        end = len(escapes) if at + len(piece) == len(body) else _border(escapes)
        yield _HALF.sub(_REPLACEMENT, escapes[:end]).replace(_STAND_IN, BACKSLASH)
        at += end


def _border(escapes: bytes) -> int:
    """Where a piece can end, so that neither an escape nor a pair is cut in two."""
    last = escapes.rfind(b"\\", len(escapes) - _ESCAPE)
    if last < 0:
        return len(escapes)
    return last - _ESCAPE if _FIRST.match(escapes, last - _ESCAPE) else last
