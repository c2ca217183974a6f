"""Events of a stream that differ in their text alone: known by that, and counted without a look inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.wire.reading import Reading

_TEXTS: Final = (b'"content":"', b'"text":"', b'"reasoning":"', b'"reasoning_content":"')
"""Beginnings of what events differ in; of the first two the opening of an answer consists."""

_HEADS: Final = 256
"""Sizes of events of which it is remembered how they begin, at most."""

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
        "_after", "_alike", "_before", "_close", "_heads", "_keeps", "_lessons", "_start", "_tail", "reading",
    )  # fmt: skip

    def __init__(self, reading: Reading) -> None:
        """Know nothing yet."""
        self.reading = reading
        self._lessons = _LESSONS
        self._alike = False
        self._before = self._after = b""
        self._start = self._tail = 0
        self._heads: dict[int, bytes] = {}
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
        size = len(chunk)
        head = self._heads.get(size)
        if head is None:
            head = self._head_of(size)
        if not (head and chunk.startswith(head) and chunk.endswith(self._close)):
            return 0
        start, end = len(head), size - self._tail - 2
        if chunk.find(b'"', start) != end:
            return 0
        reading = self.reading
        reading.last_token_at = now
        reading.events += 1
        if self._keeps:
            self._keeps = reading.keep(chunk[start - 1 : end + 1])
        return size - start + self._start - 2

    def _head_of(self, size: int) -> bytes:
        """How a chunk of this size begins that is such an event; empty if none has this size."""
        head = b""
        for digits in range(1, 9):
            length = b"%x" % max(0, size - digits - 4)
            if len(length) == digits:
                head = length + b"\r\n" + self._before
        if len(self._heads) < _HEADS:
            self._heads[size] = head
        return head

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
                self._heads, self._close = {}, self._after + b"\r\n"
                self._keeps = name in _TEXTS[:2]
            return
