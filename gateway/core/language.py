"""Which language a text is in, and which one it asks for: script blocks, then stop words."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import re
from operator import mul
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.language_words import BY_LETTER, BY_NAME, BY_WORD
from gateway.core.words import UNITS, scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gateway.core.words import Scan

UNKNOWN: Final = "und"
"""Where a text gives no hint: no letters, or Latin letters without a known stop word."""

ENGLISH: Final = frozenset({"en", UNKNOWN})
"""What is read as English."""

SAMPLE_CHARS: Final = 400
"""What is read of a text: enough for stop words, and cheap."""

_LATIN: Final = ("latin", "AZazÀɏḀỿ", 1)
_SCRIPTS: Final = (
    ("kana", "\u3040\u30ff", 3),
    ("zh", "\u3400\u4dbf\u4e00\u9fff", 3),
    ("ko", "\u1100\u11ff\uac00\ud7af", 3),
    ("cyrillic", "\u0400\u052f", 1),
    ("arabic", "\u0600\u06ff\u0750\u077f", 1),
    ("el", "\u0370\u03ff", 1),
    ("he", "\u0590\u05ff", 1),
    ("hy", "\u0530\u058f", 1),
    ("ka", "\u10a0\u10ff", 1),
    ("hi", "\u0900\u097f", 1),
    ("bn", "\u0980\u09ff", 1),
    ("ta", "\u0b80\u0bff", 1),
    ("te", "\u0c00\u0c7f", 1),
    ("th", "\u0e00\u0e7f", 1),
    ("gu", "\u0a80\u0aff", 1),
    ("pa", "\u0a00\u0a7f", 1),
    ("or", "\u0b00\u0b7f", 1),
    ("kn", "\u0c80\u0cff", 1),
    ("ml", "\u0d00\u0d7f", 1),
    ("si", "\u0d80\u0dff", 1),
    ("lo", "\u0e80\u0eff", 1),
    ("km", "\u1780\u17ff", 1),
    ("my", "\u1000\u109f", 1),
    ("am", "\u1200\u137f", 1),
)
"""Name, first and last letters of its blocks, and for how many Latin letters of text a letter stands."""

_MIN_SHARE: Final = 0.3
"""Share of letters from which a script other than Latin decides."""

_CYRILLIC: Final = (
    ("uk", re.compile("[\u0456\u0457\u0454\u0491]")),
    ("bg", re.compile("\\b(?:се|са|че)\\b|ъ[трлв]")),
)
_ARABIC: Final = (
    ("ur", re.compile("[\u0679\u0688\u0691\u06ba\u06d2]")),
    ("fa", re.compile("[\u067e\u0686\u0698\u06af\u06cc]")),
)

_SINGLE: Final = 0.3
"""What a stop word of one letter counts: it may as well be a variable."""

_TIE: Final = 0.01
"""Where two languages are as likely, the one that most requests are in."""

_ENOUGH: Final = 0.5
"""Evidence below which a language is not named."""

_VERBS: Final = (
    "translat\\w*|answer|respond|reply|replies|write|say|speak|put|explain|summari[sz]e|rewrite|render|"
    "back|mean|means|need|want|give|traduc\\w*|tradu[iz]\\w*|traduire|répond\\w*|responde\\w*|"
    "respond\\w*|antwort\\w*|schreib\\w*|übersetz\\w*|écri\\w*|escrib\\w*|rispond\\w*|scriv\\w*|vertaal|"
    "переведи\\w*|ответ\\w*|напиши\\w*"
)
_LATIN_NAMES: Final = "|".join(sorted((n for n in BY_NAME if n[0] < "\u0600"), key=len, reverse=True))
_DENSE_NAMES: Final = "|".join(sorted((n for n in BY_NAME if n[0] >= "\u0600"), key=len, reverse=True))
_ASKED: Final = re.compile(
    f"\\b(?:{_VERBS})\\b[^.!?\\n]{{0,80}}?\\b(?:in|into|to|en|al|em|para(?: o)?|auf|ins|naar het|in het|"
    f"на)\\s+(?:\\w+\\s)?({_LATIN_NAMES})\\b|\\b({_LATIN_NAMES})(?: version\\b| translation\\b|"
    f" please\\b)|-> ({_LATIN_NAMES})\\b"
)
_ASKED_DENSE: Final = re.compile(
    f"(?:翻译|译|翻譯|用|以|إلى|ب)[^。！？\\n]{{0,12}}?({_DENSE_NAMES})|({_DENSE_NAMES})(?:に|へ|로|으로|で)"
)


_NAMED: Final = frozenset(BY_NAME)
_FIRST_DENSE_NAME: Final = 0x0600
_DENSE_NAMED: Final = re.compile(_DENSE_NAMES)


def _numbered() -> NDArray[np.uint8]:
    """Of each UTF-16 unit: 0, 1 for a Latin letter, or 2 and more for a script of the table."""
    numbers = np.zeros(UNITS, np.uint8)
    for number, (_, ends, _) in enumerate((_LATIN, *_SCRIPTS), start=1):
        for first, last in zip(ends[::2], ends[1::2], strict=True):
            numbers[ord(first) : ord(last) + 1] = number
    return numbers


_SCRIPT_OF_UNIT: Final = _numbered()
_NAMES: Final = [name for name, _, _ in _SCRIPTS]
_WORTHS: Final = [worth for _, _, worth in _SCRIPTS]
_BEYOND_LATIN: Final = 0x0370
"""No letter of a script of the table comes before it but Latin ones."""


def _script(units: NDArray[np.uint16]) -> str | None:
    """The language or family of a text whose letters are mostly not Latin."""
    counts = np.bincount(_SCRIPT_OF_UNIT.take(units), minlength=len(_SCRIPTS) + 2).tolist()
    weights = [*map(mul, counts[2:], _WORTHS)]
    foreign = sum(weights)
    if not foreign or foreign < _MIN_SHARE * (foreign + counts[1]):
        return None
    return "kana" if weights[0] * 10 >= foreign else _NAMES[weights.index(max(weights))]


def _letters(text: str, choices: tuple[tuple[str, re.Pattern[str]], ...], otherwise: str) -> str:
    return next((code for code, pattern in choices if pattern.search(text)), otherwise)


def _worths(table: Mapping[str, tuple[str, ...]], single: float) -> dict[str, list[tuple[str, float]]]:
    """Of each token: its languages and what it counts for each; one letter counts ``single``."""
    return {
        token: [(code, (single if len(token) == 1 else 1.0) / len(codes)) for code in codes]
        for token, codes in table.items()
    }


_WORTH_OF_WORD: Final = _worths(BY_WORD, _SINGLE)
_WORTH_OF_LETTER: Final = _worths(BY_LETTER, 1.0)
_STOP_WORDS: Final = frozenset(BY_WORD)
_LETTERS: Final = frozenset(word for word in BY_WORD if len(word) == 1)
_MARKED: Final = frozenset(BY_LETTER)
_ENGLISH_ALONE: Final = frozenset(
    word for word, codes in BY_WORD.items() if codes == ("en",) and len(word) > 1
)


def _latin(words: list[str], signs: str, *, figures: bool) -> str:
    known = _STOP_WORDS.intersection(words)
    if figures:  # then a letter alone may be a variable, or "3x" hold it
        known = known - _LETTERS
    marked = _MARKED.intersection(signs)
    if 2 * len(known & _ENGLISH_ALONE) > len(known) + len(marked):
        return "en"  # whatever all the others speak for
    scores = {"en": _TIE}
    # In the order of the text, so that a tie is decided the same way every time.
    for token in filter(known.__contains__, dict.fromkeys(words)):
        for code, worth in _WORTH_OF_WORD[token]:
            scores[code] = scores.get(code, 0.0) + worth
    for letter in filter(marked.__contains__, dict.fromkeys(signs)):
        for code, worth in _WORTH_OF_LETTER[letter]:
            scores[code] = scores.get(code, 0.0) + worth
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _ENOUGH else UNKNOWN


def _language(seen: Scan, end: int, words: list[str] | None) -> str:
    script = None
    if seen.units is not None and seen.highest >= _BEYOND_LATIN:
        script = _script(seen.units[:end])
    if script is None:
        found = seen.runs(0, end) if words is None else words
        return _latin(found, seen.beyond_ascii(end), figures=seen.numbers > 0)
    if script == "cyrillic":
        return _letters(seen.text[:end], _CYRILLIC, "ru")
    if script == "arabic":
        return _letters(seen.text[:end], _ARABIC, "ar")
    return "ja" if script == "kana" else script


def of(seen: Scan, end: int, words: list[str]) -> str:
    """Names the language of a text, of its first line where that tells: the rest may be quoted.

    Args:
        seen: A text in lower case.
        end: How many of its characters are read.
        words: Its runs of letters as far as that.

    Returns:
        A code of :data:`LANGUAGES`, or :data:`UNKNOWN`.
    """
    line = seen.text.find("\n", 0, end)
    first = _language(seen, line, None) if line > 0 else UNKNOWN
    return _language(seen, end, words) if first == UNKNOWN else first


def detect(text: str) -> str:
    """Names the language of a text as :func:`of` does, by its first :data:`SAMPLE_CHARS` characters."""
    seen = scan(text[:SAMPLE_CHARS].lower())
    return of(seen, SAMPLE_CHARS, seen.runs(0, SAMPLE_CHARS))


def requested(text: str) -> str | None:
    """Names the language that a text asks the answer to be in ("reply in Spanish", "翻译成英语").

    Returns:
        A code of :data:`LANGUAGES`, or None where the text asks for none.
    """
    seen = scan(text.lower())
    return asked(seen.text, frozenset(seen.runs()), seen.highest)


def asked(text: str, said: frozenset[str], highest: int) -> str | None:
    """The same of a text in lower case, by its runs of letters, or more, and its highest UTF-16 unit."""
    if not _NAMED.isdisjoint(said):
        match = _ASKED.search(text)
        if match:
            return BY_NAME[match[match.lastindex or 0]]
    if highest < _FIRST_DENSE_NAME or _DENSE_NAMED.search(text) is None:
        return None
    match = _ASKED_DENSE.search(text)
    return BY_NAME[match[match.lastindex or 0]] if match else None
