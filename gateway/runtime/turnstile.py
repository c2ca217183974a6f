"""Lets heavy work through a little at a time, so that no stream waits long for its next bytes."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, proxy

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

BATCH: Final = 16
"""What is let through in one turn of the loop where no stream has to wait for it; beside streams it is one
thing. What one request does right after another finds its code and data in the CPU's caches, which takes a
seventh to a fifth off a small one."""


class Turnstile:
    """What is to be done, in the order in which it came; what has begun goes on before anything else begins.

    Attributes:
        streams: Those under way.
    """

    __slots__ = ("_begun", "_loop", "_passed", "_turning", "_waiting", "streams")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.streams: set[object] = set()
        self._loop = proxy(loop)  # which this would keep for ever where it belongs to it
        self._turning = False
        self._passed = 0  # in the last turn
        self._begun: deque[Callable[[], object]] = deque()
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, begin: Callable[[], object]) -> None:
        """Begin something now, or when what came before has begun.

        Args:
            begin: Sets off what runs in the next turn, as who makes a task does.
        """
        self._waiting.append(begin)
        if not self._turning:
            self._turn()

    async def turn(self) -> None:
        """Wait before a heavy step.

        Beside streams for a turn in which nothing else is let through, else until those that began together
        have come as far.
        """
        if not self._turning:
            if self.streams:
                self._passed = 1
                self._next()
        elif self.streams or self._passed > 1 or self._begun or self._waiting:
            mine = self._loop.create_future()
            self._begun.append(partial(_let, mine))
            await mine

    def _turn(self) -> None:
        passing = self._begun or self._waiting
        if not passing:
            self._turning = False
            return
        self._passed = 1 if self.streams else min(len(passing), BATCH)
        try:
            for _ in range(self._passed):
                passing.popleft()()
        finally:  # whatever became of one, the others have their turn
            self._next()

    def _next(self) -> None:
        self._turning = True
        self._loop.call_soon(self._turn)  # after all that this turn has let go on


def _let(future: asyncio.Future[None]) -> None:
    if not future.done():  # it may have been given up
        future.set_result(None)


_TURNSTILES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turnstile]] = WeakKeyDictionary()


def turnstile_of(loop: asyncio.AbstractEventLoop) -> Turnstile:
    """The one of a loop."""
    return _TURNSTILES.setdefault(loop, Turnstile(loop))
