"""Spans of OTLP as bytes, written by hand: the SDK's objects and encoder cost a request 200 µs of CPU.

The fields are those of ``opentelemetry/proto/trace/v1/trace.proto`` and of ``common.proto`` beside it.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = str | bool | int | float | tuple[str, ...] | tuple[int, ...]
"""What an attribute can hold."""

SERVER: Final = 2
CLIENT: Final = 3
"""Kinds of span."""

# How a field is laid out, in the low three bits before it.
_FIXED64: Final = 1
_DELIMITED: Final = 2
_FIXED32: Final = 5

_SEVEN_BITS: Final = 0x7F
_MORE: Final = 0x80
_SMALL: Final = tuple(bytes((number,)) for number in range(_MORE))
_double: Final = struct.Struct("<d").pack


def _varint(number: int) -> bytes:
    """A number of seven bits a byte, the lowest first; at least 0."""
    if number < _MORE:
        return _SMALL[number]
    if number < _MORE * _MORE:
        return bytes((number & _SEVEN_BITS | _MORE, number >> 7))
    found = bytearray()
    while number > _SEVEN_BITS:
        found.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    found.append(number)
    return bytes(found)


def _message(field: int, content: bytes) -> bytes:
    """A field, of the first 15, that holds others, or a text."""
    return _head(field, len(content)) + content


def _head(field: int, size: int) -> bytes:
    """What stands before so many bytes of others, or of a text."""
    return _SMALL[field << 3 | _DELIMITED] + (_SMALL[size] if size < _MORE else _varint(size))


def written(value: str) -> bytes:
    """A text as its bytes."""
    # Half of a pair of surrogates, which JSON can hold, has no bytes.
    return value.encode("utf-8", "replace")


def _any(value: Value) -> bytes:
    """The message that holds a value: in field 1 a text, in 2 a truth, in 3 a whole number, in 4 a float."""
    if isinstance(value, str):
        return _message(1, written(value))
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value if 0 <= value < _MORE else _int64(value))
    if isinstance(value, float):
        return b"\x21" + _double(value)
    return _message(5, b"".join([_element(each) for each in value]))


@lru_cache(4096)
def _element(value: str | int) -> bytes:
    return _message(1, _any(value))


_HEADS: Final = tuple(_message(1, _message(1, bytes(size)))[:4] for size in range(_MORE - 2))
"""What stands before a text within a list, by its length."""


def _short(text: bytes) -> bytes:
    """A text within a list."""
    size = len(text)
    return _HEADS[size] + text if size < len(_HEADS) else _message(1, _message(1, text))


def _int64(value: int) -> int:
    """A whole number within 64 bits, negative ones as their complement."""
    return min(max(value, -(2**63)), 2**63 - 1) % 2**64


def _attribute(field: int, name: str, value: Value) -> bytes:
    return _message(field, _message(1, written(name)) + _message(2, _any(value)))


class Key:
    """The name of a span's attribute, ready to be written with a value."""

    __slots__ = ("_before_double", "_before_value", "_name", "whole")

    _FIELD: Final = 9

    def __init__(self, name: str) -> None:
        """Write the name."""
        self._name = _message(1, written(name))
        self._before_value = self._name + _SMALL[2 << 3 | _DELIMITED]
        self._before_double = _attribute(self._FIELD, name, 0.0)[:-8]
        self.whole = lru_cache(4096)(self.of)

    def of(self, value: Value) -> bytes:
        """The attribute with a value; of a whole number what fits 64 bits."""
        return _message(self._FIELD, self._name + _message(2, _any(value)))

    def double(self, value: float) -> bytes:
        """The same for a float, at a tenth of the price: a span has ten of them."""
        return self._before_double + _double(value)

    def text(self, value: str) -> bytes:
        """The same for a text that is another one each time, at a third of the price."""
        return self._holding(1, written(value))

    def texts(self, values: Iterable[bytes]) -> bytes:
        """The same for texts that are others each time, as their bytes."""
        return self._holding(5, b"".join(map(_short, values)))

    def wholes(self, values: Iterable[int]) -> bytes:
        """The same for whole numbers that fit 64 bits."""
        return self._holding(5, b"".join(map(_element, values)))

    def _holding(self, field: int, content: bytes) -> bytes:
        """The attribute with a value that is this in one of its fields."""
        name, size = self._before_value, len(content)
        whole = size + len(name) + 3
        if whole >= _MORE:
            return _message(self._FIELD, self._name + _message(2, _message(field, content)))
        tag = _SMALL[field << 3 | _DELIMITED]
        return b"".join((_ATTRIBUTE, _SMALL[whole], name, _SMALL[size + 2], tag, _SMALL[size], content))


