"""When requests begin that come all at once, and what they do together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from uvicorn.server import ServerState

    from gateway.wire.pipe import Pipe

_T = TypeVar("_T")

BATCH: Final = 16
"""Requests that begin in one turn where no stream has to wait for them. What one does right after the other
finds its code and data in the CPU's caches, which takes a seventh to a fifth off a small request."""

BESIDE_STREAMS: Final = 4
"""The same where streams are under way: of so many no turn takes longer than the whole beginning of one."""


class Starts:
    """Begins requests that come all at once a few at a time, so that no stream under way is held up for long.

    The few come as far as :meth:`together`, take that step one after the other, and go on: all of them in one
    turn of the loop, or one in a turn where there are streams.

    Attributes:
        streams: Those under way.
    """

    __slots__ = ("_begun", "_loop", "_steps", "_taken", "_turning", "_waiting", "streams")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.streams: set[Pipe] = set()
        self._loop = loop
        self._turning = False
        self._begun = 0  # in the last turn
        self._waiting: deque[Callable[[], None]] = deque()
        self._steps: list[_Step[Any]] = []
        self._taken: deque[_Step[Any]] = deque()

    def add(self, begin: Callable[[], None]) -> None:
        """Begin a request now, or when those before it have begun."""
        self._waiting.append(begin)
        if not self._turning:
            self._turning = True
            self._begin(1)

    async def together(self, take: Callable[[], _T]) -> _T:
        """Take a step of a request right after others take theirs, where any have begun with it."""
        if not self._turning or (self._begun == 1 and not self._waiting):
            return take()
        step: _Step[_T] = _Step(take, self._loop.create_future())
        self._steps.append(step)
        return await step.done

    def _turn(self) -> None:
        if self._steps:
            for step in self._steps:
                step.take()
            self._taken.extend(self._steps)
            self._steps = []
        if self._taken:
            for _ in range(1 if self.streams else len(self._taken)):
                self._taken.popleft().tell()
            self._loop.call_soon(self._turn)  # after all that this turn has let go on
        elif self._waiting:
            self._begin(min(len(self._waiting), BESIDE_STREAMS if self.streams else BATCH))
        else:
            self._turning = False

    def _begin(self, count: int) -> None:
        self._begun = count
        try:
            for _ in range(count):
                self._waiting.popleft()()
        finally:  # whatever became of one, the others have their turn
            self._loop.call_soon(self._turn)


class _Step(Generic[_T]):
    """A step of one request, and who waits for what comes of it."""

    __slots__ = ("_error", "_result", "_take", "done")

    def __init__(self, take: Callable[[], _T], done: asyncio.Future[_T]) -> None:
        self._take = take
        self.done = done
        self._error: Exception | None = None

    def take(self) -> None:
        """Take it; what goes wrong concerns this request alone."""
        try:
            self._result = self._take()
        except Exception as error:  # noqa: BLE001 - told to who waits
            self._error = error

    def tell(self) -> None:
        """Let the request go on, unless it has been given up."""
        if self.done.done():
            return
        if self._error is None:
            self.done.set_result(self._result)
        else:
            self.done.set_exception(self._error)


_STARTS: Final[WeakKeyDictionary[ServerState, Starts]] = WeakKeyDictionary()
"""Those of each server."""


def starts_of(server: ServerState, loop: asyncio.AbstractEventLoop) -> Starts:
    """Those of a server."""
    return _STARTS.setdefault(server, Starts(loop))
