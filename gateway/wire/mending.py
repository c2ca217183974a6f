"""Bodies that Python's servers can read and other readers of JSON cannot, made such that all can."""

from __future__ import annotations

from json import detect_encoding

from gateway.runtime.tasks import in_turns
from gateway.wire import halves


async def mended(body: bytes) -> bytes:
    """A body in UTF-8, with no mark of its byte order and no halves of surrogate pairs.

    No tokenizer takes such halves, and UTF-16 and UTF-32 are JSON within closed systems alone (RFC 8259,
    section 8.1); but Python's ``json`` reads both, and so does a server that uses it.

    Returns:
        The same object where there is nothing to mend.
    """
    body = _in_utf8(body)
    if not halves.occur(body):
        return body
    pieces: list[bytes] = []
    await in_turns(map(pieces.append, halves.replaced(body)))
    whole = b"".join(pieces)
    return body if whole == body else whole


def _in_utf8(body: bytes) -> bytes:
    encoding = detect_encoding(body)
    if encoding == "utf-8":
        return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError:
        return body
