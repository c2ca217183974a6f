from __future__ import annotations

import re

import pytest

from gateway.core import lexicon, lexicon_foreign, lexicon_tools
from gateway.core.words import letters

SETS = {name: value for name, value in vars(lexicon).items() if isinstance(value, frozenset)}
PATTERNS = {
    f"{module.__name__}.{name}": value
    for module in (lexicon, lexicon_foreign, lexicon_tools)
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}


@pytest.mark.parametrize("name", SETS)
def test_words_are_runs_of_letters(name: str) -> None:
    assert SETS[name]
    assert {word for word in SETS[name] if letters(word) != {word}} <= {"c++", "c#"}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_written_for_lower_case(name: str) -> None:
    without_escapes = re.sub(r"\\.", "", PATTERNS[name].pattern)
    assert without_escapes == without_escapes.lower()


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_end_on_hostile_text(name: str) -> None:
    for hostile in ("a" * 1000, "write " * 170, "$" * 1000, "( " * 500, "\n" * 1000, "in the " * 140):
        PATTERNS[name].findall(hostile)
