"""Answers: real text of a kind and language, cut into tokens, of about the length asked for."""

from __future__ import annotations

import functools
import re
from importlib import resources
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Final

from backends.sim import tokens
from backends.sim.look import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

_BREAK: Final = re.compile(r"\n{2,}")
_BETWEEN: Final = tokens.encode("\n\n")


def starts(kind: Kind) -> int:
    """Number of paragraphs of a kind: an answer starts with any of them."""
    return len(_paragraphs(kind))


def compose(kind: Kind, start: int, length: int, *, endless: bool = False) -> list[int]:
    """Token ids of an answer, in whole paragraphs.

    Args:
        kind: What to write about and in which language.
        start: The paragraph it starts with; the text repeats where it ends.
        length: Tokens wanted; the result is the nearest whole number of paragraphs, at least one.
        endless: Give at least ``length`` tokens.
    """
    paragraphs = _paragraphs(kind)
    ids: list[int] = []
    while True:
        paragraph = paragraphs[start % len(paragraphs)]
        missing = length - len(ids)
        if ids and (missing <= 0 if endless else missing < len(paragraph) / 2):
            return ids
        ids.extend((*_BETWEEN, *paragraph) if ids else paragraph)
        start += 1


def begun(ids: Sequence[int], at: int) -> list[tuple[Kind, int]]:
    """Kind and first paragraph of every answer that begins with the tokens from ``at`` on."""
    said = len(ids) - at
    found = []
    for kind, start, paragraph in _openings().get(ids[at], ()):
        if all(map(eq, ids[at : at + len(paragraph)], paragraph)):
            text = compose(kind, start, said, endless=True) if said > len(paragraph) else ()
            if not text or text[:said] == list(ids[at:]):
                found.append((kind, start))
    return found


@functools.cache
def _openings() -> dict[int, list[tuple[Kind, int, Sequence[int]]]]:
    """Every paragraph by its first token."""
    found: dict[int, list[tuple[Kind, int, Sequence[int]]]] = {}
    for file in sorted((resources.files(__package__) / "texts").iterdir(), key=attrgetter("name")):
        workload, *language = file.name.removesuffix(".md").split(".")
        kind = Kind(workload, *language)
        for start, paragraph in enumerate(_paragraphs(kind)):
            found.setdefault(paragraph[0], []).append((kind, start, paragraph))
    return found


@functools.cache
def _paragraphs(kind: Kind) -> tuple[Sequence[int], ...]:
    """The text of a kind, each paragraph in tokens. A fenced block stays with the line before it."""
    name = f"multilingual.{kind.language}" if kind.workload == "multilingual" else kind.workload
    text = (resources.files(__package__) / "texts" / f"{name}.md").read_text(encoding="utf-8").strip()
    merged: list[str] = []
    for block in _BREAK.split(text):
        inside = merged and merged[-1].count("```") % 2
        if merged and (inside or block.startswith("```")):
            merged[-1] += "\n\n" + block
        else:
            merged.append(block)
    return tuple(tokens.encode(paragraph) for paragraph in merged)
