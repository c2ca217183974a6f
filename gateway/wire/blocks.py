"""What answers of ``/v1/responses`` (items) and ``/v1/messages`` (blocks) say, whole or event by event."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from gateway.core.outcome import Usage
from gateway.runtime.foreign import UNREADABLE
from gateway.wire.chunks import Metrics  # noqa: TC001 - msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS: Final = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})
"""Types of the last events of streams."""

FAILURES: Final = frozenset({"error", "response.failed"})
"""Types of those events that tell of a failure."""

START: Final = "message_start"
"""Type of the event that comes with the first token, seen or not. Responses have none such."""

_PIECES: Final = frozenset({"content_block_start", "response.output_item.added"})
"""Types of the events with which an item or a block begins."""

ACCOUNTS: Final = frozenset({START, "message_delta", "response.created"}) | _PIECES | ENDS
"""Types of the events that say something of the answer or its pieces."""

_BLOCK_DELTA: Final = "content_block_delta"
_TEXT_DELTA: Final = "response.output_text.delta"
_DELTA: Final = re.compile(rb"event: (content_block_delta|response\.[a-z_]+\.delta)[\r\n]")
"""The line before an event that adds to a piece."""

_ARGUMENTS: Final = b'"input_json_delta"'
_SIGNATURE: Final = b'"signature_delta"'
_TEXTS: Final = frozenset({"text", "text_delta", "output_text"})
_CALLS: Final = ("_call", "tool_use")
_CLIENTS: Final = frozenset({"function_call", "custom_tool_call"})
"""Types of the calls that are the client's to carry out."""

_FINISHES: Final = {
    "end_turn": "stop", "stop_sequence": "stop", "completed": "stop",
    "max_tokens": "length", "model_context_window_exceeded": "length", "max_output_tokens": "length",
    "tool_use": "tool_calls", "refusal": "content_filter", "failed": "error", "cancelled": "abort",
    "in_progress": "", "queued": "",
}  # fmt: skip
"""What chat completions call it, of words that they do not use."""

_T = TypeVar("_T")


class _Piece(msgspec.Struct, gc=False):
    """An item, a block, a part of an item, or what is added to a block."""

    type: str | None = None
    text: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    partial_json: str | None = None
    arguments: str | None = None
    input: msgspec.Raw = msgspec.Raw()

    def own(self) -> str:
        """Its text without that of its parts."""
        return (self.text or "") if self.type in _TEXTS else ""

    def said(self) -> str:
        """Its text."""
        if self.type == "message":
            return "".join(part.own() for part in _read(_parts, self.content) or ())
        return self.own()


class _Cached(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    input_tokens_details: _Cached | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Answer(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    metrics: Metrics | None = None
    output: list[_Piece] | None = None
    content: list[_Piece] | None = None

    def finish(self) -> str:
        """Why it ended, as chat completions say it; ``""`` if it did not."""
        details = self.incomplete_details
        said = self.stop_reason or (details.reason if details is not None else None) or self.status or ""
        if said == "completed" and any(piece.type in _CLIENTS for piece in self.output or ()):
            return "tool_calls"
        return _FINISHES.get(said, said)

    def failed(self) -> bool:
        """Whether a whole answer says that nothing came of it."""
        return self.status == "failed"

    def arguments(self) -> Iterator[str]:
        """Those of the calls in a whole answer, as JSON."""
        for piece in self.output or self.content or ():
            if piece.arguments is not None:
                yield piece.arguments
            elif piece.input and piece.type == "tool_use":
                yield bytes(piece.input).decode("utf-8", "replace")


class _Told(_Answer, gc=False):
    response: _Answer | None = None
    message: _Answer | None = None
    delta: _Answer | None = None
    item: _Piece | None = None
    content_block: _Piece | None = None

    @property
    def answer(self) -> _Answer:
        """The answer that an event speaks of."""
        return self.response or self.message or self

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

    def finish(self) -> str:
        """Why the answer ended, as chat completions say it; ``""`` if it did not."""
        told = self.delta or self.answer
        return super().finish() if told is self else told.finish()

    def counted(self, before: Usage) -> Usage:
        """Usage after an event, or of a whole answer.

        Of messages, ``input_tokens`` are those that are neither read from the cache nor written to it, and
        their start tells of output what nobody has seen yet.
        """
        said = self.answer.usage
        if said is None:
            return before
        read, given = said.cache_read_input_tokens, said.input_tokens
        details = said.input_tokens_details
        cached = read if details is None else details.cached_tokens
        if given is not None:
            given += (read or 0) + (said.cache_creation_input_tokens or 0)
        return Usage(
            before.input_tokens if given is None else given,
            said.output_tokens if self.message is None else None,
            before.cached_tokens if cached is None else cached,
        )


class _Delta(msgspec.Struct, gc=False):
    index: int | None = None
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
    """Read an answer, or one of :data:`ACCOUNTS`; nothing if it is something else."""
    return _read(_told, data) or _Told()


def of_text(kind: str, data: bytes) -> bool:
    """Whether an event, by its type and its data, adds to a text."""
    return kind == _TEXT_DELTA or (kind == _BLOCK_DELTA and b'"text_delta"' in data)


def adding(event: bytes, data: bytes) -> str:
    """Type of an event that adds to a text or to reasoning, by the line before its data; else ``""``.

    Arguments in responses come again at the end, so those events are the same; in messages they do not.
    """
    found = _DELTA.match(event)
    if found is None or _ARGUMENTS in data or _SIGNATURE in data:
        return ""
    return found[1].decode()


def carries_token(kind: str, data: bytes) -> bool:
    """Whether an event, by its type and its data, carries a token: it adds to a piece, or names a tool."""
    if kind == _BLOCK_DELTA:
        return _SIGNATURE not in data
    if kind in _PIECES:
        return told(data).calls_tool()
    return kind.startswith("response.") and kind.endswith(".delta")


def _added(data: bytes) -> _Delta:
    return _read(_delta, data) or _Delta()


def added(data: bytes) -> str:
    """What an event adds to a text."""
    delta = _added(data).delta
    return delta.own() if isinstance(delta, _Piece) else delta or ""


def arguments_added(data: bytes) -> tuple[int, str] | None:
    """The place of a block and what an event adds to its arguments; None if it adds none."""
    if _ARGUMENTS not in data:
        return None
    read = _added(data)
    piece = read.delta.partial_json if isinstance(read.delta, _Piece) else None
    return None if piece is None else (read.index or 0, piece)
