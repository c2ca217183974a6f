"""What a request in another language than English asks for, by its words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core.lexicon_foreign import WORDS
from gateway.core.lexicon_scripts import SIGNS
from gateway.core.values import value
from gateway.core.words import UNITS, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

_HEAD: Final = 3
_RUNS: Final = re.compile(r"\w+")
_KINDS: Final = {name: 1 << number for number, name in enumerate(WORDS)}
_CODE_SURE, _CODE, _CODE_MADE, _MATH_TASK, _MATH_TERM, _CREATIVE, _TRANSLATION, _TOOL_ACTION = _KINDS.values()


@value(frozen=True, slots=True)
class Foreign:
    """Marks that a text has beside those of the English lexicon.

    Attributes:
        code: Distinct words of programming.
        code_sure: Of them, those that mean nothing else.
        math_terms: Distinct words of mathematics.
    """

    code: int = 0
    code_sure: int = 0
    code_request: bool = False
    math: bool = False
    math_terms: int = 0
    creative: bool = False
    translation: bool = False
    tool_action: bool = False


NOTHING: Final = Foreign()


def _by_entry(table: Mapping[str, str]) -> dict[str, int]:
    entries: dict[str, int] = {}
    for name, listed in table.items():
        for entry in listed.split():
            if not entry.endswith(":"):
                entries[entry] = entries.get(entry, 0) | _KINDS[name]
    return entries


@dataclass(frozen=True, slots=True)
class _Head:
    """What to look for in words that begin with the same letters.

    Attributes:
        whole: Kinds of whole words.
        stems: Beginnings of words, with their kinds.
        phrases: What to look for in the whole text.
    """

    whole: dict[str, int]
    stems: list[tuple[str, int]]
    phrases: list[tuple[str, int]]


def _by_head() -> dict[str, _Head]:
    """By the first letters of a word."""
    heads: dict[str, _Head] = {}
    for entry, kinds in _by_entry(WORDS).items():
        phrase = entry.rstrip("*").replace("_", " ")
        several = not phrase.isalpha()
        first = _RUNS.findall(phrase)[-1] if several else phrase
        head = heads.setdefault(first[:_HEAD], _Head({}, [], []))
        if several:
            head.phrases.append((phrase, kinds))
        elif entry.endswith("*"):
            head.stems.append((phrase, kinds))
        else:
            head.whole[phrase] = kinds
    return heads


def _by_pair() -> tuple[dict[str, int], dict[int, list[tuple[str, int]]]]:
    """Signs of one letter, and the longer ones by the hash of their first two letters."""
    single: dict[str, int] = {}
    pairs: dict[int, list[tuple[str, int]]] = {}
    for entry, kinds in _by_entry(SIGNS).items():
        sign = entry.replace("_", " ")
        if len(sign) == 1:
            single[sign] = kinds
        else:
            pairs.setdefault(int(_hashed(units(sign[:2]))[0]), []).append((sign, kinds))
    return single, pairs


def _hashed(read: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """A hash of each two UTF-16 units that follow each other."""
    return read[:-1] * _ODD + read[1:]


_ODD: Final = np.uint16(40503)
_BY_HEAD: Final = _by_head()
_SINGLE, _BY_PAIR = _by_pair()
_BEGINS: Final = np.isin(np.arange(UNITS), [*_BY_PAIR])
_FIRST_SIGN: Final = 0x0590
"""Letters of Hebrew and of what comes after it in Unicode are looked for as signs."""


def _signs(ask: str, read: NDArray[np.uint16]) -> Iterator[int]:
    """The kinds of each sign that a text of these UTF-16 units holds."""
    yield from (kinds for sign, kinds in _SINGLE.items() if sign in ask)
    hashed = _hashed(read)
    for pair in {*hashed[_BEGINS[hashed]].tolist()}:
        yield from (kinds for sign, kinds in _BY_PAIR[pair] if sign in ask)


def _words(ask: str, said: frozenset[str]) -> list[int]:
    """The kinds of each word that shows something, and of each phrase."""
    phrases: dict[str, int] = {}
    each: list[int] = []
    for word in said:
        if (head := _BY_HEAD.get(word[:_HEAD])) is None:
            continue
        shown = head.whole.get(word, 0)
        for stem, kinds in head.stems:
            if word.startswith(stem):
                shown |= kinds
        if shown:
            each.append(shown)
        if head.phrases:
            phrases |= {phrase: kinds for phrase, kinds in head.phrases if phrase in ask}
    each += phrases.values()
    return each


def read(ask: str, said: frozenset[str], highest: int) -> Foreign:
    """Reads what a text asks for.

    Args:
        ask: Where to look, in lower case.
        said: Its runs of letters.
        highest: Its highest UTF-16 unit, or a higher one.
    """
    each = _words(ask, said)
    if highest >= _FIRST_SIGN:
        each += _signs(ask, units(ask))
    if not each:
        return NOTHING
    seen = code = sure = terms = 0
    for kinds in each:
        seen |= kinds
        code += kinds & (_CODE | _CODE_SURE) > 0
        sure += kinds & _CODE_SURE > 0
        terms += kinds & _MATH_TERM > 0
    return Foreign(
        code=code,
        code_sure=sure,
        code_request=code > 0 and seen & _CODE_MADE > 0,
        math=seen & _MATH_TASK > 0,
        math_terms=terms,
        creative=seen & _CREATIVE > 0,
        translation=seen & _TRANSLATION > 0,
        tool_action=seen & _TOOL_ACTION > 0,
    )
