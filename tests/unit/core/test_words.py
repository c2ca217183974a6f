from __future__ import annotations

import pytest

from gateway.core.lexicon import NUMBER, WORD
from gateway.core.words import letters, numbers, words

TEXTS = (
    "",
    "explain how a cache lets a server batch",
    "don't quote 'this' or ''that'', it's rock'n'roll '",
    "c++ and c# in 2d, x_y and a+b, c+'",
    "1, 1.5, 1,000.25 and 1.2.3 but .5, 5. and 1..2, 3,,4 a1b2 0.0.0.0.0",
    "größer als 3,5 und don\u2019t \u201cquote\u201d me: ١٢٣ 😀",
    "tab\tand\nline\x1fbreak",
)


@pytest.mark.parametrize("text", TEXTS)
def test_finds_what_the_expressions_find(text: str) -> None:
    assert words(text) == frozenset(WORD.findall(text))
    assert numbers(text) == len(NUMBER.findall(text))


def test_runs_of_letters_end_at_anything_else() -> None:
    assert letters("c++ isn't x_y 2d") == {"c", "isn", "t", "x", "y", "d"}
    assert letters("naïve 3x") == {"naïve", "x"}


def test_names_stand_apart_from_scripts_without_spaces() -> None:
    assert letters("用python写一个函数") == {"用", "python", "写一个函数"}
    assert letters("python으로 써 줘") == {"python", "으로", "써", "줘"}
    assert words("用c++写") == {"用", "c++", "写"}
    assert "html" in letters("เขียนhtmlหน้า")
