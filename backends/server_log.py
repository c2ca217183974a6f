"""The file that a server's output is appended to, which may be on a disk that is full."""

from __future__ import annotations

from io import FileIO
from typing import TYPE_CHECKING

from backends.commands import Command, Event

if TYPE_CHECKING:
    from collections.abc import Callable


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
