"""Which language a text is in, and which one it asks for: script blocks, then stop words."""
# ruff: noqa: RUF001 - letters of other alphabets are the subject

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.core.language_words import BY_LETTER, BY_NAME, BY_WORD

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN: Final = "und"
"""Where a text gives no hint: no letters, or Latin letters without a known stop word."""

SAMPLE_CHARS: Final = 400
"""What is read of a text: enough for stop words, and cheap."""

_SCRIPTS: Final = {
    "kana": "\u3040-\u30ff",
    "zh": "\u3400-\u4dbf\u4e00-\u9fff",
    "ko": "\u1100-\u11ff\uac00-\ud7af",
    "cyrillic": "\u0400-\u052f",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "el": "\u0370-\u03ff",
    "he": "\u0590-\u05ff",
    "hy": "\u0530-\u058f",
    "ka": "\u10a0-\u10ff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "th": "\u0e00-\u0e7f",
    "km": "\u1780-\u17ff",
    "my": "\u1000-\u109f",
    "am": "\u1200-\u137f",
}
_RUNS: Final = re.compile("|".join(f"(?P<{name}>[{block}]+)" for name, block in _SCRIPTS.items()))
# One look for letters that are not Latin spares most texts the slow expressions, curly quotes or not.
_NOT_LATIN: Final = re.compile("[\u0370-\u1dff\u2e80-\uffef]")
_LATIN_WORDS: Final = re.compile("(?<![0-9])[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_WORDS: Final = re.compile("[^\\W\\d_]+")
_MIN_SHARE: Final = 0.3
"""Share of letters from which a script other than Latin decides."""

_DENSE: Final = {"zh": 3, "kana": 3, "ko": 3}
"""Scripts whose letter stands for about as much text as this many Latin letters."""

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

_MARKED: Final = re.compile("[^\x00-\x7f]")
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


# In ASCII, words are found three times as fast by splitting bytes. Digits stay: "3x" holds no word.
_SPACED: Final = bytes(char if chr(char).isalnum() else ord(" ") for char in range(128)) + bytes(
    range(128, 256)
)


def _ascii_words(text: str) -> list[str]:
    return text.encode().translate(_SPACED).decode().split()


def _weight(script: str, run: str) -> int:
    return len(run) * _DENSE.get(script, 1)


def _script(text: str) -> str | None:
    """The language or family of a text whose letters are mostly not Latin."""
    weights: dict[str, int] = {}
    for match in _RUNS.finditer(text):
        script = match.lastgroup or ""
        weights[script] = weights.get(script, 0) + _weight(script, match[0])
    if not weights:
        return None
    foreign = sum(weights.values())
    latin = sum(map(len, _LATIN_WORDS.findall(text)))
    if foreign < _MIN_SHARE * (foreign + latin):
        return None
    if weights.get("kana", 0) * 10 >= foreign:
        return "kana"
    return max(weights, key=lambda script: weights[script])


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


def _latin(text: str) -> str:
    text = text.lower()
    scores = {"en": _TIE}
    if text.isascii():
        known = [(_ascii_words(text), _WORTH_OF_WORD)]
    else:
        known = [(_LATIN_WORDS.findall(text), _WORTH_OF_WORD), (_MARKED.findall(text), _WORTH_OF_LETTER)]
    for found, worths in known:
        for token in dict.fromkeys(filter(worths.__contains__, found)):
            for code, worth in worths[token]:
                scores[code] = scores.get(code, 0.0) + worth
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] >= _ENOUGH else UNKNOWN


def _language(text: str) -> str:
    script = None if text.isascii() or not _NOT_LATIN.search(text) else _script(text)
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


def requested(text: str) -> str | None:
    """Names the language that a text asks the answer to be in ("reply in Spanish", "翻译成英语").

    Returns:
        A code of :data:`LANGUAGES`, or None where the text asks for none.
    """
    text = text.lower()
    ascii_only = text.isascii()
    if not BY_NAME.keys().isdisjoint(_ascii_words(text) if ascii_only else _WORDS.findall(text)):
        match = _ASKED.search(text)
        if match:
            return BY_NAME[match[match.lastindex or 0]]
    if ascii_only or _NOT_LATIN.search(text) is None:
        return None
    match = _ASKED_DENSE.search(text)
    return BY_NAME[match[match.lastindex or 0]] if match else None
