"""From the bytes of a request to the few fields that are read of it; the bytes themselves are forwarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from gateway.core.features import Hints, RequestView, Tool
from gateway.runtime.foreign import UNREADABLE
from gateway.wire import crowds, turns
from gateway.wire import headers as names
from gateway.wire.mending import mended
from gateway.wire.parameters import ABSENT, Parameters, given

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.core.features import Turn

_HINT_CHARS: Final = 128
_TOOLS: Final = 64
_NAME_CHARS: Final = 200
_DESCRIPTION_CHARS: Final = 200
_METADATA_BYTES: Final = 2**16
_HIGHEST_TEMPERATURE: Final = 1e6


@dataclass(frozen=True, slots=True)
class Malformed:
    """A body that no backend could read: a value, mapped to an error answer at the edge.

    Attributes:
        message: What is wrong, for the client.
    """

    message: str


class _Function(msgspec.Struct):
    name: str | None = ""
    description: str | None = None


class _Tool(msgspec.Struct):
    name: str | None = ""
    description: str | None = None
    function: _Function | None = None


class _Allowed(msgspec.Struct):
    mode: str = ""


class _Typed(msgspec.Struct):
    type: str = ""
    mode: str = ""
    allowed_tools: _Allowed | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: msgspec.Raw = msgspec.Raw()


class _TextOptions(msgspec.Struct):
    format: msgspec.Raw = msgspec.Raw()


_Plain: TypeAlias = bool | int | float | str | None


# Everything but the model is taken as it comes and read by itself, so that one strange field costs no other.
class _Body(Parameters):
    model: str | None = None
    stream: msgspec.Raw = msgspec.Raw()
    max_tokens: msgspec.Raw = msgspec.Raw()
    max_completion_tokens: msgspec.Raw = msgspec.Raw()
    max_output_tokens: msgspec.Raw = msgspec.Raw()
    temperature: msgspec.Raw = msgspec.Raw()
    stream_options: msgspec.Raw = msgspec.Raw()
    messages: msgspec.Raw = msgspec.Raw()
    system: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    prompt: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    text: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()
    previous_response_id: msgspec.Raw = msgspec.Raw()
    store: msgspec.Raw = msgspec.Raw()
    background: msgspec.Raw = msgspec.Raw()


class _Chat(_Body):
    """A body with fields of the usual shape, read with it: a second look at long messages takes time."""

    stream: _Plain = None  # type: ignore[assignment]
    max_tokens: _Plain = None  # type: ignore[assignment]
    max_completion_tokens: _Plain = None  # type: ignore[assignment]
    max_output_tokens: _Plain = None  # type: ignore[assignment]
    temperature: _Plain = None  # type: ignore[assignment]
    messages: list[turns.Message] = []  # type: ignore[assignment] # noqa: RUF012 - msgspec makes a new one for each
    previous_response_id: _Plain = None  # type: ignore[assignment]


_BODY: Final = msgspec.json.Decoder(_Body)
_CHAT: Final = msgspec.json.Decoder(_Chat)
_TOOL: Final = msgspec.json.Decoder(_Tool)
_TYPED: Final = msgspec.json.Decoder(str | _Typed)
_VALUE: Final = msgspec.json.Decoder(_Plain)
_METADATA: Final = msgspec.json.Decoder(dict[str, Any])
_TEXT_OPTIONS: Final = msgspec.json.Decoder(_TextOptions)
_STREAM_OPTIONS: Final = msgspec.json.Decoder(_StreamOptions)

_TOOL_CHOICES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def _turns(body: _Body) -> Iterator[Turn]:
    for raw in filter(None, (body.system, body.instructions)):
        yield from turns.system(raw)
    yield from turns.messages(body.messages)
    for raw in filter(None, (body.prompt, body.input)):
        yield from turns.prompt(raw)


def _tools(raw: msgspec.Raw) -> Iterator[Tool]:
    if crowds.crowded(array := bytes(raw)):
        yield from map(Tool, crowds.tool_names(array))
        return
    for item in turns.decode(turns.RAWS, raw, []):
        tool = turns.decode(_TOOL, item, None) or _Tool()
        function = tool.function or tool
        yield Tool((function.name or "")[:_NAME_CHARS], (function.description or "")[:_DESCRIPTION_CHARS])


def _tool_choice(raw: msgspec.Raw) -> str:
    if not raw:
        return ""
    choice = turns.decode(_TYPED, raw, "")
    if isinstance(choice, str):
        return _TOOL_CHOICES.get(choice, "")
    mode = choice.mode or (choice.allowed_tools.mode if choice.allowed_tools else "")
    return _TOOL_CHOICES.get(mode) or _TOOL_CHOICES.get(choice.type, "named" if choice.type else "")


def _response_format(body: _Body) -> str:
    raw = body.response_format or (
        turns.decode(_TEXT_OPTIONS, body.text, _TextOptions()).format if body.text else b""
    )
    if not raw:
        return "text"
    chosen = turns.decode(_TYPED, raw, "")
    return (chosen if isinstance(chosen, str) else chosen.type) or "text"


def _hint(value: object) -> str | None:
    """A hint as it may go into a record: printable, short, not empty."""
    if not value or not isinstance(value, bytes | str):
        return None
    text = (value if isinstance(value, str) else value.decode("latin-1")).strip()[:_HINT_CHARS]
    return text if text and text.isprintable() else None


_NO: Final = ABSENT | {b"false"}
_HINTING: Final = frozenset({names.WORKLOAD, names.BACKEND, names.SESSION, names.TENANT, names.STAND_INS})
_LETS: Final = b"yes"
"""What the header for stand-ins may say without effect; whatever else it says, they are forbidden."""

_NO_HINTS: Final = Hints()


def _hints(headers: Mapping[bytes, bytes], metadata: Mapping[str, str], previous: object = None) -> Hints:
    if not metadata and previous is None and _HINTING.isdisjoint(headers):
        return _NO_HINTS
    return Hints(
        workload=_hint(headers.get(names.WORKLOAD)) or _hint(metadata.get("workload")),
        backend=_hint(headers.get(names.BACKEND)),
        session=_hint(headers.get(names.SESSION)),
        tenant=_hint(headers.get(names.TENANT)),
        previous=_hint(previous),
        stays=headers.get(names.STAND_INS, _LETS).strip().lower() != _LETS,
    )


def _metadata(raw: msgspec.Raw) -> dict[str, str]:
    """Those of its values that are texts; nothing of more than anybody can mean."""
    if not raw or len(memoryview(raw)) > _METADATA_BYTES:
        return {}
    return {key: value for key, value in turns.decode(_METADATA, raw, {}).items() if isinstance(value, str)}


def _asks_usage(raw: msgspec.Raw) -> bool:
    """Whether the client said anything about usage but no; what is strange is the backend's to judge."""
    if bytes(raw) in ABSENT:
        return False
    options = turns.decode(_STREAM_OPTIONS, raw, None)
    return options is None or bytes(options.include_usage) not in _NO


