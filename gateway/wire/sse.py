"""Tap on a stream of server-sent events: passes bytes through and reads what it needs on the way."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.runtime import clock
from gateway.wire import blocks
from gateway.wire.alike import Alike
from gateway.wire.chunks import carries_token, decode
from gateway.wire.upstream import UpstreamError

if TYPE_CHECKING:
    from gateway.wire.chunks import Body
    from gateway.wire.reading import Reading
    from gateway.wire.tape import Tape

DONE: Final = b"[DONE]"
"""Data of the event with which answers made of choices end."""

BORDER: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
"""Where an event ends."""

_BORDER_BYTES: Final = 3
"""Bytes of a border that may have come before its last."""

EVENT_LIMIT: Final = 2**24
"""Longest event in bytes."""

_LINE: Final = re.compile(rb"\r\n|\n|\r")


class _Fate(Enum):
    """What becomes of an event: passed on, left out, or held until the next one is seen."""

    PASS = 0
    DROP = 1
    HOLD = 2


class Held:
    """The bytes of an event that has not ended: each is looked at once, however long the event gets."""

    __slots__ = ("_pieces", "_seam", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._seam = b""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def completed(self, chunk: bytes) -> bytes | None:
        """All that is held and more bytes, if an event ends in these; otherwise None, and they are held.

        Raises:
            UpstreamError: The event is longer than any that can be meant.
        """
        if not self._pieces:
            return chunk
        if BORDER.search(self._seam + chunk) is None:
            self.hold(chunk)
            return None
        self._pieces.append(chunk)
        return self.take()

    def hold(self, rest: bytes) -> None:
        """Hold bytes after which nothing has ended yet; see :meth:`completed` for errors."""
        if not rest:
            return
        self._pieces.append(rest)
        self._size += len(rest)
        self._seam = (self._seam + rest)[-_BORDER_BYTES:]
        if self._size > EVENT_LIMIT:
            raise UpstreamError("first_byte", "protocol", f"an event of more than {EVENT_LIMIT} bytes")

    def take(self) -> bytes:
        """All that is held, which is nothing afterwards."""
        data = b"".join(self._pieces)
        self._pieces, self._size, self._seam = [], 0, b""
        return data


class StreamTap(Alike):
    """Reads a relayed stream event by event.

    Events in the middle of an answer are counted without decoding; the first, the last and those with
    usage or errors are decoded. Servers write the same around each piece of text, so most of those in the
    middle are known by that.

    Attributes:
        done: Whether ``[DONE]`` was seen, or the event with which streams of the endpoint end.
        cut: Whether the stream ended within an event.
        error: Data of an error event that was kept back, so that another backend may go on instead.
    """

    __slots__ = ("_held", "_last", "_strip_usage", "_tape", "_whole", "cut", "done", "error")

    def __init__(self, reading: Reading, *, strip_usage: bool, tape: Tape | None = None) -> None:
        """Tap a stream.

        Args:
            reading: The account of it, to be added to.
            strip_usage: Leave out the chunk that holds usage alone, for clients that did not ask for it.
                The fingerprint goes where it would have been.
            tape: Takes down the token ids that we asked for and the client did not; they are masked, and an
                error event is kept back.
        """
        super().__init__(reading)
        self.done = False
        self.cut = False
        self.error = b""
        self._strip_usage = strip_usage
        self._tape = tape
        self._whole = strip_usage or tape is not None
        self._held = Held()
        self._last = b""

    def feed(self, chunk: bytes, now: float) -> bytes:
        """Take bytes as they arrived and return those to pass on.

        These are the same bytes where nothing is to be left out or masked; otherwise an event that has not
        ended yet is held back, since only its end tells what is to become of it.
        """
        changed = bool(self._held or self._last)
        if (data := self._held.completed(chunk)) is None:
            return b"" if self._whole else chunk
        kept: list[bytes] = []
        start = 0
        for border in BORDER.finditer(data):
            end = border.end()
            fate = self._event(data[start : border.start()], now)
            if self._last:
                kept.append(self._last)
                self._last = b""
            if fate is _Fate.PASS:
                kept.append(data[start:end])
            else:
                changed = True
                if fate is _Fate.HOLD:
                    self._last = data[start:end]
            start = end
        self._held.hold(data[start:])
        self._may_pass(now=not (self._held or self._last))
        if not self._whole:
            return chunk
        given = b"".join(kept) if changed or self._held else chunk
        return given if self._tape is None else self._tape.mask(given)

    @property
    def between_events(self) -> bool:
        """Whether what was given out so far ends with an event."""
        return self._whole or not self._held

    def end(self, *, broken: bool = False) -> bytes:
        """Bytes still held back when the stream ends; an event that lacks but its border is read.

        Args:
            broken: The stream broke off, so that only ``[DONE]`` counts as whole.
        """
        rest = self._held.take()
        # What a tape takes down must be what was delivered, border and all.
        self.cut = not _can_be_read(rest, as_end=broken or self._tape is not None)
        fate = _Fate.PASS if self.cut else self._event(rest, clock.monotonic())
        held, self._last = self._last, b""
        if fate is not _Fate.DROP:
            held += rest
        return held if self._whole else b""

    def _event(self, event: bytes, now: float) -> _Fate:
        """Read one event and say what becomes of it."""
        data = event_data(event)
        if not data or self.error:  # what follows an error that was kept back is kept back too
            return _Fate.DROP if self.error else _Fate.PASS
        reading = self.reading
        reading.begun = True
        if data == DONE:
            self.done = True
            return _Fate.PASS
        if (
            self._tape is None
            and reading.first_token_at is not None
            and b'"finish_reason":null' in data
            and b'"usage":{' not in data
            and b'"tool_calls"' not in data
        ):
            reading.token_event(now)
            reading.keep(data)
            self.learn(event)
            return _Fate.PASS
        if reading.first_token_at is not None and self._adds(event, data, now):
            return _Fate.PASS
        body = decode(data)
        if body is None:
            return _Fate.PASS
        reading.take(body, data)
        self.done = self.done or reading.ended
        if self._tape is not None:
            self._tape.take(body)
            if body.error is not None:
                self.error = data
                return _Fate.DROP
        self._count(body, data, now)
        if not self._strip_usage:
            return _Fate.PASS
        if body.usage is not None and not body.choices:
            self._last = _signed(self._last, body.system_fingerprint)
            return _Fate.DROP
        return _Fate.HOLD if any(choice.finish_reason for choice in body.choices or ()) else _Fate.PASS

    def _adds(self, event: bytes, data: bytes, now: float) -> bool:
        """Whether this adds to an item or a block; if so it was counted."""
        if not (kind := blocks.adding(event, data)):
            return False
        if self.reading.addition(kind, data, now):
            self.learn(event)
        return True

    def _count(self, body: Body, data: bytes, now: float) -> None:
        reading = self.reading
        if isinstance(body.type, str):
            reading.typed_event(body.type, data, now)
            return
        if reading.opened_at is None and body.choices:
            reading.opened_at = now
        if carries_token(body):
            if reading.first_token_at is None:
                reading.first_token_event(body, now)
            else:
                reading.token_event(now)


def _can_be_read(rest: bytes, *, as_end: bool) -> bool:
    """Whether what came without a border is whole all the same.

    Args:
        rest: A part of an event, or a comment, or nothing.
        as_end: Whether the only event that counts is the one that ends an answer.
    """
    if not (data := event_data(rest)):
        return not rest.strip() or rest.startswith(b":")
    return data == DONE or (not as_end and decode(data) is not None)


def _signed(event: bytes, fingerprint: str | None) -> bytes:
    """The last event of an answer with the fingerprint that vLLM puts there when nobody asks for usage."""
    body = event.rstrip(b"\r\n")
    if not fingerprint or not body.endswith(b"}") or b'"system_fingerprint"' in body:
        return event
    sign = b',"system_fingerprint":' + msgspec.json.encode(fingerprint) + b"}"
    return body[:-1] + sign + event[len(body) :]


def event_data(event: bytes) -> bytes:
    """Data of an event: its ``data`` lines joined by newlines; empty for comments."""
    if event.startswith(b"data: ") and b"\n" not in event and b"\r" not in event:
        return event[6:]
    lines = (line for line in _LINE.split(event) if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
