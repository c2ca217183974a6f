"""Halves of surrogate pairs in JSON, which Python reads and writes and no UTF-8 can hold."""

from __future__ import annotations

import re
from typing import Final

_HALF: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD]...))"
)
"""A first half with no second behind it, or a second with no first before it."""

_REPLACEMENT: Final = rb"\\ufffd"
"""As a template, which is filled in without a call for each."""

_BACKSLASH: Final = rb"\\"
_STAND_IN: Final = b"\xff\xff"
"""Bytes of no UTF-8, so that a body that holds them is none that could be decoded."""


def replaced(body: bytes) -> bytes:
    r"""Puts the replacement character, which is as long, in place of each half of a pair.

    ``\ud800`` alone is what a cut through an emoji leaves. JSON allows it (RFC 8259, section 8.2), and
    Python's clients send it.

    Returns:
        A body that can be decoded; the same object where there is nothing to replace.
    """
    if rb"\ud" not in body and rb"\uD" not in body:
        return body
    if _STAND_IN[:1] in body:
        return body
    # Without escaped backslashes, every backslash begins an escape.
    escapes = body.replace(_BACKSLASH, _STAND_IN)
    if _HALF.search(escapes) is None:
        return body
    return _HALF.sub(_REPLACEMENT, escapes).replace(_STAND_IN, _BACKSLASH)
