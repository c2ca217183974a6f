"""What answers of ``/v1/responses`` (items) and ``/v1/messages`` (blocks) say, whole or event by event."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from gateway.runtime.foreign import UNREADABLE

ENDS: Final = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})
"""Types of the last events of streams."""

FAILURES: Final = frozenset({"error", "response.failed"})
"""Types of those events that tell of a failure."""

BEGINNINGS: Final = frozenset(
    {"message_start", "content_block_start", "response.created", "response.output_item.added"}
)
"""Types of the events with which an answer begins, or an item or a block of it."""

DELTAS: Final = frozenset({"content_block_delta", "response.output_text.delta"})
"""Types of the events that texts consist of; those of blocks may be of reasoning or of a call."""

_TEXTS: Final = frozenset({"text", "text_delta", "output_text"})
_CALLS: Final = ("_call", "tool_use")

_T = TypeVar("_T")


class _Piece(msgspec.Struct, gc=False):
    """An item, a block, a part of an item, or what is added to a block."""

    type: str | None = None
    text: str | None = None
    content: msgspec.Raw = msgspec.Raw()

    def own(self) -> str:
        """Its text without that of its parts."""
        return (self.text or "") if self.type in _TEXTS else ""

    def said(self) -> str:
        """Its text."""
        if self.type == "message":
            return "".join(part.own() for part in _read(_parts, self.content) or ())
        return self.own()


class _Answer(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None


class _Told(msgspec.Struct, gc=False):
    response: _Answer | None = None
    message: _Answer | None = None
    item: _Piece | None = None
    content_block: _Piece | None = None
    output: list[_Piece] | None = None
    content: list[_Piece] | None = None

    @property
    def answer(self) -> _Answer:
        """The answer that an event speaks of."""
        return self.response or self.message or _Answer()

    @property
    def pieces(self) -> list[_Piece]:
        """What the answer is made of, or what begins with the event."""
        begun = self.item or self.content_block
        return [begun] if begun is not None else self.output or self.content or []

    def calls_tool(self) -> bool:
        """Whether a piece is a call, such as ``function_call``, ``mcp_call``, ``tool_use``."""
        return any((piece.type or "").endswith(_CALLS) for piece in self.pieces)

    def said(self) -> str:
        """The text of all pieces, without reasoning."""
        return "".join(piece.said() for piece in self.pieces)


class _Delta(msgspec.Struct, gc=False):
    delta: str | _Piece | None = None


_parts: Final = msgspec.json.Decoder(list[_Piece])
_told: Final = msgspec.json.Decoder(_Told)
_delta: Final = msgspec.json.Decoder(_Delta)


def _read(decoder: msgspec.json.Decoder[_T], data: bytes | msgspec.Raw) -> _T | None:
    try:
        return decoder.decode(data)
    except UNREADABLE:
        return None


def told(data: bytes) -> _Told:
    """Read an answer, or one of :data:`BEGINNINGS` or :data:`ENDS`; nothing if it is something else."""
    return _read(_told, data) or _Told()


def of_text(kind: str, data: bytes) -> bool:
    """Whether one of :data:`DELTAS`, by its type and its data, is of a text."""
    return kind != "content_block_delta" or b'"text_delta"' in data


def added(data: bytes) -> str:
    """What one of :data:`DELTAS` adds to a text."""
    read = _read(_delta, data)
    delta = None if read is None else read.delta
    return delta.own() if isinstance(delta, _Piece) else delta or ""
