"""Events of a stream that differ in their text alone: known by that, and counted without a look inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.wire.reading import Reading

_TEXTS: Final = (b'"content":"', b'"text":"', b'"reasoning":"', b'"reasoning_content":"')
"""Beginnings of what events differ in; of the first two the opening of an answer consists."""

_FRAMES: Final = 256
"""Sizes of events of which it is remembered how they are framed, at most."""

_Frame = tuple[bytes, int, int, int]
"""Of chunks of one size: how such events begin, the borders of their text, and their size unframed."""

_NO_FRAME: Final[_Frame] = (b"", 0, -2, 0)
"""Its text ends where none does."""

_LESSONS: Final = 4
"""How often a form of events is learned in a stream, at most: some are alike in nothing."""


class Alike:
    """What the events in the middle of an answer have in common.

    Servers write the same around each piece of text. Once that was learned, an event that has it, and no
    other quotation mark, is one of them.

    Attributes:
        reading: What was read so far.
    """

    __slots__ = (
        "_after", "_alike", "_before", "_close", "_frames", "_keeps", "_lessons", "_start", "_tail",
        "reading",
    )  # fmt: skip

    def __init__(self, reading: Reading) -> None:
        """Know nothing yet."""
        self.reading = reading
        self._lessons = _LESSONS
        self._alike = False
        self._before = self._after = b""
        self._start = self._tail = 0
        self._frames: dict[int, _Frame] = {}
        self._close = b""
        self._keeps = False

    def passes(self, chunk: bytes, now: float) -> bool:
        """Whether these are events in the middle of an answer like those before, to be passed on as they are.

        If so they were counted; if not, :meth:`feed` is to take them.
        """
        if not (self._alike and chunk.startswith(self._before) and chunk.endswith(self._after)):
            return False
        end = len(chunk) - self._tail
        if chunk.find(b'"', self._start) != end:
            return self._passes_all(chunk[:-2].split(b"\n\n"), now)
        reading = self.reading
        reading.last_token_at = now
        reading.events += 1
        if self._keeps:
            self._keeps = reading.keep(chunk[self._start - 1 : end + 1])
        return True

    def passes_framed(self, chunk: bytes, now: float) -> int:
        """The same of one event that comes as a chunk of HTTP, its framing included.

        Returns:
            Size of the event, which was counted; 0 if it is anything else.
        """
        if not self._alike:
            return 0
        head, start, end, size = self._frames.get(len(chunk)) or self._frame_of(len(chunk))
        if not (chunk.startswith(head) and chunk.endswith(self._close) and chunk.find(b'"', start) == end):
            return 0
        reading = self.reading
        reading.last_token_at = now
        reading.events += 1
        if self._keeps:
            self._keeps = reading.keep(chunk[start - 1 : end + 1])
        return size

    def _frame_of(self, chunk: int) -> _Frame:
        """The frame of chunks of this size; none if no such event can have it."""
        frame = _NO_FRAME
        for digits in range(1, 9):
            size = max(0, chunk - digits - 4)
            length = b"%x" % size
            if len(length) == digits:
                head = length + b"\r\n" + self._before
                frame = head, len(head), chunk - self._tail - 2, size
        if len(self._frames) < _FRAMES:
            self._frames[chunk] = frame
        return frame

    def _passes_all(self, events: list[bytes], now: float) -> bool:
        before, start, after, tail = self._before, self._start, self._after[:-2], self._tail - 2
        for event in events:
            if not (event.startswith(before) and event.endswith(after)):
                return False
            if event.find(b'"', start) != len(event) - tail:
                return False
        reading = self.reading
        reading.last_token_at = now
        reading.events += len(events)
        for event in events:
            if not self._keeps:
                break
            self._keeps = reading.keep(event[start - 1 : len(event) - tail + 1])
        return True

    def learn(self, event: bytes) -> None:
        """Learn what events in the middle of an answer have in common: everything but the text."""
        if not self._lessons:
            return
        for name in _TEXTS:
            start = event.find(name) + len(name)
            if start < len(name):
                continue
            end = event.find(b'"', start)
            if end > 0 and b"\\" not in event[start:end]:
                self._lessons -= 1
                self._before, self._after = event[:start], event[end:] + b"\n\n"
                self._start, self._tail = len(self._before), len(self._after)
                self._frames, self._close = {}, self._after + b"\r\n"
                self._keeps = name in _TEXTS[:2]
            return
