"""Words and numbers of a text by tables: a fraction of what expressions take, in every alphabet."""

from __future__ import annotations

from codecs import utf_16_le_decode, utf_16_le_encode
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_BYTES: Final = 256
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

_DENSE: Final = EAST_ASIAN | _in_blocks("\u0e00\u0eff\u1100\u11ff\uac00\ud7af")
"""Scripts that put no spaces between words, or none between a name in ours and what follows it."""

_FIRST_DENSE: Final = 0x0E00


def units(text: str) -> NDArray[np.uint16]:
    """The UTF-16 units of a text."""
    return np.frombuffer(utf_16_le_encode(text, "surrogatepass")[0], np.uint16)


_DECIMAL: Final = _those(str.isdecimal)
_LETTER: Final = _those(str.isalnum) & ~_DECIMAL
_SPARSE: Final = np.where(_LETTER & ~_DENSE, _UNITS, np.uint16(_SPACE))
_CLOSE: Final = np.where(_LETTER & _DENSE, _UNITS, np.uint16(_SPACE))
_LETTERS_OF_BYTES: Final = _SPARSE[:_BYTES].astype(np.uint8).tobytes()
_FIGURES: Final = np.where(_DECIMAL, _ZERO, np.where(_are(".,"), _POINT, _SPACE)).astype(np.uint8)
_FIGURES_OF_BYTES: Final = _FIGURES[:_BYTES].tobytes()
_ASCII: Final = bytes(range(128))
_TYPOGRAPHIC: Final = "\u2019\u2018\u201c\u201d\u2013\u2014\u2026"


@value(frozen=True, slots=True)
class Scan:
    """A text taken apart once, for all that look at its words.

    Attributes:
        text: The text.
        units: Its UTF-16 units; None where each letter is a byte.
        highest: The highest of them, or 127 where all are ASCII, or 255 where all letters are bytes.
        spaced: All but letters is a space, a space for each unit; so are letters of dense scripts ...
        dense: ... which are here, where there are any.
        numbers: How often :data:`gateway.core.lexicon.NUMBER` is found.
    """

    text: str
    units: NDArray[np.uint16] | None
    highest: int
    spaced: str
    dense: str
    numbers: int

    def runs(self, begin: int = 0, end: int | None = None) -> list[str]:
        """What stands between spaces, or between a dense script and another one, from unit to unit."""
        found = self.spaced[begin:end].split()
        return found + self.dense[begin:end].split() if self.dense else found

    def beyond_ascii(self, end: int) -> str:
        """The letters that are no ASCII, and maybe signs, of so many units."""
        if self.highest < len(_ASCII):
            return ""
        if self.units is None:
            return self.text[:end].encode("latin-1", "ignore").translate(None, _ASCII).decode("latin-1")
        units = self.units[:end]
        return units[units >= len(_ASCII)].tobytes().decode("utf-16-le", "surrogatepass")


def single_bytes(text: str) -> bytes | None:
    """A text of the first 256 characters as bytes, which are looked up in a fifth of the time."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return None


def _typed(text: str) -> bytes | None:
    """The same, with a space for each quotation mark and dash as typesetters have them."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as beyond:
        if text[beyond.start] not in _TYPOGRAPHIC:
            return None
    for sign in _TYPOGRAPHIC:
        text = text.replace(sign, " ")
    return single_bytes(text)


def scan(text: str) -> Scan:
    """Takes a text apart."""
    if (raw := _typed(text)) is not None:
        spaced = raw.translate(_LETTERS_OF_BYTES).decode("latin-1")
        figures = _figures(raw.translate(_FIGURES_OF_BYTES))
        return Scan(text, None, 127 if text.isascii() else 255, spaced, "", figures)
    read = units(text)
    highest = int(np.maximum.reduce(read))
    spaced = utf_16_le_decode(_SPARSE.take(read).tobytes())[0]
    dense = utf_16_le_decode(_CLOSE.take(read).tobytes())[0] if highest >= _FIRST_DENSE else ""
    return Scan(text, read, highest, spaced, dense, _figures(_FIGURES.take(read).tobytes()))


def _figures(figures: bytes) -> int:
    # Twice, for a single pass leaves the second point of "0.0.0".
    joined = figures.replace(b"0.0", b"000").replace(b"0.0", b"000")
    return len(joined.replace(b".", b" ").split())


def letters(text: str) -> frozenset[str]:
    """Every run of letters."""
    if (raw := single_bytes(text)) is not None:
        return frozenset(raw.translate(_LETTERS_OF_BYTES).decode("latin-1").split())
    return frozenset(scan(text).runs())
