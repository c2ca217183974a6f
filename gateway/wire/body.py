"""Edits of a request body: only the named top-level fields change, every other value keeps its bytes."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.runtime.foreign import UNREADABLE


class UneditableError(ValueError):
    """A body that must be changed on the way and cannot be; the message says why, for the client."""


_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_USAGE: Final = msgspec.Raw(b'{"include_usage":true}')
_TRUE: Final = msgspec.Raw(b"true")


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
        UneditableError: The name of a field is no text.
    """
    try:
        return _edited(body, model=model, include_usage=include_usage, token_ids=token_ids)
    except UNREADABLE as error:
        raise UneditableError(f"the body is not valid JSON: {error}") from error


def _edited(body: bytes, *, model: str | None, include_usage: bool, token_ids: bool) -> bytes:
    fields = _decoder.decode(body)
    if model is not None:
        fields["model"] = msgspec.Raw(msgspec.json.encode(model))
    if include_usage:
        options = fields.get("stream_options")
        if options is None or bytes(options).strip() == b"null":
            fields["stream_options"] = _USAGE
        else:
            asked = _decoder.decode(options) | {"include_usage": _TRUE}
            asked.pop("continuous_usage_stats", None)  # it did nothing without usage
            fields["stream_options"] = msgspec.Raw(msgspec.json.encode(asked))
    if token_ids:
        fields["return_token_ids"] = _TRUE
    return msgspec.json.encode(fields)
