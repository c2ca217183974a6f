"""Where a sequence is another than it was, found quickly where most of it is not."""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_PIECE: Final = 32
"""Of a long sequence so many at once are compared, which takes as long as to look at two one by one."""


def changes(before: Sequence[object], after: Sequence[object]) -> list[int]:
    """Places at which a sequence has other objects than one as long; of a long one, only if they differ."""
    if after is before:
        return []
    if len(after) <= _PIECE:
        return [*compress(range(len(after)), map(is_not, before, after))]
    found: list[int] = []
    for start in range(0, len(after), _PIECE):
        old, new = before[start : start + _PIECE], after[start : start + _PIECE]
        if old != new:
            found += compress(range(start, start + _PIECE), map(is_not, old, new))
    return found
