"""The shapes of ``/v1/messages``: a chat completion that is asked for and answered in other words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from backends.sim.fields import Fields, RefusalError
from backends.sim.validate import call_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.call import Call
    from backends.sim.parts import Ending, Frame, Part, Whole

_encode: Final = msgspec.json.Encoder().encode
_SAME: Final = ("model", "stream", "temperature", "top_p", "top_k", "metadata")


def read(fields: Fields) -> Call:
    """The chat that a body asks for; of content, only text.

    Raises:
        RefusalError: A field is missing or of a wrong type.
    """
    body = fields.body
    fields.string("model", required=True)
    messages = body.get("messages")
    if messages is None:
        fields.add("missing", "messages", "Field required", body)
    if body.get("max_tokens") is None:
        fields.add("missing", "max_tokens", "Field required", body)
    limit = fields.integer("max_tokens")
    fields.raise_if_invalid()
    turns = messages
    if isinstance(messages, list):
        turns = [turn | {"content": text_of(turn)} if isinstance(turn, dict) else turn for turn in messages]
        if body.get("system"):
            turns.insert(0, {"role": "system", "content": text_of({"content": body["system"]})})
    chat: dict[str, Any] = {name: body[name] for name in _SAME if name in body}
    chat |= {"messages": turns, "max_tokens": limit, "stop": body.get("stop_sequences")}
    return call_of(Fields(chat), chat=True)


def text_of(turn: dict[str, Any]) -> object:
    """Content of a turn with its blocks joined; what is neither text nor blocks as it is."""
    content = turn.get("content")
    if not isinstance(content, list):
        return content
    return "\n".join(_said(block) for block in content if isinstance(block, dict))


def _said(block: dict[str, Any]) -> str:
    """Text of a block, or of what a tool gave back in it."""
    result = text_of(block) if block.get("type") == "tool_result" else block.get("text")
    return result if isinstance(result, str) else ""


class MessagesRefusalError(RefusalError):
    """A refusal in the words of this endpoint."""

    def __init__(self, refusal: RefusalError) -> None:
        super().__init__(refusal.message, kind=refusal.kind, status=refusal.status)

    def body(self) -> bytes:
        """The JSON that a real server answers with."""
        return _encode({"type": "error", "error": {"type": self.kind, "message": self.message}})


class MessagesBodies:
    """The shapes of ``/v1/messages``."""

    def __init__(self, frame: Frame, call: Call) -> None:  # noqa: ARG002 - one signature for every endpoint
        self._frame = frame
        self._ending: Ending | None = None

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - there is one choice
        """The events that open the answer and its only block."""
        message: dict[str, Any] = {
            "id": self._frame.id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": self._frame.model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._frame.prompt_tokens, "output_tokens": 0},
        }
        block = {"content_block": {"type": "text", "text": ""}, "index": 0}
        return _event("message_start", {"message": message}) + _event("content_block_start", block)

    def part(self, part: Part) -> bytes:
        """The event of some text."""
        self._ending = part.ending
        if not part.text:
            return b""
        delta = {"delta": {"type": "text_delta", "text": part.text}, "index": 0}
        return _event("content_block_delta", delta)

    def closing(self, completion_tokens: int, metrics: dict[str, Any] | None) -> bytes:  # noqa: ARG002 - not told here
        """The events after the text."""
        assert self._ending is not None  # noqa: S101 - a stream closes after its last part
        reason, sequence = _stop(self._ending)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return (
            _event("content_block_stop", {"index": 0})
            + _event("message_delta", {"delta": delta, "usage": self._usage(completion_tokens)})
            + _event("message_stop", {})
        )

    def whole(
        self,
        choices: Sequence[Whole],
        completion_tokens: int,
        metrics: dict[str, Any] | None,  # noqa: ARG002 - not told here
    ) -> bytes:
        """The body of an answer that is not streamed."""
        reason, sequence = _stop(choices[0].ending)
        ended = {"stop_reason": reason} | ({} if sequence is None else {"stop_sequence": sequence})
        return _encode(
            {
                "id": self._frame.id,
                "type": "message",
                "role": "assistant",
                "content": [{"type": "text", "text": choices[0].text}],
                "model": self._frame.model,
                **ended,
                "usage": self._usage(completion_tokens),
            }
        )

    def _usage(self, completion_tokens: int) -> dict[str, int]:
        cached = self._frame.cached_tokens
        fresh = self._frame.prompt_tokens - (cached or 0)  # what was cached does not count as input
        usage = {"input_tokens": fresh, "output_tokens": completion_tokens}
        if cached is not None:
            usage |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
        return usage


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode({"type": kind} | fields))


def _stop(ending: Ending) -> tuple[str, str | None]:
    if ending.stop is not None:
        return "stop_sequence", ending.stop
    return ("max_tokens" if ending.reason == "length" else "end_turn"), None
