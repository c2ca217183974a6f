"""What the first tokens of an answer show of its nature: a cheap check on the label its request got."""

from __future__ import annotations

import re
from typing import Final

from gateway.core import language, lexicon

TEXT: Final = "text"
"""Prose in English: of a chat, or made from a given text. The answer alone does not tell which."""

NATURES: Final = ("tool_use", "code", "math", "multilingual", TEXT)
"""What an answer can be seen to be."""

OPENING_CHARS: Final = 600
"""What is read of an answer."""

_CALLS: Final = ("<tool_call>", "<|tool_call", "<function=", "[TOOL_CALLS]")
"""How models begin a call that the server left in the text."""

_FEWEST_CHARS: Final = 16
_FENCE: Final = re.compile(r"^\s*```\s*(\w*)", re.MULTILINE)
_PROSE: Final = frozenset({"text", "txt", "markdown", "md", "latex", "math"})
"""Languages that a fence may name without holding code."""

_SUM: Final = re.compile(
    r"[\d)x]\s*(?:[-+*/\u00d7\u00f7^]|\\times|\\cdot)\s*[\d(x][^=\n]{0,40}=|=\s*[-$\u20ac\u00a3]?\d|\u2248\s*\d"
)
_MOST_CODE_LINES: Final = 3
_FEWEST_FORMULAS: Final = 2


def nature(opening: str, *, calls_tool: bool) -> str:
    """Tells what an answer is.

    Args:
        opening: Its beginning, without the reasoning that the server told apart.
        calls_tool: It called a tool.

    Returns:
        One of :data:`NATURES`, or ``""`` where the opening is too short to tell.
    """
    if calls_tool:
        return "tool_use"
    text = _without_thoughts(opening[:OPENING_CHARS]).strip()
    if text.startswith(_CALLS):
        return "tool_use"
    if len(text) < _FEWEST_CHARS:
        return ""
    fence = _FENCE.search(text) if "```" in text else None
    if (fence and fence[1].lower() not in _PROSE) or _code_lines(text) >= _MOST_CODE_LINES:
        return "code"
    if _formulas(text) >= _FEWEST_FORMULAS:
        return "math"
    return "multilingual" if language.detect(text) not in {"en", language.UNKNOWN} else TEXT


def _without_thoughts(text: str) -> str:
    """What follows reasoning that the server left in the text; nothing where that does not end in it.

    Some templates begin it in the prompt, so that only its end is seen.
    """
    before, ended, after = text.partition("</think>")
    if ended:
        return after
    return "" if before.lstrip().startswith("<think>") else text


def _code_lines(text: str) -> int:
    lines = text.lower().splitlines()
    if len(lines) < _MOST_CODE_LINES:
        return 0
    return sum(1 for line in lines if lexicon.CODE_LINE.match(line))


def _formulas(text: str) -> int:
    """Formulas and sums, looked for only where the signs are without which there are none."""
    latex = "\\" in text or "$" in text or not text.isascii()
    sums = "=" in text or "\u2248" in text
    return (len(lexicon.LATEX.findall(text)) if latex else 0) + (len(_SUM.findall(text)) if sums else 0)
