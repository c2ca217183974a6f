"""Chat and text completions as they come, whole or chunk by chunk: the fields that are read of them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.runtime.foreign import UNREADABLE

_NO_CALLS: Final = frozenset({b"", b"null", b"[]"})


class _Lenient(msgspec.Struct, gc=False):
    """Fields that are absent or null stay None."""


class _Delta(_Lenient):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw()

    def calls_tool(self) -> bool:
        return bytes(self.tool_calls) not in _NO_CALLS


class Choice(_Lenient):
    """One choice of an answer, or what a chunk adds to it."""

    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class _PromptDetails(_Lenient):
    cached_tokens: int | None = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class Speculative(_Lenient):
    """What vLLM tells of the drafts of a request."""

    num_spec_steps: int = 0
    num_draft_tokens: int = 0
    num_accepted_draft_tokens: int = 0
    acceptance_histogram: list[int] = []


class Metrics(_Lenient):
    """What vLLM measured of a request."""

    speculative_decoding: Speculative | None = None


class Body(_Lenient):
    """A chat or text completion, or one chunk of it; or an event of another endpoint, which has a type."""

    type: Any = None
    sequence_number: Any = None
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    prompt_token_ids: list[int] | None = None
    usage: _Usage | None = None
    metrics: Metrics | None = None
    system_fingerprint: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Body, strict=False)


def decode(data: bytes | memoryview) -> Body | None:
    """Read a body or the data of one event; None if it is something else."""
    try:
        return _decoder.decode(data)
    except UNREADABLE:
        return None


def is_object(data: bytes) -> bool:
    """Whether a body is a JSON object, whatever it holds."""
    try:
        msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except UNREADABLE:
        return False
    return True


def error_class(error: object) -> str:
    """Class of an error object within an answer. Its code is the status that vLLM would have sent."""
    told = error if isinstance(error, dict) else {}
    code = told.get("code")
    if isinstance(code, int):
        asked_wrong = 400 <= code < 500 and code != 429
    else:
        asked_wrong = told.get("type") == "invalid_request_error"
    return "error_event:4xx" if asked_wrong else "error_event"


def text_in(body: Body | None) -> str:
    """What a body or chunk adds to the text of the first choice."""
    if body is None or not body.choices:
        return ""
    choice = body.choices[0]
    said = choice.delta or choice.message
    return (choice.text if said is None else said.content) or ""


def carries_token(body: Body) -> bool:
    """Whether a chunk holds generated text, be it empty because its bytes are held back.

    The first chunk of a chat answer holds the role alone; a usage chunk has no choices.
    """
    return any(_has_text(choice) for choice in body.choices or ())


def _has_text(choice: Choice) -> bool:
    if choice.token_ids:
        return True
    delta = choice.delta
    if delta is None:
        return choice.text is not None
    if delta.content or delta.reasoning or delta.reasoning_content or delta.calls_tool():
        return True
    return delta.content is not None and delta.role is None


def tokens_in(body: Body) -> int:
    """Tokens that a first chunk says it carries; 1 where it does not say."""
    if body.usage is not None and body.usage.completion_tokens:
        return body.usage.completion_tokens
    return max(1, *(len(choice.token_ids or ()) for choice in body.choices or ()), 0)
