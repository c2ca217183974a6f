"""What was worked out for texts that come again and again, such as system prompts, without the texts."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def remembered(function: Callable[[str], T], most: int = 256) -> Callable[[str], T]:
    """A pure function of a text that remembers its results for so many texts, the oldest forgotten first.

    A text is known again by its length and its 64-bit hash, whose key is secret: to find two that share them
    is nothing that happens or can be brought about.
    """
    known: dict[tuple[int, int], T] = {}

    @wraps(function)
    def remembering(text: str) -> T:
        key = (len(text), hash(text))
        try:
            return known[key]
        except KeyError:
            found = function(text)
        if len(known) >= most:
            known.pop(next(iter(known), key), None)
        known[key] = found
        return found

    return remembering
