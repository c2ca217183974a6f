# ruff: noqa: RUF001 - text in other scripts
from __future__ import annotations

import pytest

from gateway.core.answer import NATURES, OPENING_CHARS, TEXT, nature


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ("Here is a function:\n\n```python\ndef add(a, b):\n    return a + b\n```", "code"),
        ("import os\nfrom sys import argv\n\ndef main():\n    pass\n", "code"),
        ("We have $x^2 = 4$, so \\(x = \\pm 2\\).", "math"),
        ("There are 3 + 4 = 7 apples, and 7 * 2 = 14 pears in the basket.", "math"),
        ("El cielo es azul porque la luz del sol se dispersa en la atmósfera.", "multilingual"),
        ("天空之所以是蓝色的，是因为阳光在大气层中被散射，蓝光散射得最多。", "multilingual"),
        ("The sky is blue because sunlight is scattered by the air.", TEXT),
        ("In 1789 the revolution began; in 1799 it was over.", TEXT),
        ("```text\nThe sky is blue because of the light.\n```", TEXT),
        ("<think>\nThe user wants a sum.\n</think>\n\n```python\nprint(1)\n```", "code"),
        ("```python\nx = 1\n```</think>The sky is blue because of the air.", TEXT),
        ("<think>We have $x^2 = 4$, so \\(x = 2\\).</think>\n\nYes.", ""),
        ("\n<think>\nThe user asks why the sky is blue, which is due to", ""),
        ("I <think> that the sky is blue because of the air.", TEXT),
        ('<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>', "tool_use"),
        ("<tool_call>", "tool_use"),
        ('[TOOL_CALLS][{"name": "get_weather"}]', "tool_use"),
        ("<think>I need the weather.</think>\n<tool_call>\n{}", "tool_use"),
        ("A model of this kind writes <tool_call> where it calls a tool.", TEXT),
        ("Yes.", ""),
        ("", ""),
    ],
)
def test_the_beginning_shows_what_an_answer_is(opening: str, expected: str) -> None:
    assert nature(opening, calls_tool=False) == expected


def test_a_call_is_a_call_whatever_is_said() -> None:
    assert nature("", calls_tool=True) == "tool_use"
    assert nature("```python\nx\n```", calls_tool=True) == "tool_use"


def test_what_comes_later_is_not_read() -> None:
    assert nature("The sky is blue. " * (OPENING_CHARS // 17 + 1) + "\n```python\n", calls_tool=False) == TEXT


def test_natures_are_a_closed_set() -> None:
    assert NATURES == ("tool_use", "code", "math", "multilingual", TEXT)
