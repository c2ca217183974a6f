"""When requests begin that come all at once."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn.server import ServerState

STARTS: Final = 2
"""Most requests that begin in one turn of the loop."""


class Starts:
    """Begins few requests in a turn of the loop: many that come at once hold up no answer under way."""

    __slots__ = ("_begun", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, begin: Callable[[], None]) -> None:
        """Begin a request now, or when those before it have begun."""
        if self._begun >= STARTS:
            self._waiting.append(begin)
            return
        if not self._begun:
            self._loop.call_soon(self._turn)
        self._begun += 1
        begin()

    def _turn(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < STARTS:
            self._begun += 1
            self._waiting.popleft()()
        if self._begun:
            self._loop.call_soon(self._turn)


_STARTS: Final[WeakKeyDictionary[ServerState, Starts]] = WeakKeyDictionary()
"""Those of each server."""


def starts_of(server: ServerState, loop: asyncio.AbstractEventLoop) -> Starts:
    """Those of a server."""
    return _STARTS.setdefault(server, Starts(loop))
