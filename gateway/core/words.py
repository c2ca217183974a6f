"""Words and numbers of a text: in ASCII, translating bytes takes a fraction of what an expression takes."""

from __future__ import annotations

import re
from typing import Final

from gateway.core.lexicon import NUMBER, WORD

_RUN: Final = re.compile(r"[^\W\d_]+")
_LONE: Final = frozenset({"'"})
_ASCII: Final = tuple(map(chr, range(128)))


def _table(chars: list[str]) -> bytes:
    return "".join(chars).ljust(256).encode()


_LETTERS: Final = _table([char if char.isalpha() else " " for char in _ASCII])
_WORDS: Final = _table([char if char.isalpha() or char == "'" else " " for char in _ASCII])
_FIGURES: Final = _table(["0" if char.isdigit() else "." if char in ".," else " " for char in _ASCII])


def letters(text: str) -> frozenset[str]:
    """Every run of letters."""
    if not text.isascii():
        return frozenset(_RUN.findall(text))
    return frozenset(text.encode().translate(_LETTERS).decode().split())


def words(text: str) -> frozenset[str]:
    """Every word as :data:`gateway.core.lexicon.WORD` finds it."""
    if not text.isascii() or "+" in text or "#" in text:
        return frozenset(WORD.findall(text))
    if "'" not in text:
        return letters(text)
    apart = text.replace("'", "' ").encode().translate(_WORDS)
    return frozenset(apart.decode().split()) - _LONE


def numbers(text: str) -> int:
    """How often :data:`gateway.core.lexicon.NUMBER` is found."""
    if not text.isascii():
        return len(NUMBER.findall(text))
    figures = text.encode().translate(_FIGURES)
    # Twice, for a single pass leaves the second point of "0.0.0".
    joined = figures.replace(b"0.0", b"000").replace(b"0.0", b"000")
    return len(joined.replace(b".", b" ").split())
