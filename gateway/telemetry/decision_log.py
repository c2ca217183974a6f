"""The files of the decision log: a line a request, rotated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gateway.telemetry.decision_entry import entry_of
from gateway.telemetry.decision_schema import line_of
from gateway.telemetry.lines import HELD, Lines

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.core.outcome import Record

_BLOCK: Final = 2**16


def files_of(path: Path) -> list[Path]:
    """The files of a log, oldest first: the full ones, then the one that is written."""
    full = sorted(path.parent.glob(f"{path.stem}-[0-9]*Z{path.suffix}"))
    return [*full, path] if path.exists() else full


class DecisionLog(Lines["Record"]):
    """A log of finished requests.

    Its files belong to one process. The one that is written has the given name; a full one is renamed to the
    time of its last request, as in ``decisions-20261130T120000123456Z.jsonl``.

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
        self._file = _File(path, max_bytes, keep)
        self._seed = seed
        self._secret = os.urandom(16)
        self._time = ""
        super().__init__("decision log", self._line, self._append, capacity)

    def _line(self, record: Record) -> bytes:
        entry = entry_of(record, self._seed, self._secret)
        self._time = entry.time
        return line_of(entry)

    def _append(self, lines: bytes) -> None:
        self._file.append(lines, self._time)


class _File:
    """The file that is written, and the full ones beside it. Opened anew for each write, so that it may be
    moved away or be on a disk that comes back."""  # noqa: D205, D209

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.truncate(_whole(path))

    def append(self, lines: bytes, time: str) -> None:
        """Add lines, all or none; a file that they fill is put aside.

        Args:
            lines: Whole ones.
            time: Of the last of them.

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
            self._put_aside(time)

    def _put_aside(self, time: str) -> None:
        stamp = "".join(sign for sign in time if sign.isalnum())
        self._path.replace(self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
        full = [each for each in files_of(self._path) if each != self._path]
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
