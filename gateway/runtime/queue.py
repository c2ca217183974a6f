"""Requests that wait until a backend has room: by priority, and first come, first served."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from gateway.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from gateway.runtime.elders import Elders

_T = TypeVar("_T")

LEFT_SECONDS: Final = 0.03
"""How long room is left to a request that waits for longer in another worker, which has to look first; a bit
more than that takes."""


class Picky(Enum):
    """What a request that asks for more than others of its kind finds where there is no room for it."""

    NOTHING = "nothing"


class _Place:
    """One request in the queue.

    Attributes:
        kind: Requests of one kind find room at the same backends.
        priority: The higher ones look first.
        since: Monotonic seconds at which it came.
        turn: Set when it is this request's turn to look for room; None while it looks.
    """

    __slots__ = ("kind", "priority", "since", "turn")

    def __init__(self, kind: Hashable, priority: int) -> None:
        self.kind = kind
        self.priority = priority
        self.since = clock.monotonic()
        self.turn: asyncio.Future[None] | None = None


class Queue:
    """Gives those who wait their turn to look for room, one after the other, whenever there may be some.

    One turn at a time, so that nobody of a priority overtakes: it passes on when its holder has looked,
    and skips requests of a kind of which one found nothing since there was last news, unless that one asks
    for more than others. Room is left for a moment to one of the same kind that waits for longer in another
    worker.

    Attributes:
        patient: How many of those who wait need not, as others have room; they take no place from anybody.
    """

    def __init__(self, next_change: Callable[[], float | None], elders: Elders | None = None) -> None:
        """Make an empty queue.

        Args:
            next_change: Seconds until the mere passing of time may make room; None if it will not.
            elders: Those who wait in other workers; None where there are none.
        """
        self.patient = 0
        self._next_change = next_change
        self._elders = elders
        self._places: dict[_Place, None] = {}
        self._kinds: dict[Hashable, dict[_Place, None]] = {}
        self._left: dict[Hashable, float] = {}
        self._holder: _Place | None = None
        self._stuck: set[Hashable] = set()  # kinds, and requests that found nothing for themselves alone
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Requests that wait."""
        return len(self._places)

    def full(self, length: int) -> bool:
        """Whether so many wait that must."""
        return len(self._places) - self.patient >= length

    @property
    def moving(self) -> bool:
        """Whether somebody has the turn: who comes now must not look before them."""
        return self._holder is not None

    def behind(self, kind: Hashable) -> bool:
        """Whether a request of a kind waits in another worker: one that comes now must not look before it."""
        return self._elders is not None and self._elders.before(kind, clock.monotonic())

    def beat(self) -> None:
        """Tell other workers that those who wait here still look."""
        if self._elders is not None and self._places:
            self._elders.beat()

    async def wait(
        self, kind: Hashable, look: Callable[[], _T | Picky | None], seconds: float, priority: int = 0
    ) -> _T | None:
        """Wait behind those of the same priority until ``look`` finds something.

        What it finds must be taken before the caller next awaits, or others find the same.

        Args:
            kind: What tells requests apart that find room at different backends.
            look: Looks for room; None if there is none for any of the kind.
            seconds: How long to wait.
            priority: Who is before whom: the higher.

        Returns:
            What it found; None after that time.
        """
        place = _Place(kind, priority)
        self._enter(place)
        if any(other.priority < priority for other in self._places):
            self._places = dict.fromkeys(sorted(self._places, key=lambda one: -one.priority))
        loop = asyncio.get_running_loop()
        if not self.moving:
            self._leaves_room(place)
            self._sleep()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    place.turn = loop.create_future()
                    await place.turn
                    place.turn = None
                    found = look()
                    if found is not None and not isinstance(found, Picky):
                        return found
                    self._stuck.add(kind if found is None else place)
                    self._pass_on(place)
        except TimeoutError:
            return None
        finally:
            self._leave(place)
            self._pass_on(place)
            if not self._places:
                self._left.clear()
                self._sleep()

    def news(self) -> None:
        """There may be room."""
        self._stuck.clear()
        if not self.moving:
            self._give_turn()

    def _enter(self, place: _Place) -> None:
        self._places[place] = None
        alike = self._kinds.setdefault(place.kind, {})
        alike[place] = None
        if self._elders is not None and len(alike) == 1:
            self._elders.tell(place.kind, place.since)

    def _leave(self, place: _Place) -> None:
        del self._places[place]
        alike = self._kinds[place.kind]
        was_first = next(iter(alike)) is place
        del alike[place]
        if not alike:
            del self._kinds[place.kind]
        if self._elders is not None and was_first:
            self._elders.tell(place.kind, next(iter(alike)).since if alike else 0.0)

    def _leaves_room(self, place: _Place) -> bool:
        """Whether it leaves room to one of its kind in another worker: not for long, that may find none."""
        if self._elders is None or not self._elders.before(place.kind, place.since):
            return False
        now = clock.monotonic()
        return now < self._left.setdefault(place.kind, now + LEFT_SECONDS)

    def _pass_on(self, place: _Place) -> None:
        if self._holder is place:
            self._give_turn()

    def _give_turn(self) -> None:
        leaving: set[Hashable] = set()
        for place in self._places:
            if place.turn is None or place.turn.done() or place in self._stuck:
                continue
            if place.kind in self._stuck or place.kind in leaving:
                continue
            if self._leaves_room(place):
                leaving.add(place.kind)
                continue
            self._holder = place
            place.turn.set_result(None)
            return
        self._holder = None
        if self._left:
            now = clock.monotonic()
            self._left = {kind: until for kind, until in self._left.items() if until > now}
        self._sleep()

    def _sleep(self) -> None:
        """Until there is news, or time makes room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._places:
            return
        waits = [until - clock.monotonic() for until in self._left.values()]
        if (seconds := self._next_change()) is not None:
            waits.append(seconds)
        if waits:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, min(waits)), self.news)
