"""Who a request is: its id, and the draws that follow from it."""

from __future__ import annotations

import re
from hashlib import blake2b
from os import urandom
from typing import Final

from gateway.core.decide import Draw

_ACCEPTED: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


BYTES: Final = 16
"""Random bytes that a new request id is made of."""


def request_id(given: bytes | None, random: bytes = b"") -> str:
    """The caller's request id if it can be a header, or a new one, of the random bytes if any are given."""
    if given is not None and _ACCEPTED.fullmatch(given):
        return given.decode("ascii")
    return (random or urandom(BYTES)).hex()


def draw(identity: str, seed: int) -> Draw:
    """Random numbers of a request; the same id and seed give the same ones, so decisions can be replayed."""
    digest = blake2b(identity.encode(), digest_size=16, key=seed.to_bytes(8, "big")).digest()
    return Draw(int.from_bytes(digest[:8], "big") / 2**64, int.from_bytes(digest[8:], "big") / 2**64)
