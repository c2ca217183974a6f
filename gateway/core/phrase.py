"""Words, stems, and patterns that are tried only where one of their words is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

WORD: Final = re.compile(r"[^\W\d_]+(?:[+#]+|')?")
"""A word in lower-cased text; ``c++`` and ``c#`` keep their signs."""

STEM_CHARS: Final = 4
"""Letters by which words are compared: enough to tell them apart, few enough for their endings."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern that need not be tried where none of the words that it begins with is there.

    Attributes:
        stems: First :data:`STEM_CHARS` letters of the words of which each match holds one.
    """

    pattern: re.Pattern[str]
    stems: frozenset[str]

    def found(self, text: str, stems: frozenset[str]) -> bool:
        """Whether the pattern matches in a text with these stems."""
        return not self.stems.isdisjoint(stems) and self.pattern.search(text) is not None


def stems(words: Iterable[str]) -> frozenset[str]:
    """The first :data:`STEM_CHARS` letters of each word."""
    return frozenset(word[:STEM_CHARS] for word in words)


def phrase(pattern: str, beginnings: str, flags: re.RegexFlag = re.NOFLAG) -> Phrase:
    """A pattern with the words, separated by blanks, of which each match holds one."""
    return Phrase(re.compile(pattern, flags), stems(beginnings.split()))
