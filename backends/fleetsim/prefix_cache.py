"""Which beginnings of prompts a server still has."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.fleetsim.request import Request


class PrefixCache:
    """Tokens by prefix; what was not used for longest goes first.

    Args:
        tokens: Tokens that it keeps; 0 for no cache.
    """

    __slots__ = ("_held", "_known", "_limit")

    def __init__(self, tokens: int) -> None:
        self._limit = tokens
        self._held = 0
        self._known: OrderedDict[object, int] = OrderedDict()

    def found(self, request: Request) -> int:
        """Prompt tokens of the request that are in it; the last one is always computed."""
        prefix = request.prefix
        if prefix is None or prefix not in self._known:
            return 0
        self._known.move_to_end(prefix)
        return min(request.shared_tokens, self._known[prefix], request.prompt_tokens - 1)

    def keep(self, request: Request, tokens: int) -> None:
        """Keep the first tokens of its conversation."""
        prefix = request.prefix
        if prefix is None or not self._limit:
            return
        before = self._known.pop(prefix, 0)
        self._known[prefix] = max(before, tokens)
        self._held += self._known[prefix] - before
        while self._held > self._limit and len(self._known) > 1:
            self._held -= self._known.popitem(last=False)[1]

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._held = 0
