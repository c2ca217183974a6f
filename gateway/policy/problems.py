"""A mistake in a file: where it is, what is wrong and what would be right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gateway.core.identifiers import without_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""Keys and list positions from the top of a file down to a value."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake; sorts by file and position. What looks like a key in a file is in none of its words.

    Attributes:
        file: Name of the file as the reader knows it.
        line: Counted from 1.
        column: Counted from 1, in characters.
        path: Where in the structure, such as ``routes[0].prefer[1]``; ``""`` for the whole file.
        wrong: What is wrong, in words.
        right: What would be right; an instruction.
        warning: The file can be used all the same.
    """

    file: str
    line: int
    column: int
    path: str
    wrong: str
    right: str
    warning: bool = False

    def __post_init__(self) -> None:
        """Leave out keys: problems are logged, shown and answered."""
        for words in ("wrong", "right"):
            object.__setattr__(self, words, without_keys(getattr(self, words)))

    def __str__(self) -> str:
        """One line as editors and terminals know how to jump to."""
        kind = "warning: " if self.warning else ""
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}:{self.column}: {kind}{path}{self.wrong}; {self.right}"

    def as_json(self) -> dict[str, object]:
        """The fields by name, for JSON."""
        return asdict(self)


def spell(path: Path) -> str:
    """A path as text, without keys: ``("routes", 0, "name")`` → ``routes[0].name``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else ("." if text else "") + without_keys(step)
    return text


def suggest(name: str, known: Iterable[str], noun: str) -> str:
    """A remedy for a name that is not known: the nearest one, or all there are."""
    names = sorted(known)
    if near := get_close_matches(name, names, n=1, cutoff=0.6):
        return f"did you mean {near[0]!r}?"
    return f"{noun}: {', '.join(names)}" if names else f"there are no {noun} yet"
