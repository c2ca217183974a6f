"""Carries a plan out: server after server, round after round, until it is done or the budget is spent."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from backends.sweep.model import BASELINE, Cell, Round
from backends.sweep.servers import NoServerError
from backends.sweep.stall import DeadServerError, StalledServerError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from backends.sweep.drive import Driver
    from backends.sweep.log import Log, Read
    from backends.sweep.model import Candidate, Condition, Sample
    from backends.sweep.plan import Plan
    from backends.sweep.servers import Servers
    from backends.sweep.virtual import VirtualServers

    Keep: TypeAlias = Callable[[Sample], None]
    Measure: TypeAlias = Callable[[Cell, int, int, Keep], Awaitable[Round]]
    """Makes one round: the cell, which round, how many requests count, what is given each request."""

DEATHS: Final = 2
"""Times that a server may die in one cell before the cell is given up."""


DEATHS_IN_A_ROW: Final = 4
"""Times that it may die without a round in between before all of its cells are given up."""

_HANG: Final = DEATHS
"""Deaths that a hang counts as: it takes minutes to tell, and comes again in the same place."""


class NoBaselineError(RuntimeError):
    """The server without speculation cannot be had, so nothing can be compared; the text says why."""


class Bench(Protocol):
    """Where candidates are measured."""

    def at(self, candidate: Candidate) -> AbstractAsyncContextManager[Measure]:
        """A candidate's server, ready to be measured; raises NoServerError where there is none."""
        ...


async def _untold(_: Candidate) -> None:
    """The memory of servers of which nothing tells it."""


class RealBench:
    """Servers that answer over HTTP."""

    def __init__(
        self,
        servers: Servers,
        driver: Driver,
        memory: Callable[[Candidate], Awaitable[float | None]] = _untold,
    ) -> None:
        """Join servers with what makes requests at them.

        Args:
            servers: Give a server for a candidate.
            driver: Makes the requests.
            memory: MiB in use on the GPUs of a candidate's server, None where nothing tells.
        """
        self._servers = servers
        self._driver = driver
        self._memory = memory

    @contextlib.asynccontextmanager
    async def at(self, candidate: Candidate) -> AsyncIterator[Measure]:
        """A candidate's server; each condition is warmed up before its first round there."""
        warm: set[Condition] = set()
        async with self._servers.open(candidate) as place:

            async def measure(cell: Cell, number: int, requests: int, keep: Keep) -> Round:
                if cell.condition not in warm:
                    await self._driver.warm(place, cell.condition)
                    warm.add(cell.condition)
                finished = await self._driver.round(place, cell, number, requests, keep)
                return replace(finished, memory=await self._memory(candidate))

            yield measure


