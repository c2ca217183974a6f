"""Events of a stream that differ in their text alone: known by that, and counted without a look inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.wire.reading import Reading

_TEXTS: Final = (b'"content":"', b'"text":"', b'"reasoning":"', b'"reasoning_content":"')
"""Beginnings of what events differ in; of the first two the opening of an answer consists."""

_FRAMES: Final = 256
"""Sizes of events of which it is remembered how they are framed, at most."""

Frame = tuple[bytes, bytes, int, int]
"""Of chunks of one size, framing included: how they begin and end, the size of the text between, and that of
the event."""

_NONE: Final[Mapping[int, Frame]] = {}

_LESSONS: Final = 4
"""How often a form of events is learned in a stream, at most: some are alike in nothing."""


class Alike:
    """What the events in the middle of an answer have in common.

    Servers write the same around each piece of text. Once that was learned, an event that has it, and no
    other quotation mark, is one of them.

    Attributes:
        reading: What was read so far.
        frames: By the size of a chunk, what it must be to be passed on as it came, once it was counted. No
            quotation mark may be in its text.
        keeps: Whether the reading is to keep the text.
    """

    __slots__ = (
        "_after", "_alike", "_before", "_known", "_lessons", "_start", "_tail", "frames", "keeps", "reading",
    )  # fmt: skip

    def __init__(self, reading: Reading) -> None:
        """Know nothing yet."""
        self.reading = reading
        self._lessons = _LESSONS
        self._alike = False
        self._before = self._after = b""
        self._start = self._tail = 0
        self._known: dict[int, Frame] = {}
        self.frames = _NONE
        self.keeps = False

    def passes(self, chunk: bytes, now: float) -> bool:
        """Whether these are events in the middle of an answer like those before, to be passed on as they are.

        If so they were counted; if not, :meth:`feed` is to take them.
        """
        if not (self._alike and chunk.startswith(self._before) and chunk.endswith(self._after)):
            return False
        end = len(chunk) - self._tail
        if chunk.find(b'"', self._start) != end:
            return self._passes_all(chunk[:-2].split(b"\n\n"), now)
        self.reading.token_event(now)
        if self.keeps:
            self.keeps = self.reading.keep(chunk[self._start - 1 : end + 1])
        if len(self._known) < _FRAMES:
            self._frame(len(chunk))
        return True

    def _frame(self, size: int) -> None:
        """Know the frame of events of this size."""
        head, tail = b"%x\r\n%b" % (size, self._before), self._after + b"\r\n"
        text = size - self._start - self._tail
        self._known[len(head) + text + len(tail)] = head, tail, text, size

    def _may_pass(self, *, now: bool) -> None:
        """Whether the next events may be such as are passed on."""
        self._alike = now and bool(self._before)
        self.frames = self._known if self._alike else _NONE

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
            if not self.keeps:
                break
            self.keeps = reading.keep(event[start - 1 : len(event) - tail + 1])
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
                self._known = {}
                self.keeps = name in _TEXTS[:2]
            return
