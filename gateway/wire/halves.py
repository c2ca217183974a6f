"""Halves of surrogate pairs in JSON, which Python reads and writes and no UTF-8 can hold."""

from __future__ import annotations

import re
from typing import Final

_ESCAPED: Final = re.compile(
    rb"\\(?:([^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
_REPLACEMENT: Final = rb"\ufffd"


def replaced(body: bytes) -> bytes:
    r"""Puts the replacement character, which is as long, in place of each half of a pair.

    ``\ud800`` alone is what a cut through an emoji leaves. JSON allows it (RFC 8259, section 8.2), and
    Python's clients send it.

    Returns:
        A body that can be decoded; the same object where there is nothing to replace.
    """
    if rb"\ud" not in body and rb"\uD" not in body:
        return body
    return _ESCAPED.sub(lambda found: found[0] if found[1] else _REPLACEMENT, body)
