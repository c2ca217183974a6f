"""Requests that wait until a backend has room: by priority, and first come, first served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_T = TypeVar("_T")


class _Place:
    """One request in the queue.

    Attributes:
        kind: Requests of one kind find room at the same backends.
        priority: The higher ones look first.
        turn: Set when it is this request's turn to look for room; None while it looks.
    """

    __slots__ = ("kind", "priority", "turn")

    def __init__(self, kind: Hashable, priority: int) -> None:
        self.kind = kind
        self.priority = priority
        self.turn: asyncio.Future[None] | None = None


class Queue:
    """Gives those who wait their turn to look for room, one after the other, whenever there may be some.

    One turn at a time, so that nobody of a priority overtakes: it passes on when its holder has looked,
    and skips requests of a kind that found nothing since there was last news.

    Attributes:
        patient: How many of those who wait need not, as others have room; they take no place from anybody.
    """

    def __init__(self, next_change: Callable[[], float | None]) -> None:
        """Make an empty queue.

        Args:
            next_change: Seconds until the mere passing of time may make room; None if it will not.
        """
        self.patient = 0
        self._next_change = next_change
        self._places: dict[_Place, None] = {}
        self._holder: _Place | None = None
        self._stuck: set[Hashable] = set()
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

    async def wait(
        self, kind: Hashable, look: Callable[[], _T | None], seconds: float, priority: int = 0
    ) -> _T | None:
        """Wait behind those of the same priority until ``look`` finds something.

        What it finds must be taken before the caller next awaits, or others find the same.

        Args:
            kind: What tells requests apart that find room at different backends.
            look: Looks for room; None if there is none.
            seconds: How long to wait.
            priority: Who is before whom: the higher.

        Returns:
            What it found; None after that time.
        """
        place = _Place(kind, priority)
        self._places[place] = None
        if any(other.priority < priority for other in self._places):
            self._places = dict.fromkeys(sorted(self._places, key=lambda one: -one.priority))
        loop = asyncio.get_running_loop()
        if not self.moving:
            self._sleep()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    place.turn = loop.create_future()
                    await place.turn
                    place.turn = None
                    if (found := look()) is not None:
                        return found
                    self._stuck.add(kind)
                    self._pass_on(place)
        except TimeoutError:
            return None
        finally:
            del self._places[place]
            self._pass_on(place)
            if not self._places:
                self._sleep()

    def news(self) -> None:
        """There may be room."""
        self._stuck.clear()
        if not self.moving:
            self._give_turn()

    def _pass_on(self, place: _Place) -> None:
        if self._holder is place:
            self._give_turn()

    def _give_turn(self) -> None:
        for place in self._places:
            if place.kind not in self._stuck and place.turn is not None and not place.turn.done():
                self._holder = place
                place.turn.set_result(None)
                return
        self._holder = None
        self._sleep()

    def _sleep(self) -> None:
        """Until there is news, or time makes room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._places and (seconds := self._next_change()) is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.news)
