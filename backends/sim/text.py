"""Answers: real text of a kind and language, cut into tokens, of about the length asked for."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import TYPE_CHECKING

from backends.sim import tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from backends.sim.look import Kind

_BREAK = re.compile(r"\n{2,}")


def compose(kind: Kind, length: int, rng: Random, *, endless: bool = False) -> list[str]:
    """Pieces of an answer, in whole paragraphs.

    Args:
        kind: What to write about and in which language.
        length: Tokens wanted; the result is the nearest whole number of paragraphs, at least one.
        rng: Decides where in the text the answer starts.
        endless: Give at least ``length`` tokens, repeating the text where it ends.
    """
    paragraphs = _paragraphs(kind.workload, kind.language)
    at = rng.randrange(len(paragraphs))
    pieces: list[str] = []
    while True:
        paragraph = paragraphs[at % len(paragraphs)]
        missing = length - len(pieces)
        if pieces and (missing <= 0 if endless else missing < len(paragraph) / 2):
            return pieces
        pieces.extend(("\n\n", *paragraph) if pieces else paragraph)
        at += 1


@functools.cache
def _paragraphs(workload: str, language: str) -> tuple[Sequence[str], ...]:
    """The text of a kind, each paragraph in pieces. A fenced block stays with the line before it."""
    name = f"multilingual.{language}" if workload == "multilingual" else workload
    text = (resources.files(__package__) / "texts" / f"{name}.md").read_text(encoding="utf-8").strip()
    merged: list[str] = []
    for block in _BREAK.split(text):
        inside = merged and merged[-1].count("```") % 2
        if merged and (inside or block.startswith("```")):
            merged[-1] += "\n\n" + block
        else:
            merged.append(block)
    return tuple(tokens.split(paragraph) for paragraph in merged)