def _plain(value: msgspec.Raw | _Plain) -> _Plain:
    """A value as it was read, or is yet to be; None for arrays and objects, which are not taken apart."""
    return turns.decode(_VALUE, value, None) if isinstance(value, msgspec.Raw) else value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _choices(endpoint: str, body: _Body) -> int:
    """How many an answer has: so many for each prompt."""
    prompts = turns.prompts(body.prompt) if endpoint == "completions" and body.prompt else 1
    return prompts * (_count(_plain(body.n)) or 1)


def _parameters(body: _Body, response_format: str) -> frozenset[str]:
    """Names of those that say something; responses have another place for one of them."""
    named = given(body)
    return named | {"response_format"} if body.text and response_format != "text" else named


def _is_kept(body: _Body) -> bool:
    """Whether a request for a response says that it outlives the connection; strange values may mean it."""
    return not {bytes(body.store), bytes(body.background)} <= _NO


def _max_tokens(body: _Body) -> int | None:
    given = (body.max_tokens, body.max_completion_tokens, body.max_output_tokens)
    limits = [limit for limit in map(_count, map(_plain, filter(None, given))) if limit is not None]
    return min(limits) if limits else None


def _temperature(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < _HIGHEST_TEMPERATURE else None


def _fields(body: bytes) -> _Body:
    """Raises what :data:`UNREADABLE` holds where it is no such body."""
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
        read = _fields(body)
    except msgspec.ValidationError:
        return Malformed("the body must be a JSON object whose 'model' is a string")
    except UNREADABLE as error:
        return Malformed(f"the body is not valid JSON: {error}")
    metadata = _metadata(read.metadata)
    response_format = _response_format(read)
    return RequestView(
        endpoint=endpoint,
        model=read.model or "",
        path=path,
        stream=_plain(read.stream) is True,
        include_usage=_asks_usage(read.stream_options),
        n=_choices(endpoint, read),
        max_tokens=_max_tokens(read),
        temperature=_temperature(_plain(read.temperature)),
        parameters=_parameters(read, response_format),
        response_format=response_format,
        tool_choice=_tool_choice(read.tool_choice),
        tools=tuple(_tools(read.tools))[:_TOOLS] if read.tools else (),
        turns=tuple(_turns(read)),
        hints=_hints(headers, metadata, _plain(read.previous_response_id)),
        metadata=metadata,
        headers=headers,
        kept=endpoint == "responses" and _is_kept(read),
    )


async def received(
    endpoint: str, body: bytes, headers: Mapping[bytes, bytes], path: str = ""
) -> tuple[RequestView | Malformed, bytes]:
    """What :func:`view` says, and the body to go on with; arguments as of that.

    Returns:
        The body is the one received, unless only Python could read that: then it is :func:`mended`, here
        and nowhere else.
    """
    seen = view(endpoint, body, headers, path)
    if isinstance(seen, Malformed) and (whole := await mended(body)) is not body:
        return view(endpoint, whole, headers, path), whole
    return seen, body
