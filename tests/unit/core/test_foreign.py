from __future__ import annotations

import pytest

from gateway.core.foreign import NOTHING, Foreign, read
from gateway.core.words import letters, scan


def found(text: str) -> Foreign:
    return read(text, letters(text), scan(text).highest)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wie heißt der fehler in diesem programm", Foreign(code=2, code_request=True)),
        ("我的代码不工作", Foreign(code=1, code_sure=1)),
        ("напиши функцию", Foreign(code=1, code_request=True)),
        ("schreibe einen brief", Foreign(creative=True)),
        ("wie viele äpfel sind es", Foreign(math=True)),
        ("wie schön ist es", NOTHING),
        ("zeige, dass es ein dreieck ist", Foreign(math=True, math_terms=1)),
        ("三角形的面积是多少", Foreign(math=True, math_terms=3)),
        ("解方程", Foreign(math=True, math_terms=1)),
        ("dos triángulos y una ecuación", Foreign(math_terms=2)),
        ("übersetze das", Foreign(translation=True)),
        ("翻译成英文", Foreign(translation=True)),
        ("hava durumu nedir", Foreign(tool_action=True)),
        ("احجز طاولة", Foreign(tool_action=True)),
        ("kodunu yaz", Foreign(code=1, code_request=True)),
        ("une expression régulière", Foreign(code=1, code_sure=1)),
        ("写一首诗", Foreign(creative=True)),
        ("כתוב פונקציה", Foreign(code=1, code_request=True)),
        ("schreibe sortieralgorithmen", Foreign(code=1, code_sure=1, code_request=True)),
        ("git rebase", Foreign(code=2, code_sure=2)),
        ("🙂 函数", Foreign(code=1, math_terms=1)),
    ],
)
def test_reads_what_is_asked_for(text: str, expected: Foreign) -> None:
    assert found(text) == expected


@pytest.mark.parametrize("text", ["", "the report is open", "die brücke ist offen", "桥梁"])
def test_a_text_that_asks_for_none_of_it_has_no_marks(text: str) -> None:
    assert found(text) is NOTHING


def test_a_word_counts_once_however_often_it_comes() -> None:
    assert found("函数 函数 函数") == found("函数")
    assert found("funktion funktion") == found("funktion")


def test_what_ends_a_text_is_no_sign_that_begins_there() -> None:
    assert found("代") is NOTHING
    assert not found("ש").code


def test_a_whole_word_is_no_beginning_of_another() -> None:
    assert found("ile osób").math
    assert not found("ilekroć pada").math
