"""Who a request is: its id, and the draws that follow from it."""

from __future__ import annotations

from hashlib import blake2b
from os import urandom
from typing import TYPE_CHECKING, Final

from gateway.core.decide import Draw
from gateway.core.identifiers import is_id
from gateway.wire.credentials import has_to_do_with

if TYPE_CHECKING:
    from gateway.wire.headers import Headers

BYTES: Final = 16
"""Random bytes that a new request id is made of."""


def request_id(given: bytes | None, headers: Headers, query: bytes = b"", random: bytes = b"") -> str:
    """The caller's request id if it is one, or a new one, of the random bytes if any are given.

    It goes to logs, spans and the backend, so that one which looks like a key, or has to do with the
    credentials that it came with, is not taken.

    Args:
        given: What the caller says that it is, None if nothing.
        headers: All of the request.
        query: As it was received.
        random: :data:`BYTES` random bytes.
    """
    if (
        given is not None
        and is_id(found := given.decode("latin-1"))
        and not has_to_do_with(given, headers, query)
    ):
        return found
    return (random or urandom(BYTES)).hex()


def draw(identity: str, seed: int) -> Draw:
    """Random numbers of a request; the same id and seed give the same ones, so decisions can be replayed."""
    digest = blake2b(identity.encode(), digest_size=16, key=seed.to_bytes(8, "big")).digest()
    return Draw(int.from_bytes(digest[:8], "big") / 2**64, int.from_bytes(digest[8:], "big") / 2**64)