class VirtualBench:
    """Simulated servers in virtual time."""

    def __init__(self, servers: VirtualServers) -> None:
        """Name the servers.

        Args:
            servers: Of one target.
        """
        self._servers = servers

    @contextlib.asynccontextmanager
    async def at(self, candidate: Candidate) -> AsyncIterator[Measure]:
        """A candidate's server."""
        if not self._servers.has(candidate):
            raise NoServerError(f"nothing is known of {candidate.label}")

        async def measure(cell: Cell, number: int, requests: int, keep: Keep) -> Round:
            await asyncio.sleep(0)  # no time passes here; whoever interrupts must be heard all the same
            finished, samples = self._servers.measure(cell, number, requests)
            for one in samples:
                keep(one)
            return finished

        yield measure


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is.

    Attributes:
        doing: What it does now, in words.
        rounds: Rounds made.
        left: Rounds that are surely still to come.
        seconds_left: What these will take, by the rounds so far; None before the first.
        grid: Rounds that the full grid would take.
    """

    doing: str
    rounds: int
    left: int
    seconds_left: float | None
    grid: float


@dataclass
class Sweep:
    """One run of a plan. Its results are the plan's.

    Attributes:
        clock: Seconds of some clock.
        budget: Seconds that the whole sweep may take, earlier runs included.
        tell: Told of every step.
    """

    plan: Plan
    bench: Bench
    log: Log
    clock: Callable[[], float]
    budget: float = float("inf")
    tell: Callable[[Progress], None] = lambda _: None
    failures: dict[str, str] = field(default_factory=dict)
    _spent: float = 0.0
    _deaths: Counter[Cell] = field(default_factory=Counter)
    _in_a_row: Counter[Candidate] = field(default_factory=Counter)

    def resume(self, read: Read) -> None:
        """Take in what an earlier run left."""
        for finished, samples in read.rounds:
            self.plan.results.add(finished, samples)
            self._spent += finished.seconds

    async def run(self) -> bool:
        """Measure until the plan is done. Tells whether it is; False where the budget ended first.

        Raises:
            NoBaselineError: Nothing can be compared.
            backends.sweep.log.DiskError: What is measured cannot be kept.
        """
        while (candidate := self.plan.visit()) is not None:
            if self._spent >= self.budget:
                return False
            await self._visit(candidate)
            if BASELINE in self.plan.failed and not self._has_baseline():
                raise NoBaselineError(self.failures[BASELINE.label])
        return True

    def _has_baseline(self) -> bool:
        return any(self.plan.results.get(Cell(BASELINE, one)) is not None for one in self.plan.conditions)

    async def _visit(self, candidate: Candidate) -> None:
        self._say(f"{candidate.label}: waiting for its server")
        began = self.clock()
        try:
            async with self.bench.at(candidate) as measure:
                while (condition := self.plan.next_round(candidate)) is not None:
                    if self._spent + self.clock() - began >= self.budget:
                        break
                    await self._round(measure, Cell(candidate, condition))
        except NoServerError as error:
            self._give_up(candidate, str(error))
        except StalledServerError:
            self._say(f"{candidate.label}: its server hung, and is left")
        except DeadServerError:
            self._say(f"{candidate.label}: its server died, and is started again")
        finally:
            self._spent += self.clock() - began

    async def _round(self, measure: Measure, cell: Cell) -> None:
        number = self.plan.results.next_number(cell)
        self._say(f"{cell.candidate.label}: {cell.condition.label}, round {number + 1}")
        samples: list[Sample] = []

        def keep(one: Sample) -> None:
            self.log.sample(one)
            samples.append(one)

        try:
            finished = await measure(cell, number, self.plan.settings.of_round(cell.condition), keep)
        except DeadServerError as error:
            self.log.broken(cell, number, str(error))
            hung = isinstance(error, StalledServerError)
            self._deaths[cell] += _HANG if hung else 1
            self._in_a_row[cell.candidate] += _HANG if hung else 1
            if self._in_a_row[cell.candidate] >= DEATHS_IN_A_ROW:
                how = "hung again," if hung else "died again and again"
                self._give_up(cell.candidate, f"its server {how} without a round in between: {error}")
            elif self._deaths[cell] >= DEATHS:
                how = "hung" if hung else f"died {DEATHS} times"
                self._give_up(cell, f"its server {how}: {error}")
            raise
        del self._in_a_row[cell.candidate]
        self.log.round(finished)
        self.plan.results.add(finished, samples)

    def _give_up(self, what: Candidate | Cell, why: str) -> None:
        name = f"{what.candidate.label} {what.condition.label}" if isinstance(what, Cell) else what.label
        self.plan.failed.add(what)
        self.failures[name] = why
        self.log.failed(name, why)
        self._say(f"{name}: given up: {why}")

    def _say(self, doing: str) -> None:
        rounds, left = self.plan.results.total_rounds, self.plan.left_rounds()
        seconds_left = None if not rounds else left * self._seconds() / rounds
        self.tell(Progress(doing, rounds, left, seconds_left, self.plan.grid_rounds()))

    def _seconds(self) -> float:
        """Time spent so far, waiting for servers included."""
        return max(self._spent, self.plan.results.seconds)
