"""An expression that is tried only where a text holds what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping


class Keyed:
    """An expression that is tried only where it can match, and where it is not known to.

    Every text that it matches holds one of the sure words, or a word of each side of one of the clauses, or
    one of the parts.

    Attributes:
        pattern: The expression.
        clauses: Sides of runs of letters, apart by spaces.
        parts: Pieces of words, and signs.
        sure: Runs of letters of which any is a match.
    """

    __slots__ = ("_bits", "_first", "_other", "_sure", "clauses", "parts", "pattern", "sure")

    def __init__(
        self, pattern: re.Pattern[str], *clauses: str, parts: tuple[str, ...] = (), sure: str = ""
    ) -> None:
        """Take clauses apart: ``how & many much`` is one of "how" beside "many" or "much"."""
        self.pattern = pattern
        self.clauses = [tuple(frozenset(side.split()) for side in clause.split("&")) for clause in clauses]
        self.parts = parts
        self.sure = frozenset(sure.split())
        self._sure = 0
        self._bits: list[tuple[int, int]] = []
        self._first = self._other = 0

    def number(self, bits: Mapping[frozenset[str], int]) -> None:
        """Takes the bits of sides and sure words in what :func:`gateway.core.lexicon_keys.look` gives."""
        self._sure = bits.get(self.sure, 0)
        for sides in self.clauses:
            one, other = bits[sides[0]], bits[sides[-1]]
            self._bits.append((one, other))
            self._first |= one
            self._other |= other

    def found(self, text: str, keys: int) -> bool:
        """Whether the expression matches somewhere.

        Args:
            text: Where to look, in lower case.
            keys: What :func:`gateway.core.lexicon_keys.look` gives for its runs of letters, or for more.
        """
        if keys & self._sure:
            return True
        if keys & self._first and keys & self._other:
            for one, other in self._bits:
                if keys & one and keys & other:
                    return self.pattern.search(text) is not None
        for part in self.parts:
            if part in text:
                return self.pattern.search(text) is not None
        return False
