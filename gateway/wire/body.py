"""Edits of a request body: only the named top-level fields change, every other value keeps its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from gateway.runtime.foreign import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Mapping


class UneditableError(ValueError):
    """A body that must be changed on the way and cannot be; the message says why, for the client."""


_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_USAGE: Final = msgspec.Raw(b'{"include_usage":true}')
_TRUE: Final = msgspec.Raw(b"true")

_COLONS: Final = 20_000
"""With more of them a body may have more fields than can be taken apart and put together in good time."""

_OPTIONS_BYTES: Final = 2**16


class _Edited(msgspec.Struct):
    """The fields that are changed."""

    model: msgspec.Raw = msgspec.Raw()
    stream_options: msgspec.Raw = msgspec.Raw()
    return_token_ids: msgspec.Raw = msgspec.Raw()


_EDITED: Final = msgspec.json.Decoder(_Edited)


def edit(
    body: bytes, *, model: str | None = None, include_usage: bool = False, token_ids: bool = False
) -> bytes:
    """The body with another model name, with usage asked for at the end of the stream, or token ids.

    Args:
        body: A JSON object.
        model: New value of ``model``; None leaves it.
        include_usage: Set ``stream_options.include_usage``, keeping the other stream options; they must be
            an object or null. Usage then comes at the end only, whatever they say.
        token_ids: Set ``return_token_ids``.

    Raises:
        UneditableError: The body is no JSON object, or its stream options are none or very long.
    """
    changes: dict[str, msgspec.Raw] = {}
    if model is not None:
        changes["model"] = msgspec.Raw(msgspec.json.encode(model))
    if token_ids:
        changes["return_token_ids"] = _TRUE
    try:
        if body.count(b":") > _COLONS:
            found = _EDITED.decode(body)
            if include_usage:
                changes["stream_options"] = _with_usage(found.stream_options)
            return _in_place(body, found, changes)
        fields = _decoder.decode(body)
        if include_usage:
            changes["stream_options"] = _with_usage(fields.get("stream_options"))
        return msgspec.json.encode(fields | changes)
    except UNREADABLE as error:
        raise UneditableError(f"the body is not valid JSON: {error}") from error


def _with_usage(options: msgspec.Raw | None) -> msgspec.Raw:
    """Stream options that ask for usage beside what was asked for."""
    if not options or bytes(options).strip() == b"null":
        return _USAGE
    if len(memoryview(options)) > _OPTIONS_BYTES:
        raise UneditableError(f"'stream_options' has more than {_OPTIONS_BYTES} bytes")
    asked = _decoder.decode(options) | {"include_usage": _TRUE}
    asked.pop("continuous_usage_stats", None)  # it did nothing without usage
    return msgspec.Raw(msgspec.json.encode(asked))


def _in_place(body: bytes, found: _Edited, changes: Mapping[str, msgspec.Raw]) -> bytes:
    """The body with other bytes where the changed fields stand, and those that it had not at its end."""
    start = _address(body)
    spans = []
    added = b""
    for name, value in changes.items():
        if old := getattr(found, name):
            at = _address(old) - start
            spans.append((at, at + len(memoryview(old)), bytes(value)))
        else:
            added += b',"%b":%b' % (name.encode(), value)
    last = body.rindex(b"}")
    parts: list[bytes] = []
    kept = 0
    for at, end, written in sorted(spans):
        parts += body[kept:at], written
        kept = end
    return b"".join((*parts, body[kept:last], added, body[last:]))


def _address(data: bytes | msgspec.Raw) -> int:
    """Where bytes lie: what is decoded without a look inside lies within what it was decoded from."""
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address
