"""From the bytes of a request to the few fields that are read of it; the bytes themselves are forwarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from gateway.core.features import Hints, RequestView, Tool, Turn
from gateway.runtime.foreign import UNREADABLE
from gateway.wire import crowds
from gateway.wire import headers as names
from gateway.wire.parameters import ABSENT, Parameters, given

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEAD_CHARS: Final = 3000
"""Characters kept of the beginning of a text."""

TAIL_CHARS: Final = 1000
"""Characters kept of its end."""

_HINT_CHARS: Final = 128
_TOOLS: Final = 64
_DESCRIPTION_CHARS: Final = 200
_METADATA_BYTES: Final = 2**16
_TOKEN_CHARS: Final = 4
_HIGHEST_TEMPERATURE: Final = 1e6

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Malformed:
    """A body that no backend could read: a value, mapped to an error answer at the edge.

    Attributes:
        message: What is wrong, for the client.
    """

    message: str


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


_Content: TypeAlias = str | list[_Part | str] | None


class _Message(msgspec.Struct):
    role: str = ""
    type: str = ""
    content: _Content = None
    tool_calls: msgspec.Raw = msgspec.Raw()
    output: _Content = None


class _Function(msgspec.Struct):
    name: str = ""
    description: str | None = None


class _Tool(msgspec.Struct):
    name: str = ""
    description: str | None = None
    function: _Function | None = None


class _Typed(msgspec.Struct):
    type: str = ""
    mode: str = ""


class _StreamOptions(msgspec.Struct):
    include_usage: Any = None


# Everything but the model is taken as it comes and read by itself, so that one strange field costs no other.
class _Body(Parameters):
    model: str | None = None
    stream: Any = None
    n: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    temperature: Any = None
    stream_options: msgspec.Raw = msgspec.Raw()
    response_format: msgspec.Raw = msgspec.Raw()
    tool_choice: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()
    previous_response_id: Any = None


class _Chat(_Body):
    """A body with messages of the usual shape, read with it: a second look at long ones takes time."""

    messages: list[_Message] = []  # type: ignore[assignment] # noqa: RUF012 - msgspec makes a new one for each


_BODY: Final = msgspec.json.Decoder(_Body)
_CHAT: Final = msgspec.json.Decoder(_Chat)
_MESSAGES: Final = msgspec.json.Decoder(list[_Message])
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_CONTENT: Final = msgspec.json.Decoder(_Content)
_PROMPT: Final = msgspec.json.Decoder(str | list[str])
_TEXTS: Final = msgspec.json.Decoder(list[str])
_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TOOL: Final = msgspec.json.Decoder(_Tool)
_TYPED: Final = msgspec.json.Decoder(str | _Typed)
_METADATA: Final = msgspec.json.Decoder(dict[str, Any])
_STREAM_OPTIONS: Final = msgspec.json.Decoder(_StreamOptions)

_NO_CALLS: Final = ABSENT | {b"[]"}
_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_ROLES: Final = {"developer": "system", "function": "tool"}


def _decode(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes, otherwise: D) -> T | D:
    """Reads one field, or nothing where it is absent or of a strange shape: the backend judges it."""
    if not raw:
        return otherwise
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return otherwise


def _turn(role: str, text: str, *, calls_tool: bool = False) -> Turn:
    chars = len(text)
    if chars > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return Turn(_ROLES.get(role, role), text, chars, calls_tool)


def _text(content: _Content) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part if isinstance(part, str) else part.text for part in content)
    return "\n".join(text for text in texts if text)


def _kinds(content: _Content) -> set[str]:
    return {part.type for part in content if isinstance(part, _Part)} if isinstance(content, list) else set()


def _message(message: _Message) -> Turn:
    """One message, in the shape of chat completions, responses or messages."""
    if message.type == "function_call":
        return Turn("assistant", "", 0, calls_tool=True)
    if message.type == "function_call_output":
        return _turn("tool", _text(message.output))
    kinds = _kinds(message.content)
    text = _text(message.content)
    if message.role == "user" and "tool_result" in kinds and not text:
        return _turn("tool", text)
    calls = message.role == "assistant" and (
        bytes(message.tool_calls) not in _NO_CALLS or "tool_use" in kinds
    )
    return _turn(message.role or "user", text, calls_tool=calls)


def _messages(raw: msgspec.Raw | list[_Message]) -> Iterator[Turn]:
    if isinstance(raw, list):
        yield from map(_message, raw)
        return
    if crowds.crowded(array := bytes(raw)):
        first = _decode(_MESSAGES, crowds.first_messages(array), None)
        last = _decode(_MESSAGES, crowds.last_messages(array), None)
        yield from map(_message, first or ())
        yield Turn("user", "", len(array))
        yield from map(_message, last or ())
        return
    messages = _decode(_MESSAGES, raw, None)
    if messages is None:
        each = (_decode(_MESSAGE, item, None) for item in _decode(_RAWS, raw, []))
        messages = [message for message in each if message is not None]
    yield from map(_message, messages)


def _prompt(raw: msgspec.Raw) -> Iterator[Turn]:
    """A prompt or input: a text, several, token ids, several lists of them, or messages."""
    array = bytes(raw)
    if (tokens := crowds.numbers(array)) is not None:
        yield Turn("user", "", tokens * _TOKEN_CHARS)
        return
    if array.startswith(b'["') and crowds.crowded(array):
        yield from (_turn("user", text) for text in _decode(_TEXTS, crowds.first_texts(array), []))
        yield Turn("user", "", len(array))
        return
    prompt = _decode(_PROMPT, raw, None)
    if prompt is None:
        yield from _messages(raw)
    else:
        yield from (_turn("user", text) for text in ([prompt] if isinstance(prompt, str) else prompt))


def _turns(body: _Body) -> Iterator[Turn]:
    for raw in filter(None, (body.system, body.instructions)):
        text = "" if crowds.crowded(bytes(raw)) else _text(_decode(_CONTENT, raw, None))
        if text:
            yield _turn("system", text)
    yield from _messages(body.messages)
    for raw in filter(None, (body.prompt, body.input)):
        yield from _prompt(raw)


def _tools(raw: msgspec.Raw) -> Iterator[Tool]:
    for item in _decode(_RAWS, raw, []) if not crowds.crowded(bytes(raw)) else ():
        tool = _decode(_TOOL, item, None) or _Tool()
        function = tool.function or tool
        yield Tool(function.name, (function.description or "")[:_DESCRIPTION_CHARS])


def _tool_choice(raw: msgspec.Raw) -> str:
    choice = _decode(_TYPED, raw, "")
    if isinstance(choice, str):
        return _TOOL_CHOICES.get(choice, "")
    return _TOOL_CHOICES.get(choice.mode) or _TOOL_CHOICES.get(choice.type, "named")


def _response_format(raw: msgspec.Raw) -> str:
    chosen = _decode(_TYPED, raw, "")
    return (chosen if isinstance(chosen, str) else chosen.type) or "text"


def _hint(value: object) -> str | None:
    """A hint as it may go into a record: printable, short, not empty."""
    if not value or not isinstance(value, bytes | str):
        return None
    text = (value if isinstance(value, str) else value.decode("latin-1")).strip()[:_HINT_CHARS]
    return text if text and text.isprintable() else None


def _hints(headers: Mapping[bytes, bytes], metadata: Mapping[str, str], previous: object = None) -> Hints:
    return Hints(
        workload=_hint(headers.get(names.WORKLOAD)) or _hint(metadata.get("workload")),
        backend=_hint(headers.get(names.BACKEND)),
        session=_hint(headers.get(names.SESSION)),
        tenant=_hint(headers.get(names.TENANT)),
        previous=_hint(previous),
    )


def _metadata(raw: msgspec.Raw) -> dict[str, str]:
    """Those of its values that are texts; nothing of more than anybody can mean."""
    if len(memoryview(raw)) > _METADATA_BYTES:
        return {}
    return {key: value for key, value in _decode(_METADATA, raw, {}).items() if isinstance(value, str)}


def _asks_usage(raw: msgspec.Raw) -> bool:
    """Whether the client said anything about usage but no; what is strange is the backend's to judge."""
    if bytes(raw) in ABSENT:
        return False
    options = _decode(_STREAM_OPTIONS, raw, None)
    return options is None or (options.include_usage is not None and options.include_usage is not False)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _max_tokens(body: _Body) -> int | None:
    limits = map(_count, (body.max_tokens, body.max_completion_tokens, body.max_output_tokens))
    return min((limit for limit in limits if limit is not None), default=None)


