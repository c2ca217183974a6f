"""Requests from a file, a JSON object a line: what can be used of it, and what is wrong with the rest."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.cli.files import refuse

STDIN: Final = Path("-")

_BODY_KEYS: Final = frozenset({"messages", "prompt", "input"})
_LABEL_KEYS: Final = ("label", "workload")
_LINE: Final = '{"request": {"messages": [...]}, "label": "code"}, or the body of a call alone'
_GZIP: Final = b"\x1f\x8b"
_BOM: Final = "\ufeff"
_SURROGATE: Final = "\\ud"


class UnusableLineError(ValueError):
    """What is wrong with a line, and what would be right."""


@dataclass(frozen=True, slots=True)
class Line:
    """One request.

    Attributes:
        number: Of the line in its file, from 1.
        row: Everything the line says beside its request.
        request: The body of a call.
        label: The true label, None where the line does not say it.
    """

    number: int
    row: dict[str, Any]
    request: dict[str, Any]
    label: str | None


@dataclass(frozen=True, slots=True)
class Requests:
    """A file of requests.

    Attributes:
        lines: Those that can be used.
        problems: One for each line that cannot, as ``FILE:LINE: what, and what would be right``.
    """

    lines: tuple[Line, ...]
    problems: tuple[str, ...]


def read(file: Path) -> Requests:
    """Read a file, plain or gzip, or stdin for ``-``; the command ends where there is nothing to read."""
    lines, problems = [], []
    for number, raw in enumerate(_content(file).split(b"\n"), start=1):
        try:
            text = raw.decode().removeprefix(_BOM if number == 1 else "").strip()
            if text:
                lines.append(_line(number, text))
        except UnicodeDecodeError as error:
            problems.append(f"{file}:{number}: not UTF-8 text, at byte {error.start} of the line")
        except UnusableLineError as error:
            problems.append(f"{file}:{number}: {error}")
    if not lines and not problems:
        refuse(f"{file}: there is no request in it; a line is {_LINE}")
    return Requests(tuple(lines), tuple(problems))


def _content(file: Path) -> bytes:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        return gzip.decompress(content) if content.startswith(_GZIP) else content
    except (EOFError, zlib.error, gzip.BadGzipFile):
        refuse(f"{file}: not a whole gzip file")
    except OSError as error:
        refuse(f"{file}: {error.strerror}")


def _line(number: int, text: str) -> Line:
    try:
        row = json.loads(text)
        if _SURROGATE in text.lower():  # half a pair is no text; the other half may be there as well
            row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise UnusableLineError(f"not JSON ({error}); a line is {_LINE}") from error
    if not isinstance(row, dict):
        raise UnusableLineError(f"not a JSON object; a line is {_LINE}")
    label = _label(row)
    if isinstance(row.get("request"), dict):
        return Line(number, row, row["request"], label)
    if "request" not in row and not _BODY_KEYS.isdisjoint(row):
        return Line(number, row, {key: one for key, one in row.items() if key not in _LABEL_KEYS}, label)
    raise UnusableLineError(f"no request, or one that is no object; a line is {_LINE}")


def _label(row: dict[str, Any]) -> str | None:
    """The label a line says, None where it says none or an empty one."""
    said = next((row[key] for key in _LABEL_KEYS if row.get(key) is not None), None)
    if said is not None and not isinstance(said, str):
        raise UnusableLineError(f'the label is {json.dumps(said)}; a label is text such as "code"')
    return (said or "").strip() or None
