"""Words and numbers of a text by tables: a fraction of what expressions take, in every alphabet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONE: Final = frozenset({"'", "+", "++", "#"})
_ASCII: Final = 128
_SURROGATES: Final = range(0xD800, 0xE000)
UNITS: Final = 2**16
"""How many UTF-16 units there are."""


def _letter(char: str) -> bool:
    r"""Whether ``[^\W\d_]`` fits."""
    return char.isalnum() and not char.isdecimal()


_CHARS: Final = "".join(chr(unit) if unit not in _SURROGATES else " " for unit in range(UNITS))
_LETTERS: Final = "".join(char if _letter(char) else " " for char in _CHARS)
_WORDS: Final = "".join(char if _letter(char) or char in "'+#" else " " for char in _CHARS)
_FIGURES: Final = "".join("0" if char.isdecimal() else "." if char in ".," else " " for char in _CHARS)


class Table:
    """What stands for each character of a text; those beyond the first 65,536 become spaces."""

    __slots__ = ("_of_ascii", "_of_units")

    def __init__(self, chars: str) -> None:
        """Take a character for each UTF-16 unit."""
        self._of_ascii = chars[:_ASCII].ljust(256).encode()
        self._of_units = np.frombuffer(chars.encode("utf-16-le"), np.uint16)

    def apart(self, text: str) -> list[str]:
        """What stands between spaces."""
        if text.isascii():
            return text.encode().translate(self._of_ascii).decode().split()
        return self._of_units.take(units(text)).tobytes().decode("utf-16-le").split()


def units(text: str) -> NDArray[np.uint16]:
    """The UTF-16 units of a text."""
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)


_OF_LETTERS: Final = Table(_LETTERS)
_OF_WORDS: Final = Table(_WORDS)
_FIGURES_OF_ASCII: Final = _FIGURES[:_ASCII].ljust(256).encode()
_FIGURES_OF_UNITS: Final = np.frombuffer(_FIGURES.encode(), np.uint8)


def letters(text: str) -> frozenset[str]:
    """Every run of letters."""
    return frozenset(_OF_LETTERS.apart(text))


def words(text: str, said: frozenset[str] | None = None) -> frozenset[str]:
    """Every word as :data:`gateway.core.lexicon.WORD` finds it.

    Args:
        text: In lower case.
        said: Its runs of letters, where they are known.
    """
    quoted, added, numbered = "'" in text, "+" in text, "#" in text
    if not (quoted or added or numbered):
        return letters(text) if said is None else said
    if quoted:
        text = text.replace("'", "' ")
    if added:
        text = text.replace("+", "+ ").replace("+ + ", "++ ")
    if numbered:
        text = text.replace("#", "# ")
    return frozenset(_OF_WORDS.apart(text)) - _LONE


def numbers(text: str) -> int:
    """How often :data:`gateway.core.lexicon.NUMBER` is found."""
    if text.isascii():
        figures = text.encode().translate(_FIGURES_OF_ASCII)
    else:
        figures = _FIGURES_OF_UNITS.take(units(text)).tobytes()
    # Twice, for a single pass leaves the second point of "0.0.0".
    joined = figures.replace(b"0.0", b"000").replace(b"0.0", b"000")
    return len(joined.replace(b".", b" ").split())