def _temperature(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < _HIGHEST_TEMPERATURE else None


def _read(body: bytes) -> _Body:
    """The fields of a body; raises what :data:`UNREADABLE` holds where it is none."""
    if not crowds.crowded(body):
        try:
            return _CHAT.decode(body)
        except UNREADABLE:  # it may be a single message that is strange
            pass
    return _BODY.decode(body)


def unread(endpoint: str, headers: Mapping[bytes, bytes], path: str = "", model: str = "") -> RequestView:
    """A request whose body is none of our business but for its model; arguments as of :func:`view`."""
    return RequestView(endpoint, model=model, path=path, hints=_hints(headers, {}), headers=headers)


def view(
    endpoint: str, body: bytes, headers: Mapping[bytes, bytes], path: str = ""
) -> RequestView | Malformed:
    """Reads what a request is about; never raises, whatever the bytes are.

    Args:
        endpoint: One of :data:`gateway.core.features.ENDPOINTS`.
        body: The JSON body as received.
        headers: Request headers by lower-cased name.
        path: As the client sent it, without the query.

    Returns:
        The view, or :class:`Malformed` where the body is not a JSON object or its model is not a string.
        Everything else that is strange is left out of the view, for the backend to judge.
    """
    try:
        read = _read(body)
    except msgspec.ValidationError:
        return Malformed("the body must be a JSON object whose 'model' is a string")
    except UNREADABLE as error:
        return Malformed(f"the body is not valid JSON: {error}")
    metadata = _metadata(read.metadata)
    return RequestView(
        endpoint=endpoint,
        model=read.model or "",
        path=path,
        stream=read.stream is True,
        include_usage=_asks_usage(read.stream_options),
        n=_count(read.n) or 1,
        max_tokens=_max_tokens(read),
        temperature=_temperature(read.temperature),
        parameters=given(read),
        response_format=_response_format(read.response_format),
        tool_choice=_tool_choice(read.tool_choice),
        tools=tuple(_tools(read.tools))[:_TOOLS],
        turns=tuple(_turns(read)),
        hints=_hints(headers, metadata, read.previous_response_id),
        metadata=metadata,
        headers=headers,
    )
