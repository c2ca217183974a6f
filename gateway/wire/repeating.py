"""Which requests may be sent again once a server may have read them: those that change nothing there."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.runtime.foreign import UNREADABLE
from gateway.wire.endpoints import OTHER
from gateway.wire.parameters import ABSENT

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that ask for nothing to be done (RFC 9110, 9.2.1)."""

_NO: Final = ABSENT | {b"false"}


class _Kept(msgspec.Struct):
    store: msgspec.Raw = msgspec.Raw()
    background: msgspec.Raw = msgspec.Raw()


_KEPT: Final = msgspec.json.Decoder(_Kept)


def repeatable(method: str, endpoint: str, body: bytes) -> bool:
    """Whether a request may be sent again, to the same server or another, once one may have read it.

    What is generated or computed from a request has no side effects, unless the server is asked to keep the
    answer. What a path does that is not known here may be anything.

    Args:
        method: As the client sent it.
        endpoint: One of :data:`gateway.core.features.ENDPOINTS`.
        body: As the client sent it.
    """
    if endpoint == "responses":
        return not _is_kept(body)
    return endpoint != OTHER or method in _SAFE


def _is_kept(body: bytes) -> bool:
    """Whether a request for a response says that it outlives the connection; strange values may mean it."""
    try:
        asked = _KEPT.decode(body)
    except UNREADABLE:
        return True
    return not {bytes(asked.store), bytes(asked.background)} <= _NO
