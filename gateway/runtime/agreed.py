"""What the workers of one gateway ask of the fleet together, and the roles that all go by."""

from __future__ import annotations

import logging
import pickle
from mmap import mmap
from typing import TYPE_CHECKING, Any, Final

from gateway.core.demand import together
from gateway.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gateway.core.plan import Plan, Wanted

    Asked = Mapping[str, tuple[Wanted, ...]]

SIZE: Final = 2**20
"""Bytes that a value may take; the plans of a thousand servers take a tenth."""

SILENT_SECONDS: Final = 20.0
"""After so long a worker that says nothing is left out, as one that is stopped: each speaks every 5 s."""

_HEAD: Final = 24
_log = logging.getLogger(__name__)


class _Shared:
    """A value in memory, of one writer. It lies there twice, and the older one is written over."""

    def __init__(self, memory: memoryview) -> None:
        self._head, size = memory[:_HEAD].cast("q"), (len(memory) - _HEAD) // 2
        self._texts = memory[_HEAD : _HEAD + size], memory[_HEAD + size :]
        self._version = 0
        self._value: Mapping[str, Any] = {}

    def put(self, value: Mapping[str, Any]) -> None:
        text, head = pickle.dumps(dict(value)), self._head
        version = head[0] + 1
        if len(text) > len(self._texts[0]):
            _log.warning("other workers are not told of %d bytes, which are too many", len(text))
            return
        self._texts[version % 2][: len(text)] = text
        head[1 + version % 2] = len(text)
        head[0] = version

    def get(self) -> Mapping[str, Any]:
        """The same object until there is another."""
        head = self._head
        version = head[0]
        if version != self._version:
            text = bytes(self._texts[version % 2][: head[1 + version % 2]])
            if head[0] == version:  # else it may be half of another
                self._value, self._version = pickle.loads(text), version  # noqa: S301 - one of us wrote it
        return self._value


class Agreements:
    """The memory.

    The worker that runs longest plans for all: one that was started anew knows little of the servers, and the
    others have seen as much as the oldest once it dies or falls silent.
    """

    def __init__(self, workers: int, size: int = SIZE) -> None:
        """Make it, before the workers are forked.

        Args:
            workers: How many there are.
            size: Bytes that a value may take.
        """
        each, times = _HEAD + 2 * size, 16 * workers
        memory = memoryview(mmap(-1, times + 2 * workers * each))
        numbers = memory[:times].cast("d")
        self._since, self._heard = numbers[:workers], numbers[workers:]
        values = [memory[at : at + each] for at in range(times, len(memory), each)]
        self._asked, self._plans = values[:workers], values[workers:]

    def of(self, worker: int, now: Callable[[], float] = clock.monotonic) -> Agreed:
        """What a worker sees of it that begins now, in monotonic seconds."""
        self._since[worker] = self._heard[worker] = now()
        asked, plans = ([_Shared(one) for one in values] for values in (self._asked, self._plans))
        return Agreed(worker, self._since, self._heard, asked, plans, now)

    def clear(self, worker: int) -> None:
        """A worker is dead, and asks for nothing."""
        self._since[worker] = 0.0
        for values in (self._asked, self._plans):
            _Shared(values[worker]).put({})


class Agreed:
    """What one worker tells the others, and is told."""

    def __init__(
        self,
        worker: int,
        since: Sequence[float],
        heard: memoryview[float],
        asked: Sequence[_Shared],
        plans: Sequence[_Shared],
        now: Callable[[], float],
    ) -> None:
        """Take part.

        Args:
            worker: Which one it is.
            since: When each began, monotonic seconds; 0 for those that do not run.
            heard: When each said last what it is asked for.
            asked: What each is asked for.
            plans: What each goes by.
            now: Monotonic seconds.
        """
        self._worker, self._since, self._heard = worker, since, heard
        self._asked, self._plans = asked, plans
        self._now = now

    @property
    def leads(self) -> bool:
        """Whether this is the worker that plans for all."""
        return self._leader == self._worker

    @property
    def _leader(self) -> int:
        return min((self._since[at], at) for at in self._speaking())[1]

    def _speaking(self) -> Iterator[int]:
        """The workers that run and do not stand still, this one among them."""
        heard = self._now() - SILENT_SECONDS
        for at, since in enumerate(self._since):
            if at == self._worker or (since and self._heard[at] >= heard):
                yield at

    def asked(self, own: Asked) -> Asked:
        """What all workers are asked for, by target, once the others know what this one is."""
        self._asked[self._worker].put(own)
        self._heard[self._worker] = self._now()
        all_ = [self._asked[at].get() for at in self._speaking()]
        return {
            target: together([one[target] for one in all_ if target in one])
            for target in {target: None for one in all_ for target in one}
        }

    def tell(self, plans: Mapping[str, Plan]) -> None:
        """Say what this one goes by, by target, as the others do where it plans."""
        self._plans[self._worker].put(plans)

    def told(self) -> Mapping[str, Plan]:
        """The last plans of the worker that plans, by target."""
        return self._plans[self._leader].get()
