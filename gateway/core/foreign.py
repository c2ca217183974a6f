"""What a request in another language than English asks for, by its words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.core.lexicon_foreign import SIGNS, WORDS
from gateway.core.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEAD: Final = 3
_RUNS: Final = re.compile(r"\w+")
_KINDS: Final = {name: 1 << number for number, name in enumerate(WORDS)}
_CODE, _CODE_MADE, _MATH_TASK, _MATH_TERM, _TRANSLATION, _TOOL_ACTION = _KINDS.values()


@value(frozen=True, slots=True)
class Foreign:
    """Marks that a text has beside those of the English lexicon."""

    code: bool = False
    code_request: bool = False
    math: bool = False
    math_terms: int = 0
    translation: bool = False
    tool_action: bool = False


NOTHING: Final = Foreign()


def _by_entry(table: Mapping[str, str]) -> dict[str, int]:
    entries: dict[str, int] = {}
    for name, listed in table.items():
        for entry in listed.replace("\n", " ").split():
            entries[entry] = entries.get(entry, 0) | _KINDS[name]
    return entries


def _by_head() -> dict[str, list[tuple[str, bool, int]]]:
    """From how words begin to what to look for, whether in the whole text, and the kinds it speaks for."""
    heads: dict[str, list[tuple[str, bool, int]]] = {}
    for entry, kinds in _by_entry(WORDS).items():
        phrase = entry.rstrip("*").replace("_", " ")
        several = not phrase.isalpha()
        sought = phrase if several or entry.endswith("*") else f"{phrase} "
        head = _RUNS.findall(phrase)[-1][:_HEAD]
        heads.setdefault(head, []).append((sought, several, kinds))
    return heads


_BY_HEAD: Final = _by_head()
_OF_SIGN: Final = {entry.replace("_", " "): kinds for entry, kinds in _by_entry(SIGNS).items()}
_EAST_ASIAN: Final = "\u2e80"


def _any(signs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(signs, key=len, reverse=True))))


# Apart, so that a letter is compared with fewer of them.
_SIGNS_BEFORE: Final = _any(sign for sign in _OF_SIGN if sign < _EAST_ASIAN)
_SIGNS_FROM: Final = _any(sign for sign in _OF_SIGN if sign >= _EAST_ASIAN)


def read(ask: str, said: frozenset[str]) -> Foreign:
    """Reads what a text asks for.

    Args:
        ask: Where to look, in lower case.
        said: Its runs of letters.
    """
    found = {sign: _OF_SIGN[sign] for sign in (*_SIGNS_BEFORE.findall(ask), *_SIGNS_FROM.findall(ask))}
    for word in said:
        for sought, several, kinds in _BY_HEAD.get(word[:_HEAD], ()):
            if sought in ask if several else f"{word} ".startswith(sought):
                found[sought] = kinds  # noqa: PERF403 - two loops, and it has entries
    if not found:
        return NOTHING
    seen = terms = 0
    for kinds in found.values():
        seen |= kinds
        terms += kinds & _MATH_TERM > 0
    code = seen & _CODE > 0
    return Foreign(
        code=code,
        code_request=code and seen & _CODE_MADE > 0,
        math=seen & _MATH_TASK > 0,
        math_terms=terms,
        translation=seen & _TRANSLATION > 0,
        tool_action=seen & _TOOL_ACTION > 0,
    )
