"""What a request to a hosted model may hold: fields of OpenAI's own, of known shapes, with nothing to fetch.

What is not named here is left out. A library behind this takes addresses and keys as fields beside those of a
request; it fetches pictures and files by their addresses, from this host; and some tools name servers that it
is to call.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

_Kept: TypeAlias = msgspec.UnsetType
"""For a field whose null is passed on as it came."""

Data: TypeAlias = Annotated[str, msgspec.Meta(pattern="^data:")]
"""Content that is there with its address."""


class _Fields(msgspec.Struct, omit_defaults=True):
    """Fields that are left out where they say nothing."""


class _Text(_Fields, tag_field="type", tag="text"):
    text: str


class _Denial(_Fields, tag_field="type", tag="refusal"):
    refusal: str


class _Picture(_Fields):
    url: Data
    detail: str | None = None


class _Image(_Fields, tag_field="type", tag="image_url"):
    image_url: _Picture


class _Sound(_Fields):
    data: str
    format: str


class _Audio(_Fields, tag_field="type", tag="input_audio"):
    input_audio: _Sound


class _Document(_Fields):
    file_data: Data
    filename: str | None = None


class _File(_Fields, tag_field="type", tag="file"):
    file: _Document


class _Called(_Fields):
    name: str
    arguments: str = ""


class _ToolCall(_Fields, tag_field="type", tag="function"):
    id: str
    function: _Called


class _Spoken(_Fields):
    id: str


class _Message(_Fields):
    role: str
    content: str | list[_Text | _Denial | _Image | _Audio | _File] | _Kept | None = msgspec.UNSET
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: _Called | None = None
    audio: _Spoken | None = None


class _Tool(_Fields, tag_field="type", tag="function"):
    function: dict[str, Any]


class _StreamOptions(_Fields):
    include_usage: bool | None = None


class _Either(_Fields):
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: int | None = None
    n: int | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None


class Chat(_Either, kw_only=True):
    """A chat completion."""

    messages: list[_Message]
    audio: dict[str, Any] | None = None
    function_call: str | dict[str, Any] | None = None
    functions: list[dict[str, Any]] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    modalities: list[str] | None = None
    parallel_tool_calls: bool | None = None
    prediction: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    safety_identifier: str | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[_Tool] | None = None
    top_logprobs: int | None = None
    web_search_options: dict[str, Any] | None = None


class Completion(_Either, kw_only=True):
    """A text completion. Token ids are one model's own, and of several prompts some providers make one."""

    prompt: str | Annotated[list[str], msgspec.Meta(min_length=1, max_length=1)]
    best_of: int | None = None
    echo: bool | None = None
    logprobs: int | None = None
    suffix: str | None = None


FORMS: Final[dict[str, type[Chat | Completion]]] = {
    "/v1/chat/completions": Chat,
    "/v1/completions": Completion,
}
"""By path."""
