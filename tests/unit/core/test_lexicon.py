from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.core import lexicon, lexicon_foreign, lexicon_tools
from gateway.core.phrase import WORD, Phrase, stems

SETS = {name: value for name, value in vars(lexicon).items() if isinstance(value, frozenset)}
PATTERNS = {
    f"{module.__name__}.{name}": value.pattern if isinstance(value, Phrase) else value
    for module in (lexicon, lexicon_foreign, lexicon_tools)
    for name, value in vars(module).items()
    if isinstance(value, Phrase | re.Pattern)
}


@pytest.mark.parametrize("name", SETS)
def test_words_are_found_by_the_pattern_that_splits_texts(name: str) -> None:
    assert SETS[name]
    assert [word for word in SETS[name] if WORD.findall(word) != [word]] == []


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_written_for_lower_case(name: str) -> None:
    without_escapes = re.sub(r"\\.", "", PATTERNS[name].pattern)
    assert without_escapes == without_escapes.lower()


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_end_on_hostile_text(name: str) -> None:
    for hostile in ("a" * 1000, "write " * 170, "$" * 1000, "( " * 500, "\n" * 1000, "in the " * 140):
        PATTERNS[name].findall(hostile)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        (lexicon.CODE_TASK, "which flags do i need"),
        (lexicon.CODE_TASK, "the merge conflict stays"),
        (lexicon.MATH_SURE, "what is the standard deviation"),
        (lexicon.MATH_SURE, "solve for x"),
        (lexicon.TEXT_TASK, "give me the main points"),
        (lexicon.TEXT_TASK, "every person mentioned"),
        (lexicon.TRANSLATION, "how do you say bread in korean"),
        (lexicon.TRANSLATION, "english -> thai: bread"),
        (lexicon_tools.PLAIN_ORDER, "without running it"),
        (lexicon_tools.PLAIN_ORDER, "don't send it"),
        (lexicon_tools.TOOL_TEXT, "you may call these functions"),
    ],
)
def test_a_phrase_is_tried_where_one_of_its_words_is_there(phrase: Any, text: str) -> None:
    assert phrase.found(text, stems(WORD.findall(text)))
    assert not phrase.found(text, frozenset())
