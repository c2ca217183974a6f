from __future__ import annotations

import pytest

from gateway.core.lexicon import NUMBER
from gateway.core.words import letters, scan

TEXTS = (
    "",
    "explain how a cache lets a server batch",
    "1, 1.5, 1,000.25 and 1.2.3 but .5, 5. and 1..2, 3,,4 a1b2 0.0.0.0.0",
    "größer als 3,5",
    "größer als 3,5 und don\u2019t \u201cquote\u201d me: ١٢٣ 😀",
    "tab\tand\nline\x1fbreak",
)


@pytest.mark.parametrize("text", TEXTS)
def test_counts_the_numbers_that_the_expression_finds(text: str) -> None:
    assert scan(text).numbers == len(NUMBER.findall(text))


def test_runs_of_letters_end_at_anything_else() -> None:
    assert letters("c++ isn't x_y 2d") == {"c", "isn", "t", "x", "y", "d"}
    assert letters("naïve 3x") == {"naïve", "x"}
    assert letters("naïve \u201cЖжж\u201d 3x \ud800") == {"naïve", "Жжж", "x"}


def test_names_stand_apart_from_scripts_without_spaces() -> None:
    assert letters("用python写一个函数") == {"用", "python", "写一个函数"}
    assert letters("python으로 써 줘") == {"python", "으로", "써", "줘"}
    assert "html" in letters("เขียนhtmlหน้า")


@pytest.mark.parametrize("text", ["one two three", "één twee drie", "один два три", "一 二 三"])
def test_runs_are_in_order_and_can_be_taken_of_a_part(text: str) -> None:
    seen = scan(text)
    assert seen.runs() == text.split()
    assert seen.runs(0, text.index(" ")) == text.split()[:1]
    assert seen.runs(text.rindex(" ")) == text.split()[-1:]


@pytest.mark.parametrize(
    "text", ["\u201cwe don\u2019t\u201d \u2013 3\u20144\u2026 ok", "né\u2019e Ж", "Ж\u2019 3"]
)
def test_quotation_marks_and_dashes_part_words_as_spaces_do(text: str) -> None:
    plain = scan("".join(" " if "\u2010" < char < "\u2030" else char for char in text))
    assert scan(text).runs() == plain.runs()
    assert scan(text).numbers == plain.numbers


@pytest.mark.parametrize(
    ("text", "signs", "highest"),
    [
        ("plain", "", 127),
        ("één", "éé", 255),
        ("één \u201cЖ", "éé\u201cЖ", 0x201C),
        ("né 😀", "é😀", 0xDE00),
        ("n\u2019é", "é", 255),
    ],
)
def test_tells_what_is_beyond_ascii(text: str, signs: str, highest: int) -> None:
    seen = scan(text)
    assert seen.beyond_ascii(len(text) + 1) == signs
    assert seen.highest == highest
