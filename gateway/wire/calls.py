"""Whether the tool calls of an answer can be used: their arguments must be JSON objects."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.runtime.foreign import UNREADABLE

LIMIT: Final = 2**20
"""Characters of arguments that are kept of one answer; beyond, nothing is said of them."""


class _Function(msgspec.Struct):
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    function: _Function | None = None


_calls: Final = msgspec.json.Decoder(list[_Call])
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Calls:
    """Puts the arguments of each call together as they come."""

    __slots__ = ("_arguments", "_kept")

    def __init__(self) -> None:
        self._arguments: dict[tuple[int, int], list[str]] = {}
        self._kept = 0

    def take(self, choice: int, tool_calls: bytes) -> None:
        """Take the ``tool_calls`` of a message, or of a delta of it."""
        try:
            calls = _calls.decode(tool_calls)
        except UNREADABLE:
            return
        for place, call in enumerate(calls):
            said = (call.function.arguments if call.function is not None else None) or ""
            self.add(choice, place if call.index is None else call.index, said)

    def add(self, choice: int, place: int, said: str) -> None:
        """Add to the arguments of the call at a place in a choice."""
        pieces = self._arguments.setdefault((choice, place), [])
        self._kept += len(said)
        if self._kept <= LIMIT:
            pieces.append(said)

    def verdict(self, finish_reason: str) -> str:
        """``valid``, ``invalid``, or ``""`` where there is nothing to judge: no call, or one cut short.

        Args:
            finish_reason: Of the answer; ``length`` cuts a call short.
        """
        if not self._arguments or self._kept > LIMIT or finish_reason in {"", "length"}:
            return ""
        return "valid" if all(_is_object("".join(one)) for one in self._arguments.values()) else "invalid"


def _is_object(arguments: str) -> bool:
    try:
        _object.decode(arguments)
    except UNREADABLE:
        return False
    return True
