"""Arrays of more items than are read one by one: what is read of them instead."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.wire.pieces import BACKSLASH, piece_at

if TYPE_CHECKING:
    from collections.abc import Iterator

ITEMS: Final = 5_000
"""Objects or texts of an array that are read whole; beyond, its beginning and its end stand for it."""

TEXTS: Final = 6 * ITEMS
"""The same of texts, names of fields among them."""

_SHORTEST: Final = 3 * ITEMS
_COMMAS: Final = 100_000
_SIGNS: Final = ((b"{", ITEMS, 2), (b'"', 2 * TEXTS, 1), (b",", _COMMAS, 2))
"""Signs, how many make a crowd, and the fewest bytes from one to the next."""

_PIECE: Final = 2**16
_FEW: Final = 32
_SAMPLED_BYTES: Final = 2**16
_TEXT_BYTES: Final = 2**14
"""The same of texts, which may be very short and are read one by one."""

_START: Final = re.compile(rb'\{\s*"(?:role|content|type|name|id|status|tool_call)')
"""Where a message may begin, or a part of one."""

_TRIES: Final = 64
_TOOL_NAME: Final = re.compile(rb'"name"\s*:\s*"([^"\\]{1,64})"')
_NUMBER: Final = re.compile(rb"\[[\s\[]*+-?[0-9]")
_OF_TEXTS: Final = re.compile(rb'\[\s*"')
_TEXT_END: Final = re.compile(rb'"\s*,')
_WHITE: Final = b" \t\r\n"


def crowded(array: bytes) -> bool:
    """Whether an array, or what it holds, may have more than :data:`ITEMS` items.

    What counts stands outside of texts: a long text is no crowd, whatever is in it.
    """
    if len(array) < _SHORTEST:
        return False
    # Single bytes tell most arrays apart, and are counted fastest.
    if not any(_more_than(limit, sign, array, apart) for sign, limit, apart in _SIGNS):
        return False
    at = quotes = objects = commas = 0
    while at < len(array):
        piece = piece_at(array, at, _PIECE)
        at += len(piece)
        quoted = piece.replace(BACKSLASH, b"__").replace(b'\\"', b"__")
        before, quotes = quotes, quotes + quoted.count(b'"')
        if quotes > 2 * TEXTS:
            return True
        outside = b"".join(quoted.split(b'"')[before % 2 :: 2])
        objects += outside.count(b"{")
        commas += outside.count(b",")
        if objects > ITEMS or commas > _COMMAS:
            return True
    return False


def _more_than(limit: int, sign: bytes, array: bytes, apart: int) -> bool:
    at = -1
    for _ in range(_FEW):
        if (at := array.find(sign, at + 1)) < 0:
            return False
    if _FEW + (len(array) - at) // apart <= limit:
        return False
    return int(np.count_nonzero(np.frombuffer(array, np.uint8) == ord(sign))) > limit


def numbers(array: bytes) -> int | None:
    """How many numbers an array, or an array of arrays, holds; None if it holds something else."""
    return array.count(b",") + 1 if _NUMBER.match(array) else None


def first_texts(array: bytes) -> Iterator[bytes]:
    """Beginnings of an array of texts, each as an array of its own, the longest first.

    Only those that end with a whole text are JSON.
    """
    head = array[:_TEXT_BYTES]
    if _OF_TEXTS.match(head) is None:
        return
    for found in reversed(deque(_TEXT_END.finditer(head), _TRIES)):
        yield head[: found.start() + 1] + b"]"


def first_messages(array: bytes) -> Iterator[bytes]:
    """Beginnings of an array of messages, each as an array of its own, the longest first.

    Only those that end with a whole message are JSON.
    """
    head = array[:_SAMPLED_BYTES]
    starts = [found.start() for found in _START.finditer(head)]
    for start in reversed(starts[-_TRIES:]):
        yield head[:start].rstrip(_WHITE + b",") + b"]"


def last_messages(array: bytes) -> Iterator[bytes]:
    """Ends of an array of messages, each as an array of its own, the longest first; likewise."""
    tail = array[-_SAMPLED_BYTES:]
    for found in islice(_START.finditer(tail), _TRIES):
        yield b"[" + tail[found.start() :]


def tool_names(array: bytes) -> list[str]:
    """Names at the beginning of an array of tools."""
    return [name.decode("utf-8", "replace") for name in _TOOL_NAME.findall(array[:_SAMPLED_BYTES])]
