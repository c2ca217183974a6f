from __future__ import annotations

import re

from gateway.core.phrase import STEM_CHARS, WORD, phrase, stems


def test_words_keep_the_signs_of_languages_and_lose_digits() -> None:
    assert WORD.findall("c++ and c# in 2d, don't") == ["c++", "and", "c#", "in", "d", "don'", "t"]


def test_stems_are_the_first_letters() -> None:
    assert stems(["summary", "summarize", "tea"]) == {"summary"[:STEM_CHARS], "tea"}


def test_a_phrase_is_found_only_beside_one_of_its_words() -> None:
    found = phrase(r"^sum of", "sum", re.MULTILINE)
    assert found.found("the\nsum of it", stems(["sum"]))
    assert not found.found("the\nsum of it", stems(["total"]))
    assert not found.found("the sum of it", stems(["sum"]))
