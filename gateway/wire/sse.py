"""Tap on a stream of server-sent events: passes bytes through and reads what it needs on the way."""

from __future__ import annotations

import re
from typing import Final

from gateway.wire.reading import Reading, carries_token, decode

_BORDER: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE: Final = re.compile(rb"\r\n|\n|\r")


class StreamTap:
    """Reads a relayed stream event by event.

    Events in the middle of an answer are counted without decoding; the first, the last and those with
    usage or errors are decoded.

    Attributes:
        reading: What was read so far.
        done: Whether ``[DONE]`` was seen.
    """

    __slots__ = ("_held", "_strip_usage", "done", "reading")

    def __init__(self, *, strip_usage: bool) -> None:
        """Tap a stream.

        Args:
            strip_usage: Leave out the chunk that holds usage alone, for clients that did not ask for it.
        """
        self.reading = Reading()
        self.done = False
        self._strip_usage = strip_usage
        self._held = b""

    def feed(self, chunk: bytes, now: float) -> bytes:
        """Take bytes as they arrived and return those to pass on.

        Without stripping these are the same bytes; with it, an event that has not ended yet is held back,
        since only its end tells whether it is to be left out.
        """
        data = self._held + chunk if self._held else chunk
        kept: list[bytes] | None = [] if self._strip_usage else None
        start = 0
        stripped = False
        for border in _BORDER.finditer(data):
            end = border.end()
            if self._event(data[start : border.start()], now):
                stripped = True
            elif kept is not None:
                kept.append(data[start:end])
            start = end
        held_before, self._held = self._held, data[start:]
        if kept is None or not (stripped or held_before or self._held):
            return chunk
        return b"".join(kept)

    @property
    def between_events(self) -> bool:
        """Whether what was given out so far ends with an event."""
        return self._strip_usage or not self._held

    def end(self) -> bytes:
        """Bytes still held back when the stream ends without a border."""
        held, self._held = self._held, b""
        return held if self._strip_usage else b""

    def _event(self, event: bytes, now: float) -> bool:
        """Read one event; True if it is to be left out."""
        data = _data(event)
        if not data:
            return False
        if data == b"[DONE]":
            self.done = True
            return False
        reading = self.reading
        if (
            reading.first_token_at is not None
            and b'"finish_reason":null' in data
            and b'"usage":{' not in data
            and b'"tool_calls"' not in data
        ):
            reading.token_event(now)
            return False
        body = decode(data)
        if body is None:
            return False
        reading.take(body)
        if reading.opened_at is None and body.choices:
            reading.opened_at = now
        if carries_token(body):
            if reading.first_token_at is None:
                reading.first_token_event(body, now)
            else:
                reading.token_event(now)
        return self._strip_usage and body.usage is not None and not body.choices


def _data(event: bytes) -> bytes:
    """Data of an event: its ``data`` lines joined by newlines; empty for comments."""
    if event.startswith(b"data: ") and b"\n" not in event and b"\r" not in event:
        return event[6:]
    lines = (line for line in _LINE.split(event) if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
