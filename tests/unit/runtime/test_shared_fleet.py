"""Workers that share counts while each takes in other servers at a moment of its own, and some die."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from gateway.core.fleet import STAND_IN
from gateway.core.outcome import Attempt
from gateway.runtime.fleet import Fleet
from gateway.runtime.shared import Memory
from tests.factories import backend

if TYPE_CHECKING:
    from gateway.core.fleet import Backend

WORKERS = 3
ALL = [backend(name, max_in_flight=64) for name in "abcdef"]
BESIDE = [backend(name, method=STAND_IN, max_in_flight=64) for name in "uv"]


def files(draw: Random) -> tuple[list[Backend], list[Backend]]:
    """Servers and stand-ins of a fleet file: some, in another order, some of them changed."""
    servers = draw.sample(ALL, draw.randint(1, len(ALL)))
    changed = [replace(one, url=f"http://{draw.randrange(3)}") for one in servers]
    return changed, draw.sample(BESIDE, draw.randint(0, len(BESIDE)))


class Worker:
    """One of them.

    Attributes:
        open: Its requests that are open, by server.
    """

    def __init__(self, memory: Memory, number: int, draw: Random) -> None:
        servers, beside = files(draw)
        shared = memory.of(number)
        self.fleet = Fleet(servers, "f", tally=shared.tally, elders=shared.elders, stand_ins=beside)
        self.open: Counter[str] = Counter()

    def step(self, draw: Random) -> None:
        names = [state.backend.name for state in self.fleet.snapshot.everybody]
        if draw.random() < 0.1:
            servers, beside = files(draw)
            self.fleet.replace(servers, "g", beside)
        elif draw.random() < 0.5:
            name = draw.choice(names)
            self.fleet.dispatched(name)
            self.open[name] += 1
        else:
            self.end(draw.choice([*self.open.elements()] or [""]))

    def end(self, name: str) -> None:
        """End one of its requests, maybe on a server that its fleet has no more."""
        if name:
            self.fleet.finished(name, Attempt(name, "done", "", 200, 0.0, 1.0))
            self.open -= Counter([name])


@pytest.mark.parametrize("seed", range(20))
def test_all_know_what_all_have_open_whatever_each_has_taken_in(seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - not for secrets
    memory = Memory(WORKERS)
    workers = [Worker(memory, number, draw) for number in range(WORKERS)]
    for _ in range(400):
        at = draw.randrange(WORKERS)
        if draw.random() < 0.02:
            memory.clear(at)
            workers[at] = Worker(memory, at, draw)
        workers[at].step(draw)
        if draw.random() < 0.3:
            one = draw.choice(workers)
            one.fleet.sync()
            there = sum((other.open for other in workers), Counter())
            seen = {state.backend.name: state.in_flight for state in one.fleet.snapshot.everybody}
            assert seen == {name: there[name] for name in seen}
    for one in workers:
        for name in [*one.open.elements()]:
            one.end(name)
    for one in workers:
        one.fleet.sync()
        one.fleet.replace(ALL, "h", BESIDE)
        assert not any(state.in_flight for state in one.fleet.snapshot.everybody)
