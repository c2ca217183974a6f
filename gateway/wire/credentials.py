"""What a request shows its client to be: credentials, wherever clients and the proxies before us put them."""

from __future__ import annotations

import re
from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.wire.headers import Headers

_SECRET_NAME: Final = re.compile(
    rb"(?<!idempotency-)(?<!idempotency_)key|auth|token|secret|passw|credential|cookie|jwt|assertion|signature"
    rb"|client-cert|dpop",
    re.IGNORECASE,
)
"""What names of headers and of fields of a query have in them where the value is a credential."""

_USUAL: Final = 64
"""Bytes of the longest name that is kept: a client can make up any."""

_BETWEEN: Final = re.compile(rb"[ =;,:\"]+")
"""What stands between the parts of a credential."""

_BASIC: Final = re.compile(rb" *basic +(.*)", re.IGNORECASE | re.DOTALL)
_FIELDS: Final = re.compile(rb"[&;]")

_WHOLE: Final = 4
_TELLING: Final = 8
"""Characters from which on it is no chance that an id is such a part, or that one of them holds the other."""


def has_to_do_with(text: bytes, headers: Headers, query: bytes) -> bool:
    """Whether a text is a part of a credential of the request, or holds one.

    Args:
        text: Of a few characters, with none that stand between parts but colons.
        headers: All of the request.
        query: As it was received.
    """
    text = text.lower()
    return any(_hold_one_another(text, each.lower()) for each in _credentials(headers, query))


def _tells(name: bytes) -> bool:
    """Whether what has this name is a credential."""
    return _known(name) if len(name) <= _USUAL else bool(_SECRET_NAME.search(name))


@lru_cache(1024)
def _known(name: bytes) -> bool:
    """The same; to look takes microseconds, and requests have the same names again and again."""
    return bool(_SECRET_NAME.search(name))


def _credentials(headers: Headers, query: bytes) -> Iterator[bytes]:
    for name, value in headers:
        if _tells(name):
            yield unquote_to_bytes(value)
            if basic := _BASIC.match(value):
                yield _decoded(basic[1])
    for field in _FIELDS.split(query) if query else ():
        name, _, value = field.partition(b"=")
        if value and _tells(unquote_to_bytes(name)):
            yield unquote_to_bytes(value)


def _decoded(encoded: bytes) -> bytes:
    """What stands in base64, nothing if that cannot be."""
    try:
        return b64decode(encoded + b"==", b"-_")  # further signs of the end do no harm
    except ValueError:
        return b""


def _hold_one_another(text: bytes, credential: bytes) -> bool:
    if len(text) >= _TELLING and text in credential:
        return True
    return any(
        (len(part) >= _TELLING and part in text) or (len(text) >= _WHOLE and part == text)
        for part in _BETWEEN.split(credential)
    )
