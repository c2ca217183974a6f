"""The files of the decision log: a line a request, rotated."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from glob import escape
from typing import TYPE_CHECKING, Final

from gateway.telemetry.decision_entry import entry_of
from gateway.telemetry.decision_schema import line_of
from gateway.telemetry.lines import HELD, Lines

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.core.outcome import Record

_log = logging.getLogger(__name__)

_BLOCK: Final = 2**16

_STAMP: Final = "[0-9]" * 8 + "T" + "[0-9]" * 12 + "Z"
"""Names a full file, between stem and suffix of the log: date, time and microseconds, UTC."""


def files_of(path: Path) -> list[Path]:
    """The files of a log in the order in which they were written: the full ones, then the one in use."""
    full = sorted(path.parent.glob(f"{escape(path.stem)}-{_STAMP}{escape(path.suffix)}"))
    return [*full, path] if path.exists() else full


class DecisionLog(Lines["Record"]):
    """A log of finished requests.

    Its files belong to one process. The one that is written has the given name; a full one is renamed to the
    time at which it was full, as in ``decisions-20261130T120000123456Z.jsonl``.

    Args:
        path: The file to write; what is in it stays, except a last line that a crash tore.
        seed: Of the gateway's draws.
        max_bytes: Size at which a file is full.
        keep: Full files kept; older ones are deleted.
        capacity: Requests held at most until they are written; further ones are dropped and counted.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(
        self, path: Path, seed: int, *, max_bytes: int = 2**26, keep: int = 16, capacity: int = HELD
    ) -> None:
        self._seed = seed
        self._secret = os.urandom(16)
        super().__init__("decision log", self._line, _File(path, max_bytes, keep).append, capacity)

    def _line(self, record: Record) -> bytes:
        return line_of(entry_of(record, self._seed, self._secret))


class _File:
    """The file that is written, and the full ones beside it. Opened anew for each write, so that it may be
    moved away or be on a disk that comes back."""  # noqa: D205, D209

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            _log.warning("made the folder %s for the decision log, as there was none", path.parent)
        with path.open("ab") as file:
            file.truncate(_whole(path))

    def append(self, lines: bytes) -> None:
        """Add lines, all or none; a file that they fill is put aside.

        Args:
            lines: Whole ones.

        Raises:
            OSError: None was written.
        """
        with self._path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                rest = memoryview(lines)
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(size)
                raise
            size = file.tell()
        if size >= self._max_bytes:
            self._put_aside()

    def _put_aside(self) -> None:
        full = files_of(self._path)[:-1]
        stamp = f"{datetime.fromtimestamp(self._path.stat().st_mtime, UTC):%Y%m%d%H%M%S%f}"
        if full:
            # The clock may have been set back: the newest file still has the last name.
            newest = full[-1].name[len(self._path.stem) + 1 :]
            stamp = max(stamp, f"{int(newest[:8] + newest[9:21]) + 1:020}")
        name = f"{self._path.stem}-{stamp[:8]}T{stamp[8:]}Z{self._path.suffix}"
        full.append(self._path.replace(self._path.with_name(name)))
        for old in full[: max(0, len(full) - self._keep)]:
            old.unlink(missing_ok=True)


def _whole(path: Path) -> int:
    """Bytes of a file up to the end of its last whole line."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
