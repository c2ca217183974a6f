from __future__ import annotations

from gateway.core import language
from gateway.core.language_words import BY_LETTER, BY_NAME, BY_WORD, LANGUAGES


def test_every_code_is_of_the_closed_set() -> None:
    assert {code for codes in (*BY_WORD.values(), *BY_LETTER.values()) for code in codes} <= LANGUAGES
    assert set(BY_NAME.values()) <= LANGUAGES
    assert LANGUAGES - set(BY_NAME.values()) <= {name for name, _, _ in language._SCRIPTS}
    assert all(len(code) == 2 for code in LANGUAGES)


def test_words_letters_and_names_are_lower_case() -> None:
    assert all(word == word.lower() for word in (*BY_WORD, *BY_LETTER, *BY_NAME))


def test_letters_are_single_and_not_ascii() -> None:
    assert all(len(letter) == 1 and not letter.isascii() for letter in BY_LETTER)
