"""Which requests may be sent again once a server may have read them: those that change nothing there."""

from __future__ import annotations

from typing import Final

from gateway.wire.endpoints import OTHER

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that ask for nothing to be done (RFC 9110, 9.2.1)."""


def repeatable(method: str, endpoint: str, *, kept: bool) -> bool:
    """Whether a request may be sent again, to the same server or another, once one may have read it.

    What is generated or computed from a request has no side effects, unless the server is asked to keep the
    answer. What a path does that is not known here may be anything.

    Args:
        method: As the client sent it.
        endpoint: One of :data:`gateway.core.features.ENDPOINTS`.
        kept: Whether the server is asked to keep the answer.
    """
    if endpoint == "responses":
        return not kept
    return endpoint != OTHER or method in _SAFE