_ATTRIBUTE: Final = _SMALL[Key._FIELD << 3 | _DELIMITED]  # noqa: SLF001 - of this module


_times: Final = struct.Struct("<BQBQ").pack
_START: Final = 7 << 3 | _FIXED64
_END: Final = 8 << 3 | _FIXED64
_IS_ERROR: Final = _message(15, b"\x18\x02")
_PARENT_IS_LOCAL: Final = _varint(16 << 3 | _FIXED32) + (0x100).to_bytes(4, "little")
_PARENT_IS_REMOTE: Final = _varint(16 << 3 | _FIXED32) + (0x300).to_bytes(4, "little")


@lru_cache(1024)
def _named(name: str, kind: int) -> bytes:
    return _message(5, written(name)) + bytes((6 << 3, kind))


def span(  # noqa: PLR0913 - that is what a span has
    *,
    name: str,
    kind: int,
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes = b"",
    remote: bool = False,
    started: int,
    ended: int,
    inside: Iterable[bytes],
    failed: bool,
) -> bytes:
    """A span within its scope.

    Args:
        name: What was done.
        kind: :data:`SERVER` or :data:`CLIENT`.
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: The same, or empty for a root.
        remote: Whether the parent is of another process.
        started: Unix nanoseconds.
        ended: The same.
        inside: Attributes and events.
        failed: Whether that is an error.
    """
    content = b"".join(
        (
            b"\x0a\x10", trace_id,
            b"\x12\x08", span_id,
            b"\x22\x08" + parent_id if parent_id else b"",
            _named(name, kind),
            _times(_START, started, _END, ended),
            *inside,
            _IS_ERROR if failed else b"",
            _PARENT_IS_REMOTE if remote else _PARENT_IS_LOCAL,
        )
    )  # fmt: skip
    return _message(2, content)


def event(name: str, at: int, attributes: Mapping[str, Value] | None = None) -> bytes:
    """An event within a span, at Unix nanoseconds."""
    if not attributes:
        before, after = _bare_event(name)
        return before + at.to_bytes(8, "little") + after
    facts = [_attribute(3, key, value) for key, value in attributes.items()]
    content = [b"\x09", at.to_bytes(8, "little"), _message(2, written(name)), *facts]
    return _message(11, b"".join(content))


@lru_cache(64)
def _bare_event(name: str) -> tuple[bytes, bytes]:
    """What stands before and after the time of an event without attributes."""
    named = _message(2, written(name))
    return _message(11, b"\x09" + bytes(8) + named)[: -8 - len(named)], named


def export(resource: Mapping[str, Value], scope: str, version: str, spans: Iterable[bytes]) -> bytes:
    """What is posted to a receiver: spans of one scope of one resource."""
    about = _message(1, b"".join([_attribute(1, key, value) for key, value in resource.items()]))
    named = _message(1, _message(1, written(scope)) + _message(2, written(version)))
    # A batch has half a megabyte, so it is copied once.
    held = (named, *spans)
    within = _head(2, sum(map(len, held)))
    before = about + within
    return b"".join((_head(1, len(before) + sum(map(len, held))), before, *held))
