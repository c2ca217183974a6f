"""Every way in which a keyed expression can match must hold one of its keys, or a match would be missed."""

from __future__ import annotations

import re
from copy import copy
from re import _constants as sre  # type: ignore[attr-defined] # the only way to see an expression's parts
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from gateway.core import lexicon_keys
from gateway.core.keyed import Keyed
from gateway.core.lexicon_keys import KEYS, look
from gateway.core.words import letters

KEYED = {name: value for name, value in vars(lexicon_keys).items() if isinstance(value, Keyed)}
FILLERS = ("", " ", ".", "x", "1", "\n")
"""What may have to stand around a match for its borders to be borders."""


def ways(part: Any) -> list[str]:
    """Texts that a part of a parsed expression takes; each alternative of each place occurs in one of them."""
    kind, value = part
    if kind is sre.LITERAL:
        return [chr(value)]
    if kind is sre.NOT_LITERAL:
        return [" " if value != ord(" ") else "x"]
    if kind is sre.ANY:
        return ["x"]
    if kind is sre.IN:
        return members(value)
    if kind is sre.BRANCH:
        return [text for branch in value[1] for text in sequences(branch)]
    if kind is sre.SUBPATTERN:
        return sequences(value[3])
    if kind in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
        least, _, repeated = value
        texts = [text * max(least, 1) for text in sequences(repeated)]
        gap = repeated[0][0] is sre.ANY or texts[0] == " "  # between two words there must be one
        return texts if least else [*texts, ""] if gap else ["", *texts]
    assert kind in {sre.AT, sre.ASSERT, sre.ASSERT_NOT}, kind
    return [""]


def members(value: Any) -> list[str]:
    if value[0][0] is sre.NEGATE:
        return [" ", "-"]
    texts = []
    for kind, inner in value:
        if kind is sre.LITERAL:
            texts.append(chr(inner))
        elif kind is sre.RANGE:
            texts.append(chr(inner[0]))
        else:
            assert kind is sre.CATEGORY
            texts.append({sre.CATEGORY_DIGIT: "3", sre.CATEGORY_SPACE: " "}.get(inner, "w"))
    return texts


def sequences(parts: Any) -> list[str]:
    choices = [ways(part) for part in parts]
    usual = [texts[0] for texts in choices]
    found = {"".join(usual)}
    for at, texts in enumerate(choices):
        for text in texts:
            found.add("".join([*usual[:at], text, *usual[at + 1 :]]))
    return sorted(found)


@pytest.mark.parametrize("name", KEYED)
def test_every_way_to_match_holds_a_key(name: str) -> None:
    keyed = KEYED[name]
    tried = matched = 0
    for text in sequences(parser.parse(keyed.pattern.pattern, keyed.pattern.flags)):
        around = [f"{before}{text}{after}" for before in FILLERS for after in FILLERS]
        fitting = [candidate for candidate in around if keyed.pattern.search(candidate)]
        tried += 1
        matched += bool(fitting)
        for candidate in fitting:
            assert keyed.found(candidate, look(letters(candidate))), candidate
    assert matched >= 0.6 * tried, "the texts made from the expression do not fit it"


@pytest.mark.parametrize("name", KEYED)
def test_without_a_key_nothing_is_looked_for(name: str) -> None:
    keyed = copy(KEYED[name])
    keyed.pattern = re.compile("")
    assert not keyed.found("xyzzy", look(letters("xyzzy")))


def test_every_word_is_a_run_of_letters() -> None:
    assert letters(" ".join(KEYS)) == KEYS
