"""Writes whole lines to stderr, past Python's buffer: a write that blocks would hold the lock of that."""

from __future__ import annotations

import os
import sys
from typing import Final

_AT_ONCE: Final = 4096
"""Bytes that a pipe takes whole (PIPE_BUF): several threads and workers write to one, lines must not mix."""


def write(lines: bytes, descriptor: int | None = None) -> None:
    """Write whole lines; blocks for as long as nobody reads, so do not call it in the event loop.

    Args:
        lines: Each with its end.
        descriptor: Of the file to write to; that of stderr if left out.

    Raises:
        OSError: Not all could be written.
    """
    if descriptor is None:
        if sys.__stderr__ is None:  # then its number may be that of any other file
            raise OSError("the process was started without stderr")
        descriptor = sys.__stderr__.fileno()
    start = 0
    while start < len(lines):
        end = lines.rfind(b"\n", start, start + _AT_ONCE) + 1 or lines.index(b"\n", start) + 1
        while start < end:
            start += os.write(descriptor, lines[start:end])
