"""The model of a multipart form, such as an upload of audio: read, and changed in its place."""

from __future__ import annotations

import re
from email.parser import BytesHeaderParser
from typing import Final

_BOUNDARY: Final = re.compile(
    rb'^multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{0,199}[^"\s])"|([^";\s]{1,200}))',
    re.IGNORECASE | re.DOTALL,
)
_PARTS: Final = 256
_HEAD_BYTES: Final = 4096
_NAME_BYTES: Final = 512


def is_form(content_type: bytes) -> bool:
    """Whether a body of this type is a form that may name a model."""
    return _BOUNDARY.match(content_type) is not None


def model(body: bytes, content_type: bytes) -> str:
    """The model that a form names; ``""`` if it names none that could be read."""
    span = _span(body, content_type)
    if span is None:
        return ""
    try:
        return body[slice(*span)].decode()
    except UnicodeDecodeError:
        return ""


def with_model(body: bytes, content_type: bytes, name: str) -> bytes:
    """The form with another model in the place of the one it names; every other byte stays."""
    span = _span(body, content_type)
    if span is None:
        return body
    start, end = span
    return body[:start] + name.encode() + body[end:]


def _name(head: bytes) -> str | None:
    """Name of the field whose headers these are."""
    name = BytesHeaderParser().parsebytes(head.lstrip()).get_param("name", header="content-disposition")
    return name if isinstance(name, str) else None


def _span(body: bytes, content_type: bytes) -> tuple[int, int] | None:
    """Where the value of the form's ``model`` begins and ends."""
    found = _BOUNDARY.match(content_type)
    if found is None:
        return None
    border = b"--" + (found[1] or found[2])
    at = 0 if body.startswith(border) else body.find(b"\r\n" + border) + 2
    if not body.startswith(border, at):
        return None
    for _ in range(_PARTS):
        head = at + len(border)
        value = body.find(b"\r\n\r\n", head, head + _HEAD_BYTES) + 4
        end = body.find(b"\r\n" + border, head)
        if value < 4 or end < value:
            return None
        if _name(body[head:value]) == "model":
            return (value, end) if end - value <= _NAME_BYTES else None
        at = end + 2
    return None
