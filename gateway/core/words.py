"""Words and numbers of a text by tables: a fraction of what expressions take, in every alphabet."""

from __future__ import annotations

from codecs import utf_16_le_decode, utf_16_le_encode
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_LONE: Final = frozenset({"'", "+", "++", "#"})
_ASCII: Final = 128
UNITS: Final = 2**16
"""How many UTF-16 units there are."""

_UNITS: Final = np.arange(UNITS, dtype=np.uint16)
_SPACE, _POINT, _ZERO = map(ord, " .0")


def _those(test: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Which units pass a test; of the halves of pairs none does."""
    return np.array([*map(test, map(chr, range(UNITS)))])


def _are(chars: str) -> NDArray[np.bool_]:
    return np.isin(_UNITS, [*map(ord, chars)])


def _in_blocks(ends: str) -> NDArray[np.bool_]:
    blocks = zip(ends[::2], ends[1::2], strict=True)
    inside: NDArray[np.bool_] = np.logical_or.reduce(
        [(ord(first) <= _UNITS) & (ord(last) >= _UNITS) for first, last in blocks]
    )
    return inside


EAST_ASIAN: Final = _in_blocks("\u3040\u30ff\u3400\u4dbf\u4e00\u9fff")
"""Units of Chinese and Japanese letters."""

_DENSE: Final = EAST_ASIAN | _in_blocks("\u0e00\u0e7f\u1100\u11ff\uac00\ud7af")
"""Scripts that put no spaces between words, or none between a name in ours and what follows it."""

_FIRST_DENSE: Final = 0x0E00


class Table:
    """Which characters of a text are kept; all others become spaces, and those beyond the first 65,536."""

    __slots__ = ("_of_ascii", "_of_dense", "_of_units")

    def __init__(self, kept: NDArray[np.bool_]) -> None:
        """Take a flag for each UTF-16 unit."""
        self._of_units = np.where(kept & ~_DENSE, _UNITS, np.uint16(_SPACE))
        self._of_dense = np.where(kept & _DENSE, _UNITS, np.uint16(_SPACE))
        self._of_ascii = self._of_units[:_ASCII].astype(np.uint8).tobytes().ljust(256)

    def apart(self, text: str) -> list[str]:
        """What stands between spaces, or between a dense script and another one."""
        if text.isascii():
            return text.encode().translate(self._of_ascii).decode().split()
        read = units(text)
        found = utf_16_le_decode(self._of_units.take(read).tobytes())[0].split()
        if np.maximum.reduce(read) >= _FIRST_DENSE:
            found += utf_16_le_decode(self._of_dense.take(read).tobytes())[0].split()
        return found


def units(text: str) -> NDArray[np.uint16]:
    """The UTF-16 units of a text."""
    return np.frombuffer(utf_16_le_encode(text, "surrogatepass")[0], np.uint16)


_DECIMAL: Final = _those(str.isdecimal)
_LETTER: Final = _those(str.isalnum) & ~_DECIMAL
_OF_LETTERS: Final = Table(_LETTER)
_OF_WORDS: Final = Table(_LETTER | _are("'+#"))
_FIGURES: Final = np.where(_DECIMAL, _ZERO, np.where(_are(".,"), _POINT, _SPACE)).astype(np.uint8)
_FIGURES_OF_ASCII: Final = _FIGURES[:_ASCII].tobytes().ljust(256)


def letters(text: str) -> frozenset[str]:
    """Every run of letters."""
    return frozenset(_OF_LETTERS.apart(text))


def words(text: str, said: frozenset[str] | None = None) -> frozenset[str]:
    """Every word as :data:`gateway.core.lexicon.WORD` finds it, apart where a dense script begins or ends.

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
        figures = _FIGURES.take(units(text)).tobytes()
    # Twice, for a single pass leaves the second point of "0.0.0".
    joined = figures.replace(b"0.0", b"000").replace(b"0.0", b"000")
    return len(joined.replace(b".", b" ").split())
