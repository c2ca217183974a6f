"""What a server writes: the file that it is appended to, on a disk that may be full, and why it ended."""

from __future__ import annotations

import re
from io import FileIO
from typing import TYPE_CHECKING, Final

from backends.commands import Command, Event

if TYPE_CHECKING:
    from collections.abc import Callable


_CAUSE: Final = re.compile(r"(?:^|[\s\]])((?:[\w.]*(?:Error|Exception)|error): \S.*)")
_POINTS_BACK: Final = "root cause"
"""In what vLLM's processes say of an error of another one."""


def cause(line: str) -> str | None:
    """The error that a line tells, as Python or argparse writes them; None where it tells none of its own."""
    found = None if _POINTS_BACK in line else _CAUSE.search(line)
    return found[1] if found else None


class Log:
    """The log of a server, for as long as it can be written; that it cannot ends no server."""

    def __init__(self, command: Command, tell: Callable[[str, Event, str], None]) -> None:
        self._command = command
        self._tell = tell
        self._file: FileIO | None = None
        try:
            self._file = FileIO(command.log, "ab")
        except OSError as error:
            self._lost(error)

    def write(self, piece: bytes) -> None:
        """Append, or say once why that cannot be done."""
        if self._file is None:
            return
        try:
            while piece := piece[self._file.write(piece) :]:
                pass
        except OSError as error:
            self.close()
            self._lost(error)

    def close(self) -> None:
        """Close it; more than once does no harm."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lost(self, error: OSError) -> None:
        self._tell(self._command.name, Event.UNLOGGED, f"{self._command.log}: {error.strerror}")
