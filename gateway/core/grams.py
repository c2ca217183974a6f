"""Words and character n-grams of a request as hashed buckets with weights, in a bounded time."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gateway.core.features import system_prompts
from gateway.core.signs import any_of
from gateway.core.values import value
from gateway.core.words import EAST_ASIAN, UNITS, single_bytes, units

if TYPE_CHECKING:
    from collections.abc import Sequence

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

_REGIONS: Final = 3
_REGION_CHARS: Final = HEAD_CHARS + TAIL_CHARS + 1
_LONGEST: Final = 2**13
_GRAM: Final = 4
_OPENING: Final = 6
_CLOSING: Final = 5
_PLACES: Final = 3
_OFFERED: Final = 40
_WRAP: Final = 2**64
_ALONE: Final = 2


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
_PLACE_SALTS: Final = _constants(30, _PLACES)
_FROM_NEXT: Final = _UNPOWERS[1:]
# Arrays without a dimension: to calculate with, they take half the time that numbers of numpy's take.
_OPEN, _OPEN_PAIR, _CLOSE, _PLACE, _OFFER, _OFFER_PAIR = map(np.array, _constants(40, 6))
_WORD, _PAIR = [*map(np.array, _constants(50, _REGIONS))], [*map(np.array, _constants(60, _REGIONS))]
_GRAMS: Final = [*map(np.array, _constants(70, _REGIONS))]
_SHIFT: Final = np.array(64 - BITS, np.uint64)
_WEIGHTS: Final = (1 / np.sqrt(np.arange(_LONGEST).clip(1))).astype(np.float32)
"""What each of a kind counts, by how many there are: to the bit the same on every processor."""


def _tables() -> tuple[Codes, NDArray[np.int8]]:
    """Of each UTF-16 unit: what stands for it, and whether words have it.

    All digits are as one, all spaces, and a letter in either case.
    A letter of Chinese or Japanese is a word of its own.
    """
    chars = [*map(chr, range(UNITS))]
    stands = np.array([ord(low) if len(low := char.lower()) == 1 else ord(char) for char in chars], np.uint16)
    stands[[*map(str.isdigit, chars)]] = ord("0")
    stands[[*map(str.isspace, chars)]] = ord(" ")
    in_word = np.array([*map(str.isalnum, chars)], np.int8)
    in_word[[ord("_"), ord("'")]] = 1
    in_word[EAST_ASIAN] *= _ALONE
    return stands, in_word


_STANDS, _IN_WORD = _tables()
_BYTES: Final = 256
_BYTE_STANDS: Final = _STANDS[:_BYTES].astype(np.uint8).tobytes()
_BYTE_IN_WORD: Final = _IN_WORD[_STANDS[:_BYTES]].tobytes()


@value(frozen=True, slots=True)
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
    at, last = len(turns), ""
    for number in range(len(turns) - 1, -1, -1):
        if turns[number].role == "user":
            at, last = number, turns[number].text
            break
    if len(last) > HEAD_CHARS + TAIL_CHARS:
        last = f"{last[:HEAD_CHARS]}\n{last[-TAIL_CHARS:]}"
    rules = [text[:AROUND_CHARS] for text in system_prompts(turns)]
    said = [turn.text[-AROUND_CHARS:] for turn in turns[max(at - 2, 0) : at] if turn.role != "system"]
    return last, " ".join(rules)[:AROUND_CHARS], " ".join(said)[-AROUND_CHARS:]


class _Ends(NamedTuple):
    """How the ends of a message are hashed: its words at some places, times factors, and what is added.

    Attributes:
        places: Of the word of each hash, then of the second one of each ...
        factors: ... of which it is 0 where the hash is no pair's.
    """

    places: NDArray[np.intp]
    factors: Hashes
    added: Hashes


@cache
def _ends(words: int) -> _Ends:
    """For a message of so many words; of more than :data:`_OPENING` it is always the same."""
    opening, closing, numbered = min(words, _OPENING), min(words, _CLOSING), min(words, _PLACES)
    kinds = (
        (range(opening), (_OPEN, 0)),
        (range(opening - 1), (_OPEN_PAIR, _WORD[0])),
        (range(-closing, 0), (_CLOSE, 0)),
        (range(numbered), (_PLACE, 0)),
    )
    places = np.array([place for kind, _ in kinds for place in kind])
    factors = np.array([both for kind, both in kinds for _ in kind], np.uint64)
    added = np.zeros(len(places), np.uint64)
    added[len(places) - numbered :] = _PLACE_SALTS[:numbered]
    seconds = np.where(factors[:, 1] > 0, places + 1, places)
    return _Ends(np.concatenate((places, seconds)), factors.T.ravel(), added)


def _spaced(text: str) -> str:
    """A text between spaces: one more before it, from where hashes of the others count.

    In lower case only where that is not one letter for another, whatever is beside it.
    """
    if any_of("\u0130\u03a3", text):
        text = text.lower()
    return f"  {text[:_REGION_CHARS]} "


def _read(text: str) -> tuple[Hashes, NDArray[np.intp]]:
    """The UTF-16 units as far as they are told apart; after which ones words begin and end in turn."""
    if (raw := single_bytes(text)) is not None:
        wide = np.frombuffer(raw.translate(_BYTE_STANDS), np.uint8).astype(np.uint64)
        in_word = np.frombuffer(raw.translate(_BYTE_IN_WORD), np.int8)
    else:
        codes = _STANDS.take(units(text))
        wide = codes.astype(np.uint64)
        in_word = _IN_WORD.take(codes)
        if _ALONE in in_word.tobytes():  # a fifth of the time of a maximum
            return wide, _borders(in_word)
    return wide, (in_word[1:] != in_word[:-1]).nonzero()[0]


def _borders(in_word: NDArray[np.int8]) -> NDArray[np.intp]:
    """Where words begin and end in turn; where two touch, one place is both."""
    before, after = in_word[:-1], in_word[1:]
    apart = (before != after) | (after == _ALONE)
    begin = (apart & (after > 0)).nonzero()[0]
    borders = np.empty(2 * len(begin), np.intp)
    borders[::2] = begin
    borders[1::2] = (apart & (before > 0)).nonzero()[0]
    return borders


def _sums(wide: Hashes) -> Hashes:
    """Running sums of units times powers; a difference of two is a hash of what is between."""
    sums: Hashes = np.add.accumulate(wide * _POWERS[: len(wide)])
    return sums


def _words(sums: Hashes, borders: NDArray[np.intp]) -> Hashes:
    """A hash of each word, brought to one power."""
    ends = sums[borders]
    return (ends[1::2] - ends[::2]) * _FROM_NEXT[borders[::2]]


def _of_message(words: Hashes, mixed: Hashes, *, offered: bool) -> list[Hashes]:
    """What the last message has beyond the others: how it begins and ends, and its words beside tools."""
    ends = _ends(min(len(words), _OPENING))
    hashes, count = words[ends.places] * ends.factors, len(ends.added)
    kinds = [hashes[:count] + hashes[count:] + ends.added]
    if offered:
        first = words[:_OFFERED]
        kinds.append(np.concatenate((first * _OFFER, first[:-1] * _OFFER_PAIR + mixed[1:_OFFERED])))
    return kinds


def _buckets(hashes: Hashes) -> NDArray[np.int64]:
    return (hashes >> _SHIFT).view(np.int64)


class _Taken(NamedTuple):
    """What is read of a request: its texts, of which region each is, and whether it may call tools."""

    texts: list[str]
    regions: list[int]
    offered: bool


def _taken(view: RequestView) -> _Taken:
    texts = _regions(view)
    regions = [number for number, text in enumerate(texts) if text]
    offered = bool(view.tools) and view.tool_choice != "none"
    return _Taken([_spaced(texts[number]) for number in regions], regions, offered)


def read(view: RequestView) -> Grams:
    """Reads the words, pairs of words and character n-grams of a request."""
    return _together([_taken(view)])[0]


def read_all(views: Sequence[RequestView]) -> list[Grams]:
    """Reads those of several requests, of as many at once as the tables are long enough for."""
    found: list[Grams] = []
    taken: list[_Taken] = []
    room = _LONGEST
    for view in views:
        one = _taken(view)
        most = sum([len(text) if text.isascii() else 2 * len(text) for text in one.texts])
        if most > room:
            found += _together(taken)
            taken, room = [], _LONGEST
        taken.append(one)
        room -= most
    return found + _together(taken) if taken else found


def _together(taken: Sequence[_Taken]) -> list[Grams]:
    """Takes all texts of some requests apart at once: spaces are between them, so that no word is of two."""
    texts = [text for one in taken for text in one.texts]
    whole = "".join(texts)
    wide, borders = _read(whole)
    ends = [*accumulate(map(len, texts) if len(wide) == len(whole) else (len(units(text)) for text in texts))]
    sums = _sums(wide)
    grams, words = sums[_GRAM:] - sums[:-_GRAM], _words(sums, borders)
    grams *= _FROM_NEXT[: len(grams)]
    parts = zip(ends, borders[::2].searchsorted(ends).tolist(), strict=True)
    kinds: list[Hashes] = []
    counts = [0]
    begin = first = 0
    for _, regions, offered in taken:
        for number, (end, behind) in zip(regions, parts, strict=False):
            if end - begin > _GRAM:
                kinds.append(grams[begin : end - _GRAM] * _GRAMS[number])
            if behind > first:
                own = words[first:behind]
                mixed = own * _WORD[number]
                kinds += (mixed, own[:-1] * _PAIR[number] + mixed[1:])
                if number == 0:
                    kinds += _of_message(own, mixed, offered=offered)
            begin, first = end, behind
        counts.append(len(kinds))
    if not kinds:
        return [NOTHING] * len(taken)
    lengths = np.array([*map(len, kinds)])
    buckets, weights = _buckets(np.concatenate(kinds)), _WEIGHTS[lengths].repeat(lengths)
    if len(taken) == 1:
        return [Grams(buckets, weights)]
    behind_kinds = [0, *accumulate(lengths.tolist())]
    return [
        Grams(buckets[start:end], weights[start:end])
        for start, end in pairwise([behind_kinds[count] for count in counts])
    ]


def message_words(view: RequestView) -> tuple[list[str], NDArray[np.int64]]:
    """The words of the last user message as far as it is read, and the bucket of each."""
    lowered = _spaced(_regions(view)[0].lower())
    wide, borders = _read(lowered)
    raw = lowered.encode("utf-16-le", "surrogatepass")
    ends = (2 * (borders + 1)).tolist()
    words = [
        raw[start:end].decode("utf-16-le", "replace")
        for start, end in zip(ends[::2], ends[1::2], strict=True)
    ]
    return words, _buckets(_words(_sums(wide), borders) * _WORD[0])
