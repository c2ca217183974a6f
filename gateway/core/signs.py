"""Signs of code and of formulas in a text, looked for only where a letter of theirs is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.core import lexicon
from gateway.core.words import single_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence


def any_of(signs: Sequence[str], text: str) -> bool:
    """Whether a text holds one of them."""
    for sign in signs:  # noqa: SIM110 - any() takes twice as long
        if sign in text:
            return True
    return False


def _shapes() -> bytes:
    """Of each byte of Latin-1: whether it is a small letter, a capital, a stroke below, or something else."""
    chars = map(chr, range(256))
    return "".join(
        "a" if c.islower() else "A" if c.isupper() else c if c == "_" else " " for c in chars
    ).encode()


_SHAPES: Final = _shapes()


def identifiers(text: str) -> int:
    """How many spots of names as programs have them a text holds: ``useState``, ``max_tokens``."""
    raw = single_bytes(text)
    shapes = (text.encode("ascii", "replace") if raw is None else raw).translate(_SHAPES)
    return shapes.count(b"aA") + shapes.count(b"a_a")


def formulas(text: str) -> int:
    """How many formulas and commands of LaTeX a text holds."""
    if any_of("\\$", text) or (not text.isascii() and any_of(lexicon.LATEX_SIGNS, text)):
        return len(lexicon.LATEX.findall(text))
    return 0


def _may_hold_code_signs(text: str, lines: Sequence[str]) -> bool:
    """Whether there may be signs of :data:`gateway.core.lexicon.CODE_SIGN`; one letter is found fastest."""
    return (
        "<" in text
        or ("=" in text and any_of(("=>", "=="), text))
        or (":" in text and any_of(("::", "error:"), text))
        or (">" in text and "->" in text)
        or ("0" in text and "0x" in text)
        or ("(" in text and ("()" in text or text.count("(") > text.count(" (")))
        or any_of(("exception", "exit code", "undefined"), text)
        or (any_of(";{", text) and any(line.rstrip().endswith((";", "{")) for line in lines))
    )


def code(text: str) -> int:
    """How many spots a text has that only code or markup has."""
    lines = text.splitlines()
    begun = sum(1 for line in lines if lexicon.CODE_LINE.match(line))
    found = len(lexicon.CODE_SIGN.findall(text)) if _may_hold_code_signs(text, lines) else 0
    return begun + found + bool("select" in text and lexicon.SQL.search(text))
