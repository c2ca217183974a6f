"""One timer of the loop for all the times at which requests are to be looked at."""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from gateway.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable

_MANY: Final = 64
"""So many alarms that were called off may lie about, and as many as there are others."""


class Alarm:
    """Something to be called at a time, unless it is called off.

    Attributes:
        due: Monotonic seconds.
    """

    __slots__ = ("_alarms", "call", "due")

    def __init__(self, alarms: Alarms, due: float, call: Callable[[], None]) -> None:
        self._alarms = alarms
        self.due = due
        self.call: Callable[[], None] | None = call

    def __lt__(self, other: Alarm) -> bool:
        """Whether this is due before another."""
        return self.due < other.due

    def off(self) -> None:
        """Call it off; more than once does no harm."""
        if self.call is not None:
            self.call = None
            self._alarms.called_off()


class Alarms:
    """All alarms of a loop. Most are called off long before they are due, so that this must cost little."""

    __slots__ = ("_heap", "_off", "_timer", "_wakes")

    def __init__(self) -> None:
        """Without any; belongs to the loop in which the first is set."""
        self._heap: list[Alarm] = []
        self._off = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wakes = 0.0

    def __len__(self) -> int:
        """How many are kept, with those that were called off and are not yet removed."""
        return len(self._heap)

    def at(self, due: float, call: Callable[[], None]) -> Alarm:
        """Call something at a time given as monotonic seconds."""
        alarm = Alarm(self, due, call)
        heappush(self._heap, alarm)
        if self._timer is None or due < self._wakes:
            self._arm(due)
        return alarm

    def called_off(self) -> None:
        """One was called off."""
        self._off += 1
        if self._off > _MANY and 2 * self._off > len(self._heap):
            self._heap = [alarm for alarm in self._heap if alarm.call is not None]
            heapify(self._heap)
            self._off = 0

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes = due
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, due - clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = clock.monotonic()
        due: list[Callable[[], None]] = []
        while self._heap and (self._heap[0].call is None or self._heap[0].due <= now):
            alarm = heappop(self._heap)
            if alarm.call is None:
                self._off -= 1
            else:
                due.append(alarm.call)
                alarm.call = None
        if self._heap:
            self._arm(self._heap[0].due)
        for call in due:
            call()
