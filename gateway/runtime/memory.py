"""Memory that processes share which are forked later."""

from __future__ import annotations

from mmap import mmap

_BYTES = 8


def rows(count: int, width: int) -> list[memoryview[int]]:
    """So many rows of whole numbers, all 0; what nobody has written to takes no place.

    Args:
        count: How many rows.
        width: Numbers in each.
    """
    numbers = memoryview(mmap(-1, count * width * _BYTES)).cast("q")
    return [numbers[at * width : (at + 1) * width] for at in range(count)]
