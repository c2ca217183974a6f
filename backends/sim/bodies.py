"""Response bodies and stream events, byte for byte in the shapes of vLLM 0.32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from backends.sim import logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backends.sim.call import Call
    from backends.sim.parts import Ending, Frame, Part, ToolPart, Whole

DONE: Final = b"data: [DONE]\n\n"
_encode: Final = msgspec.json.Encoder().encode


class Bodies(Protocol):
    """The shapes of one endpoint."""

    def opening(self, index: int) -> bytes:
        """The event that opens a choice; empty where the endpoint has none."""
        ...

    def part(self, part: Part) -> bytes:
        """The event of some text."""
        ...

    def closing(self, completion_tokens: int, metrics: dict[str, Any] | None) -> bytes:
        """The events after the last part."""
        ...

    def whole(
        self, choices: Sequence[Whole], completion_tokens: int, metrics: dict[str, Any] | None
    ) -> bytes:
        """The body of an answer that is not streamed."""
        ...


class _Stream:
    """What the events of both endpoints share."""

    def __init__(self, frame: Frame, call: Call, kind: str) -> None:
        self._frame = frame
        self._call = call
        head = {"id": frame.id, "object": kind, "created": frame.created, "model": frame.model}
        self._head = b"data: " + _encode(head)[:-1] + b',"choices":['
        self._fingerprint = b',"system_fingerprint":' + _encode(frame.fingerprint)

    def usage(self, completion_tokens: int, metrics: dict[str, Any] | None) -> bytes:
        """The event before ``[DONE]`` that counts tokens."""
        usage = self._count(completion_tokens)
        if self._frame.cached_tokens is not None:
            usage["prompt_tokens_details"] = self._cache_details()
        measured = b"" if metrics is None else b',"metrics":' + _encode(_without_none(metrics))
        return b'%b],"usage":%b%b%b}\n\n' % (self._head, _encode(usage), self._fingerprint, measured)

    def closing(self, completion_tokens: int, metrics: dict[str, Any] | None) -> bytes:
        """The events after the last part."""
        return (self.usage(completion_tokens, metrics) if self._call.include_usage else b"") + DONE

    def _tail(self, ending: Ending | None, completion_tokens: int) -> bytes:
        """What follows the choice in its event."""
        if self._call.continuous_usage:
            usage = self._count(completion_tokens) | {"completion_tokens_details": None}
            return b'],"usage":' + _encode(usage)
        if ending is not None and ending.last and not self._call.include_usage:
            return b"]" + self._fingerprint
        return b"]"

    def _whole(self, kind: str, choices: list[dict[str, Any]], completion_tokens: int) -> dict[str, Any]:
        frame = self._frame
        details = None
        if frame.cached_tokens is not None:
            details = {
                "cached_tokens": frame.cached_tokens,
                "created_cache_tokens": None,
                "multimodal_tokens": None,
            }
            details |= self._cache_details()
        return {
            "id": frame.id,
            "object": kind,
            "created": frame.created,
            "model": frame.model,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": frame.fingerprint,
            "usage": self._count(completion_tokens)
            | {"prompt_tokens_details": details, "completion_tokens_details": None},
        }

    def _count(self, completion_tokens: int) -> dict[str, Any]:
        prompt = self._frame.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion_tokens,
            "completion_tokens": completion_tokens,
        }

    def _cache_details(self) -> dict[str, Any]:
        return {"cached_tokens": self._frame.cached_tokens}

    def _prompt_ids(self, index: int) -> Sequence[int] | None:
        """Ids of the prompt that a choice answers."""
        prompts = self._frame.prompt_ids
        return None if prompts is None else prompts[index // self._call.n]


class ChatBodies(_Stream):
    """The shapes of ``/v1/chat/completions``."""

    def __init__(self, frame: Frame, call: Call) -> None:
        super().__init__(frame, call, "chat.completion.chunk")

    def opening(self, index: int) -> bytes:
        """The event that opens a choice: its role."""
        delta = b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
        prompt = b',"prompt_token_ids":%b,"prompt_text":null}\n\n' % _encode(self._prompt_ids(index))
        return b'%b{"index":%d,%b%b%b' % (self._head, index, delta, self._tail(None, 0), prompt)

    def part(self, part: Part) -> bytes:
        """The event of some text."""
        probabilities = b"null"
        if self._call.logprobs is not None:
            probabilities = _encode(logprobs.chat(part.pieces, self._call.logprobs))
        delta = b'{"content":' + _encode(part.text) + b"}"
        return self._event(part, delta, probabilities)

    def tool(self, part: ToolPart) -> bytes:
        """The event of some of a tool call."""
        if part.name:
            call = {"id": part.id, "type": "function", "index": 0, "function": {"name": part.name}}
        else:
            call = {"index": 0, "function": {"arguments": part.arguments}}
        delta = b"{}" if part.ending else b'{"content":null,"tool_calls":[%b]}' % _encode(call)
        return self._event(part, delta, b"null")

    def whole(
        self, choices: Sequence[Whole], completion_tokens: int, metrics: dict[str, Any] | None
    ) -> bytes:
        """The body of an answer that is not streamed."""
        body = self._whole("chat.completion", [self._choice(choice) for choice in choices], completion_tokens)
        return _encode(
            body
            | {
                "prompt_logprobs": None,
                "prompt_token_ids": self._prompt_ids(0),
                "prompt_text": None,
                "kv_transfer_params": None,
                "ec_transfer_params": None,
                "metrics": metrics,
            }
        )

    def _choice(self, choice: Whole) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if choice.tool else choice.text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
        }
        if choice.tool:
            identity, name, arguments = choice.tool
            function = {"name": name, "arguments": arguments}
            message["tool_calls"] = [{"id": identity, "type": "function", "function": function}]
        top = self._call.logprobs
        return {
            "index": choice.index,
            "message": message | {"reasoning": None},
            "logprobs": None if top is None else logprobs.chat(choice.pieces, top),
            "finish_reason": choice.ending.reason,
            "stop_reason": choice.ending.stop,
            "token_ids": choice.ids,
            "routed_experts": None,
        }

    def _event(self, part: Part | ToolPart, delta: bytes, probabilities: bytes) -> bytes:
        ending = part.ending
        reason = b"null"
        if ending is not None:
            reason = b'%b,"stop_reason":%b' % (_encode(ending.reason), _encode(ending.stop))
        ids = b"null" if part.ids is None else _encode(part.ids)
        return b'%b{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b,"token_ids":%b}%b}\n\n' % (
            self._head,
            part.index,
            delta,
            probabilities,
            reason,
            ids,
            self._tail(ending, part.completion_tokens),
        )

    def _cache_details(self) -> dict[str, Any]:
        return super()._cache_details() | {"created_cache_tokens": 0}


class TextBodies(_Stream):
    """The shapes of ``/v1/completions``."""

    def __init__(self, frame: Frame, call: Call) -> None:
        super().__init__(frame, call, "text_completion")
        self._opened: set[int] = set()

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - the same for every choice
        """Text completions have no opening event."""
        return b""

    def part(self, part: Part) -> bytes:
        """The event of some text; the first of a choice carries the ids of the prompt."""
        prompt_ids = None if part.index in self._opened else self._prompt_ids(part.index)
        self._opened.add(part.index)
        top = self._call.logprobs
        choice = {
            "index": part.index,
            "text": part.text,
            "logprobs": None
            if top is None
            else logprobs.text(part.pieces, top, part.offset, echo=self._call.echo),
            "finish_reason": part.ending.reason if part.ending else None,
            "stop_reason": part.ending.stop if part.ending else None,
            "prompt_token_ids": prompt_ids,
            "token_ids": part.ids,
        }
        return b"%b%b%b}\n\n" % (self._head, _encode(choice), self._tail(part.ending, part.completion_tokens))

    def whole(
        self, choices: Sequence[Whole], completion_tokens: int, metrics: dict[str, Any] | None
    ) -> bytes:
        """The body of an answer that is not streamed."""
        top = self._call.logprobs
        body = self._whole(
            "text_completion",
            [
                {
                    "index": choice.index,
                    "text": choice.text,
                    "logprobs": None
                    if top is None
                    else logprobs.text(choice.pieces, top, 0, echo=self._call.echo),
                    "finish_reason": choice.ending.reason,
                    "stop_reason": choice.ending.stop,
                    "token_ids": choice.ids,
                    "prompt_logprobs": None,
                    "prompt_token_ids": self._prompt_ids(choice.index),
                    "routed_experts": None,
                }
                for choice in choices
            ],
            completion_tokens,
        )
        return _encode(body | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": metrics})


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    """Streams leave out what bodies send as null."""
    return {
        key: _without_none(inner) if isinstance(inner, dict) else inner
        for key, inner in value.items()
        if inner is not None
    }
