"""The file of a sweep: every request as a line, and after each round a line that says it counts.

What was written before a crash is read again, and a sweep goes on from there. Requests of a round
that did not come to its end stay in the file and do not count.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from backends.sweep.model import Cell, Round, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO
    from pathlib import Path

VERSION: Final = 1


class UnusableLogError(RuntimeError):
    """A file cannot be gone on with; the text says why and what to do."""


class DiskError(OSError):
    """The file cannot be written; the text says why."""


@dataclass(slots=True)
class Read:
    """What a file holds.

    Attributes:
        header: What is measured, as it was given.
        rounds: Those that count, each with its samples.
        lost: Rounds that ended and do not count, for lines before their end cannot be read.
        damaged: Whether a line since the last end of a round cannot be read.
    """

    header: dict[str, Any] = field(default_factory=dict)
    rounds: list[tuple[Round, list[Sample]]] = field(default_factory=list)
    lost: int = 0
    damaged: bool = False


class Log:
    """A file that a sweep writes to. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Name the file; it is opened by entering.

        Args:
            path: Of the file; its folder must be there.
        """
        self._path = path
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        """Open it for writing at its end, and keep others from doing so.

        Raises:
            UnusableLogError: Another sweep has it open.
        """
        self._file = self._path.open("ab", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            said = f"another sweep writes to {self._path}; wait for it, or name another folder"
            raise UnusableLogError(said) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        if self._file is not None:
            self._file.close()

    def begin(self, header: Mapping[str, Any]) -> None:
        """Write what will be measured."""
        self._line("sweep", {"version": VERSION, **header})

    def go_on(self, prompts: Mapping[str, str] | None = None) -> None:
        """Write that a new run goes on here: of rounds that the one before left open nothing counts.

        Args:
            prompts: As in the header; those that are new are read with it.
        """
        if _torn(self._path):
            self._write(b"\n")
        self._line("resumed", {"prompts": dict(prompts)} if prompts else {})

    def sample(self, one: Sample) -> None:
        """Write a request."""
        self._line("sample", one.as_json())

    def round(self, one: Round) -> None:
        """Write that a round came to its end, and wait until it is on the disk."""
        self._line("round", one.as_json())
        self._sync()

    def broken(self, cell: Cell, number: int, why: str) -> None:
        """Write that a round broke off: what was written of it does not count."""
        line = {"candidate": cell.candidate.label, "condition": cell.condition.label, "number": number}
        self._line("broken", {**line, "why": why})

    def failed(self, what: str, why: str) -> None:
        """Write that a candidate or a cell was given up; the next run tries it again."""
        self._line("failed", {"what": what, "why": why})

    def _line(self, kind: str, content: Mapping[str, Any]) -> None:
        written = json.dumps({"kind": kind, **content}, ensure_ascii=False, separators=(",", ":"))
        self._write(written.encode() + b"\n")

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise AssertionError("the file is opened by entering")
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            raise DiskError(error.errno, f"{self._path}: {error.strerror}") from error

    def _sync(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())


def _torn(path: Path) -> bool:
    """Whether a file ends within a line."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read(path: Path) -> Read | None:
    """Read a file; None if there is none or nothing was written to it yet.

    Raises:
        UnusableLogError: It is not of a sweep, or of another version.
    """
    found = Read()
    pending: dict[tuple[Cell, int], list[Sample]] = {}
    if not path.is_file():
        return None
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            kind = content.pop("kind")
            _take(kind, content, found, pending)
        except (ValueError, KeyError, TypeError, AttributeError):
            if number == 1:
                raise UnusableLogError(f"{path} is no file of a sweep; name another folder") from None
            # A line that a crash cut off is the last one of its run: nothing that counts depends on it.
            # Any other one may be of the round that ends next.
            found.damaged = True
    return found if found.header else None


def _take(
    kind: str, content: dict[str, Any], found: Read, pending: dict[tuple[Cell, int], list[Sample]]
) -> None:
    match kind:
        case "sweep":
            if content["version"] != VERSION:
                raise UnusableLogError(f"it was written by another version ({content['version']})")
            found.header = found.header or content
        case "sample":
            one = Sample.from_json(content)
            pending.setdefault((one.cell, one.round), []).append(one)
        case "round":
            finished = Round.from_json(content)
            samples = pending.pop((finished.cell, finished.number), [])
            if found.damaged or not samples:
                found.lost += 1
            else:
                found.rounds.append((finished, samples))
            found.damaged = False
        case "resumed":
            pending.clear()
            found.damaged = False
            if more := content.get("prompts"):
                found.header["prompts"] = {**found.header.get("prompts", {}), **more}
        case "broken":
            for key in [key for key in pending if key[0].candidate.label == content["candidate"]]:
                del pending[key]
