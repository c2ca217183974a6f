"""Lets heavy work through a little at a time, so that no stream waits long for its next bytes."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, proxy

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")
Work: TypeAlias = "Callable[[Sequence[A]], Sequence[B]]"

BATCH: Final = 16
"""What is let through in one turn of the loop where no stream has to wait for it; beside streams it is one
thing. What one request does right after another finds its code and data in the CPU's caches, which takes a
seventh to a fifth off a small one."""


class Turnstile:
    """What is to be done, in the order in which it came; what has begun goes on before anything else begins.

    Attributes:
        streams: Those under way.
    """

    __slots__ = ("_begun", "_loop", "_passed", "_shared", "_turning", "_waiting", "streams")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.streams: set[object] = set()
        self._loop = proxy(loop)  # which this would keep for ever where it belongs to it
        self._turning = False
        self._passed = 0  # in the last turn
        self._shared: defaultdict[Work[Any, Any], list[tuple[object, asyncio.Future[Any]]]] = defaultdict(
            list
        )
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
        if self._crowded:
            mine = self._loop.create_future()
            self._begun.append(partial(_let, mine))
            await mine
        elif self.streams:  # and nothing is let through
            self._passed = 1
            self._next()

    async def share(self, work: Work[A, B], one: A) -> B:
        """Have a heavy step done, with what others bring who have come as far, and go on a turn later.

        Args:
            work: Gives what came of each of some things. Where it raises, it is called for each alone.
            one: What is mine.
        """
        if self._crowded:
            mine: asyncio.Future[B] = self._loop.create_future()
            self._begun.append(partial(self._join, work, one, mine))
            return await mine
        await self.turn()
        [found] = work([one])
        await self.turn()
        return found

    @property
    def _crowded(self) -> bool:
        """Whether others are to have their turn before something that comes now."""
        return self._turning and bool(self.streams or self._passed > 1 or self._begun or self._waiting)

    def _join(self, work: Work[Any, Any], one: object, mine: asyncio.Future[Any]) -> None:
        if not self._shared[work]:
            self._loop.call_soon(self._do, work)  # after all that this turn lets bring theirs
        self._shared[work].append((one, mine))

    def _do(self, work: Work[Any, Any]) -> None:
        self._share(work, [(one, mine) for one, mine in self._shared.pop(work) if not mine.done()])

    def _share(self, work: Work[Any, Any], shares: Sequence[tuple[object, asyncio.Future[Any]]]) -> None:
        try:
            found = work([one for one, _ in shares])
        except Exception as error:  # noqa: BLE001 - who waits for it has it raised
            if len(shares) > 1:
                for share in shares:
                    self._share(work, [share])
            else:
                self._begun.append(partial(_fail, shares[0][1], error))
            return
        self._begun.extend([partial(_let, mine, what) for (_, mine), what in zip(shares, found, strict=True)])

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


def _let(future: asyncio.Future[T | None], result: T | None = None) -> None:
    if not future.done():  # it may have been given up
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


_TURNSTILES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turnstile]] = WeakKeyDictionary()


def turnstile_of(loop: asyncio.AbstractEventLoop) -> Turnstile:
    """The one of a loop."""
    return _TURNSTILES.setdefault(loop, Turnstile(loop))
