"""Which language a text is in, and which one it asks for: script blocks, then stop words."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import re
from operator import mul
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.language_words import BY_LETTER, BY_NAME, BY_WORD
from gateway.core.words import UNITS, Table, letters, units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

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
_ASCII: Final = 128
# Digits stay: "3x" holds no word.
_DIGITS: Final = np.isin(np.arange(UNITS), [*map(ord, "0123456789")])
_LATIN_WORDS: Final = Table((_SCRIPT_OF_UNIT == 1) | _DIGITS)


def _script(text: str) -> str | None:
    """The language or family of a text whose letters are mostly not Latin."""
    numbers = _SCRIPT_OF_UNIT.take(units(text))
    if np.maximum.reduce(numbers) <= 1:
        return None
    counts = np.bincount(numbers, minlength=len(_SCRIPTS) + 2).tolist()
    weights = [*map(mul, counts[2:], _WORTHS)]
    foreign = sum(weights)
    if foreign < _MIN_SHARE * (foreign + counts[1]):
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
_ENGLISH_ALONE: Final = frozenset(
    word for word, codes in BY_WORD.items() if codes == ("en",) and len(word) > 1
)


def _latin(text: str) -> str:
    text = text.lower()
    words = _LATIN_WORDS.apart(text)
    known = _WORTH_OF_WORD.keys() & words
    marked: set[str] = set()
    if not text.isascii():
        found = units(text)
        signs = found[found >= _ASCII].tobytes().decode("utf-16-le", "surrogatepass")
        marked = _WORTH_OF_LETTER.keys() & signs
    if 2 * len(known & _ENGLISH_ALONE) > len(known) + len(marked):
        return "en"  # whatever all the others speak for
    scores = {"en": _TIE}
    # In the order of the text, so that a tie is decided the same way every time.
    for token in filter(known.__contains__, dict.fromkeys(words)):
        for code, worth in _WORTH_OF_WORD[token]:
            scores[code] = scores.get(code, 0.0) + worth
    for letter in filter(marked.__contains__, dict.fromkeys(signs if marked else "")):
        for code, worth in _WORTH_OF_LETTER[letter]:
            scores[code] = scores.get(code, 0.0) + worth
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _ENOUGH else UNKNOWN


def _language(text: str) -> str:
    script = None if text.isascii() else _script(text)
    if script is None:
        return _latin(text)
    if script == "cyrillic":
        return _letters(text, _CYRILLIC, "ru")
    if script == "arabic":
        return _letters(text, _ARABIC, "ar")
    return "ja" if script == "kana" else script


def detect(text: str) -> str:
    """Names the language of a text, of its first line where that tells: the rest may be quoted.

    Args:
        text: Any text; only its first :data:`SAMPLE_CHARS` characters are read.

    Returns:
        A code of :data:`LANGUAGES`, or :data:`UNKNOWN`.
    """
    sample = text[:SAMPLE_CHARS]
    first = _language(sample.partition("\n")[0])
    return _language(sample) if first == UNKNOWN else first


def requested(text: str, said: frozenset[str] | None = None) -> str | None:
    """Names the language that a text asks the answer to be in ("reply in Spanish", "翻译成英语").

    Args:
        text: Any text.
        said: Its runs of letters, or more, where they are known; then it is in lower case.

    Returns:
        A code of :data:`LANGUAGES`, or None where the text asks for none.
    """
    if said is None:
        text = text.lower()
        said = letters(text)
    if not _NAMED.isdisjoint(said):
        match = _ASKED.search(text)
        if match:
            return BY_NAME[match[match.lastindex or 0]]
    if text.isascii() or _DENSE_NAMED.search(text) is None:
        return None
    match = _ASKED_DENSE.search(text)
    return BY_NAME[match[match.lastindex or 0]] if match else None
