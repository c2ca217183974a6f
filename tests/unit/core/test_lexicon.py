from __future__ import annotations

import re

import pytest

from gateway.core import lexicon, lexicon_foreign, lexicon_tools

SETS = {name: value for name, value in vars(lexicon).items() if isinstance(value, frozenset)}
PATTERNS = {
    f"{module.__name__}.{name}": value
    for module in (lexicon, lexicon_foreign, lexicon_tools)
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}


@pytest.mark.parametrize("name", SETS)
def test_words_are_found_by_the_pattern_that_splits_texts(name: str) -> None:
    assert SETS[name]
    assert [word for word in SETS[name] if lexicon.WORD.findall(word) != [word]] == []


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_written_for_lower_case(name: str) -> None:
    without_escapes = re.sub(r"\\.", "", PATTERNS[name].pattern)
    assert without_escapes == without_escapes.lower()


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_end_on_hostile_text(name: str) -> None:
    for hostile in ("a" * 1000, "write " * 170, "$" * 1000, "( " * 500, "\n" * 1000, "in the " * 140):
        PATTERNS[name].findall(hostile)


def test_words_keep_the_signs_of_languages_and_lose_digits() -> None:
    assert lexicon.WORD.findall("c++ and c# in 2d, don't") == ["c++", "and", "c#", "in", "d", "don'", "t"]


@pytest.mark.parametrize(
    ("pattern", "keys", "elsewhere", "texts"),
    [
        (lexicon.CODE_IN, lexicon.CODE_IN_WORDS, "", ["in python'", "with c++.", "using node.js", "in go:", "for objective-c",
            "use f# now, using f#", "with google sheets", "in html5", "write it in c.", "into rust"]),
        (lexicon.MATH_COUNT, lexicon.MATH_COUNT_WORDS, "", ["how many", "at what", "in how"]),
        (lexicon.CREATIVE, lexicon.CREATIVE_WORDS, "role", ["write a poem", "tell me a joke", "roleplaying", "role-play",
            "pretend to be", "act as a", "imagine a", "author style", "300 words", "creative writing", "first-person",
            "make up a story", "continue the scene"]),
        (lexicon.TRANSLATION, lexicon.TRANSLATION_WORDS, "translat", ["translations", "how do you say", "say 'x' in french",
            "word for cat in thai", "in german please", "cat -> spanish:", "english please:", "give me the dutch version of"]),
    ],
    ids=["code in", "count", "creative", "translation"],
)  # fmt: skip
def test_where_a_pattern_matches_there_is_one_of_its_keys(
    pattern: re.Pattern[str], keys: frozenset[str], elsewhere: str, texts: list[str]
) -> None:
    for text in texts:
        assert pattern.search(text), text
        assert not keys.isdisjoint(lexicon.WORD.findall(text)) or (elsewhere and elsewhere in text), text
