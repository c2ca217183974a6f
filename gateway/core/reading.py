"""The last user message, taken apart once for all that look at it, in a bounded time."""

from __future__ import annotations

from typing import Final

from gateway.core.values import value
from gateway.core.words import Scan, scan

HEAD_CHARS: Final = 500
"""What is read of the beginning of a text: the task is usually named there."""

TAIL_CHARS: Final = 200
"""What is read of its end: the other place where the task is named."""

ASK_CHARS: Final = 160
"""Of the head and of the tail, where the request itself is looked for rather than the text it is about."""


def ends(text: str, head: int, tail: int) -> str:
    """The head and the tail of a text, or all of a short one."""
    return text if len(text) <= head + tail else f"{text[:head]}\n{text[-tail:]}"


@value(frozen=True, slots=True)
class Reading:
    """What is read of the last user message, taken apart once.

    Attributes:
        seen: Its head and tail, in lower case.
        ask: Where the request itself is looked for: the head and the tail of that.
        asked: The runs of letters of that ...
        said: ... and those of all that is seen.
        first: Those that tell the language, in order: all of a short text, or those of the head.
        first_chars: How many characters they are from.
    """

    seen: Scan
    ask: str
    asked: frozenset[str]
    said: frozenset[str]
    first: list[str]
    first_chars: int


def reading(text: str) -> Reading:
    """Takes a text apart."""
    seen = scan(ends(text, HEAD_CHARS, TAIL_CHARS).lower())
    if len(seen.text) <= 2 * ASK_CHARS:
        runs = seen.runs()
        said = frozenset(runs)
        return Reading(seen, seen.text, said, said, runs, len(seen.text))
    head = seen.runs(0, ASK_CHARS)
    asked = frozenset(head).union(seen.runs(-ASK_CHARS))
    said = asked.union(seen.runs(ASK_CHARS, -ASK_CHARS))
    return Reading(seen, ends(seen.text, ASK_CHARS, ASK_CHARS), asked, said, head, ASK_CHARS)
