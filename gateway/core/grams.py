"""Words and character n-grams of a request as hashed buckets with weights, in a bounded time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gateway.core.features import RequestView

    Hashes = NDArray[np.uint64]
    Codes = NDArray[np.uint16]

BITS: Final = 17
"""Buckets are numbered with so many bits."""

HEAD_CHARS: Final = 800
TAIL_CHARS: Final = 300
"""What is read of the last user message: of its beginning and of its end."""

AROUND_CHARS: Final = 400
"""What is read of the system prompt, and of the turns before the last user message."""

_SYSTEM_TURNS: Final = 4
_UNITS: Final = 2**16
_LONGEST: Final = 2 * (HEAD_CHARS + TAIL_CHARS + 3)
_GRAM: Final = 4
_OPENING: Final = 6
_CLOSING: Final = 5
_PLACES: Final = 3
_OFFERED: Final = 40
_WRAP: Final = 2**64


def _mixed(number: int) -> int:
    """An odd 64-bit constant from a small number (the finaliser of splitmix64)."""
    mixed = (number * 0x9E3779B97F4A7C15 + 0x1234567) % _WRAP
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % _WRAP
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % _WRAP
    return (mixed ^ mixed >> 31) | 1


def _constants(first: int, count: int) -> Hashes:
    return np.array([_mixed(first + i) for i in range(count)], np.uint64)


_BASE: Final = _mixed(1)
_INVERSE: Final = pow(_BASE, -1, _WRAP)
_POWERS: Final = np.array([pow(_BASE, i, _WRAP) for i in range(_LONGEST)], np.uint64)
_UNPOWERS: Final = np.array([pow(_INVERSE, i, _WRAP) for i in range(_LONGEST)], np.uint64)
_CHARS: Final = _constants(10, _GRAM)
_SALTS: Final = _constants(20, 3)
_PLACE_SALTS: Final = _constants(30, _PLACES)
_WORD, _PAIR, _OPEN, _OPEN_PAIR, _CLOSE, _PLACE, _OFFER, _OFFER_PAIR = _constants(40, 8)
_SHIFT: Final = np.uint64(64 - BITS)


def _tables() -> tuple[Codes, NDArray[np.int8]]:
    """Of each UTF-16 unit: what stands for it (all digits, all spaces as one), and whether words have it."""
    stands = np.arange(_UNITS, dtype=np.uint16)
    in_word = np.zeros(_UNITS, np.int8)
    for unit in range(_UNITS):
        char = chr(unit)
        in_word[unit] = char.isalnum() or char in "_'"
        if char.isdigit():
            stands[unit] = ord("0")
        elif char.isspace():
            stands[unit] = ord(" ")
    return stands, in_word


_STANDS, _IN_WORD = _tables()


@dataclass(frozen=True, slots=True)
class Grams:
    """What was read, as parallel arrays.

    Attributes:
        buckets: Numbers below ``2 ** BITS``; one may occur several times.
        weights: What each counts. The squares of one kind in one region add up to one.
    """

    buckets: NDArray[np.int64]
    weights: NDArray[np.float32]


NOTHING: Final = Grams(np.zeros(0, np.int64), np.zeros(0, np.float32))


def _regions(view: RequestView) -> tuple[str, str, str]:
    """The last user message, the system prompt, and what was said just before."""
    turns = view.turns
    at = next((i for i in range(len(turns) - 1, -1, -1) if turns[i].role == "user"), len(turns))
    last = turns[at].text if at < len(turns) else ""
    if len(last) > HEAD_CHARS + TAIL_CHARS:
        last = f"{last[:HEAD_CHARS]}\n{last[-TAIL_CHARS:]}"
    rules = islice((turn.text[:AROUND_CHARS] for turn in turns if turn.role == "system"), _SYSTEM_TURNS)
    said = [turn.text[-AROUND_CHARS:] for turn in turns[max(at - 2, 0) : at] if turn.role != "system"]
    return last, " ".join(rules)[:AROUND_CHARS], " ".join(said)[-AROUND_CHARS:]


def _units(text: str) -> bytes:
    """The UTF-16 units of a text in lower case, between spaces."""
    return f" {text.lower()[: _LONGEST // 2 - 2]} ".encode("utf-16-le", "surrogatepass")


def _codes(units: bytes) -> Codes:
    """The units as far as they are told apart."""
    return _STANDS[np.frombuffer(units, np.uint16)]


def _word_ends(codes: Codes) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the words of a text begin, and where they end."""
    steps = np.diff(_IN_WORD[codes])
    return np.flatnonzero(steps == 1) + 1, np.flatnonzero(steps == -1) + 1


def _words(codes: Codes, wide: Hashes) -> Hashes:
    """A hash of each word: differences of the running sum of units times powers, brought to one power."""
    starts, ends = _word_ends(codes)
    sums = np.zeros(len(wide) + 1, np.uint64)
    np.cumsum(wide * _POWERS[: len(wide)], out=sums[1:])
    return (sums[ends] - sums[starts]) * _UNPOWERS[starts]


def _of_message(words: Hashes, *, offered: bool) -> list[Hashes]:
    """What the last message has beyond the others: how it begins and ends, and its words beside tools."""
    opening = words[:_OPENING]
    places = words[:_PLACES]
    kinds = [
        np.concatenate(
            (
                opening * _OPEN,
                opening[:-1] * _OPEN_PAIR + opening[1:],
                words[-_CLOSING:] * _CLOSE,
                places * _PLACE + _PLACE_SALTS[: len(places)],
            )
        )
    ]
    if offered:
        first = words[:_OFFERED]
        kinds.append(np.concatenate((first * _OFFER, first[:-1] * _OFFER_PAIR + first[1:])))
    return kinds


def _buckets(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> _SHIFT).astype(np.int64)


def read(view: RequestView) -> Grams:
    """Reads the words, pairs of words and character n-grams of a request."""
    kinds: list[Hashes] = []
    offered = bool(view.tools) and view.tool_choice != "none"
    for region, text in enumerate(_regions(view)):
        if not text:
            continue
        codes = _codes(_units(text))
        wide = codes.astype(np.uint64)
        salt = _SALTS[region]
        count = len(wide) - _GRAM + 1
        if count > 0:
            grams = np.full(count, salt)
            for place in range(_GRAM):
                grams += wide[place : place + count] * _CHARS[place]
            kinds.append(grams)
        words = _words(codes, wide)
        if len(words):
            kinds.append(words * _WORD + salt)
            kinds.append(words[:-1] * _PAIR + words[1:] + salt)
            if region == 0:
                kinds += _of_message(words, offered=offered)
    if not kinds:
        return NOTHING
    lengths = [len(kind) for kind in kinds]
    each = np.array([max(length, 1) ** -0.5 for length in lengths], np.float32)
    return Grams(_buckets(np.concatenate(kinds)), np.repeat(each, lengths))


def message_words(view: RequestView) -> tuple[list[str], NDArray[np.int64]]:
    """The words of the last user message as far as it is read, and the bucket of each."""
    raw = _units(_regions(view)[0])
    codes = _codes(raw)
    words = [
        raw[2 * start : 2 * end].decode("utf-16-le", "replace")
        for start, end in zip(*_word_ends(codes), strict=True)
    ]
    return words, _buckets(_words(codes, codes.astype(np.uint64)) * _WORD + _SALTS[0])
