"""Who a request is: its id, and the draws that follow from it."""

from __future__ import annotations

import re
from hashlib import blake2b
from os import urandom
from typing import TYPE_CHECKING, Final

from gateway.core.decide import Draw
from gateway.telemetry.identifiers import is_id
from gateway.wire import headers as names

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES: Final = 16
"""Random bytes that a new request id is made of."""

_PARTS: Final = re.compile("[ =;,]+")
"""What stands between the parts of a credential."""

_TELLING: Final = 8
"""Characters from which on it is no chance that an id is part of a credential, or it of the id."""


def request_id(fields: Mapping[bytes, bytes], random: bytes = b"") -> str:
    """The caller's request id if it is one, or a new one, of the random bytes if any are given.

    It goes to logs, spans and the backend, so that one which looks like a key, or has to do with the
    credentials that it came with, is not taken.

    Args:
        fields: Headers of the request by lower-cased name.
        random: :data:`BYTES` random bytes.
    """
    given = fields.get(names.REQUEST_ID)
    if given is not None and is_id(found := given.decode("latin-1")) and not _is_secret(found, fields):
        return found
    return (random or urandom(BYTES)).hex()


def _is_secret(found: str, fields: Mapping[bytes, bytes]) -> bool:
    """Whether an id and a part of a credential hold one another."""
    for name in names.SECRETS & fields.keys():
        held = fields[name].decode("latin-1")
        if len(found) >= _TELLING and found in held:
            return True
        if any(len(part) >= _TELLING and part in found for part in _PARTS.split(held)):
            return True
    return False


def draw(identity: str, seed: int) -> Draw:
    """Random numbers of a request; the same id and seed give the same ones, so decisions can be replayed."""
    digest = blake2b(identity.encode(), digest_size=16, key=seed.to_bytes(8, "big")).digest()
    return Draw(int.from_bytes(digest[:8], "big") / 2**64, int.from_bytes(digest[8:], "big") / 2**64)
