"""An expression that is tried only where a text holds what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


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

    __slots__ = ("_any", "_sure", "clauses", "parts", "pattern", "sure")

    def __init__(
        self, pattern: re.Pattern[str], *clauses: str, parts: tuple[str, ...] = (), sure: str = ""
    ) -> None:
        """Take clauses apart: ``how & many much`` is one of "how" beside "many" or "much"."""
        self.pattern = pattern
        self.clauses = [tuple(frozenset(side.split()) for side in clause.split("&")) for clause in clauses]
        self.parts = parts
        self.sure = frozenset(sure.split())
        self._sure = self._any = 0

    def number(self, sure: int, *clauses: int) -> None:
        """Takes the bits of its sure words and of its clauses in :func:`gateway.core.lexicon_keys.look`."""
        self._sure = sure
        self._any = sum(clauses)

    def found(self, text: str, keys: int) -> bool:
        """Whether the expression matches somewhere.

        Args:
            text: Where to look, in lower case.
            keys: What :func:`gateway.core.lexicon_keys.look` gives for its runs of letters, or for more.
        """
        if keys & self._sure:
            return True
        if keys & self._any:
            return self.pattern.search(text) is not None
        for part in self.parts:
            if part in text:
                return self.pattern.search(text) is not None
        return False
