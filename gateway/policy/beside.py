"""Reading a file that a policy names: a regular one beside it, of a bounded size."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISREG
from typing import Final

MOST_BYTES: Final = 4 * 2**20
"""What `specroute classify --train` writes is far smaller."""


class UnreadableError(ValueError):
    """The file cannot be read, or may not be."""


def read_beside(folder: Path, name: str) -> str:
    """The text of a file in the policy's folder or below it; links are followed. Never waits for a writer.

    Args:
        folder: The policy's folder.
        name: The file's path from there.

    Raises:
        UnreadableError: It is elsewhere, not there, not a regular file, too large or not UTF-8.
    """
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise UnreadableError("it is not in the policy's folder")
    try:
        return _regular(folder / path).decode()
    except OSError as error:
        raise UnreadableError(str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not UTF-8: {error.reason}") from error


def _regular(path: Path) -> bytes:
    try:
        # Without the flags a pipe would be waited for, and a terminal would become ours.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError as error:
        raise UnreadableError("that cannot be the name of a file") from error
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:
        raise UnreadableError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    return content
