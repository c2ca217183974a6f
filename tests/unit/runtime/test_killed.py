"""Workers that are killed at any line of what they write into memory that all share."""

from __future__ import annotations

import os
import signal
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from gateway.core.plan import Limits, Plan, Wanted
from gateway.runtime import agreed, clock, elders, notes, tallies
from gateway.runtime.agreed import Agreements
from gateway.runtime.elders import Waits
from gateway.runtime.notes import Notebooks
from gateway.runtime.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""The children do nothing that could wait for a lock of another thread."""

WRITERS = {module.__file__ for module in (agreed, elders, notes, tallies)}
NAMES = "abcdefgh"


def killed(write: Callable[[], object], line: int) -> bool:
    """Have a process write that is killed before so many lines of the writers; whether it came so far."""
    pid = os.fork()
    if not pid:
        left = line

        def each(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
            nonlocal left
            if frame.f_code.co_filename not in WRITERS:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return each

        try:
            sys.settrace(each)
            write()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def at_every_line(check: Callable[[int], bool]) -> int:
    """Check with one line more each time, until the process was not killed; how many there were."""
    line = 0
    while check(line):
        line += 1
    return line


def test_what_is_open_is_right_again_once_the_dead_are_cleared() -> None:
    draw, seen = Random(1), 0  # noqa: S311 - not for secrets

    def check(line: int) -> bool:
        nonlocal seen
        memory = Tallies(3, most=4)
        one, two = memory.of(0), memory.of(2)
        early, between = draw.random() < 0.5, draw.random() < 0.5
        told = [(draw.choice(NAMES), draw.randrange(3)) for _ in range(40)]

        def write() -> None:
            other = memory.of(1)
            for name, count in told:
                other.put(name, count)

        two.put("a", 5)
        if early:
            one.changes()
        went_on = killed(write, line)
        if between:
            one.changes()
            seen += any(one.elsewhere(name) for name in NAMES[1:])
            assert all(0 <= one.elsewhere(name) <= 2 + 5 * (name == "a") for name in NAMES)
        memory.clear(1)
        one.changes()
        assert {name: one.elsewhere(name) for name in NAMES} == dict.fromkeys(NAMES, 0) | {"a": 5}
        again = memory.of(1)
        for count, name in enumerate("bdfh", 1):
            again.put(name, count)
        for reader in (one, memory.of(0)):
            reader.changes()
            assert [reader.elsewhere(name) for name in NAMES] == [5, 1, 0, 2, 0, 3, 0, 4]
        return went_on

    assert at_every_line(check) > 200
    assert seen


def test_no_half_of_a_note_is_read() -> None:
    def check(line: int) -> bool:
        memory = Notebooks(2, kept=4)
        reader = memory.of(0)

        def write(first: int = 1) -> None:
            other = memory.of(1)
            for number in range(first, first + 9):
                other.leave((number, number, number, number))

        went_on = killed(write, line)
        found = [*reader.news()]
        assert all(len({*note}) == 1 for note in found)
        write(100)
        later = [*reader.news(), *memory.of(0).news()]
        assert later == [(number,) * 4 for number in (106, 107, 108)] * 2
        return went_on

    assert at_every_line(check) > 50


def test_what_is_asked_and_planned_is_the_old_or_the_new() -> None:
    small, large = asks(1.0), asks(2.0) | asks(3.0, "org/Another")
    plans = {"org/Tiny": Plan({"chat": frozenset({"a"})}, {"a": 3}, since=12.0)}, {}

    def check(line: int) -> bool:
        memory = Agreements(2, size=4096)
        first, two = memory.of(0), memory.of(1)

        def write() -> None:
            for _ in range(3):
                for asked, plan in zip((small, large), plans, strict=True):
                    first.asked(asked)
                    first.tell(plan)

        went_on = killed(write, line)
        assert two.asked({}) in ({}, small, large)
        assert two.told() in plans
        memory.clear(0)
        assert two.leads
        assert two.asked({}) == two.told() == {}
        again = memory.of(0)
        again.asked(large)
        assert two.asked({}) == large
        return went_on

    assert at_every_line(check) > 100


def asks(in_flight: float, target: str = "org/Tiny") -> dict[str, tuple[Wanted, ...]]:
    return {target: (Wanted("chat", Limits(), {"math": in_flight}, in_flight),)}


def test_nobody_is_waited_for_in_one_that_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])

    def check(line: int) -> bool:
        now[0] = 10.0
        memory = Waits(2, most=3)
        reader = memory.of(0)

        def write() -> None:
            other = memory.of(1)
            for turn in range(12):
                other.tell("abcd"[turn % 4], 5.0 + turn)
                other.tell("abcd"[(turn + 2) % 4], 0.0)

        went_on = killed(write, line)
        assert not any(reader.before(kind, 4.0) for kind in "abcd")
        now[0] += elders.ALIVE_SECONDS + 0.1
        assert not any(reader.before(kind, 99.0) for kind in "abcd")
        again = memory.of(1)
        again.tell("c", 6.0)
        assert [reader.before(kind, 99.0) for kind in "abcd"] == [False, False, True, False]
        return went_on

    assert at_every_line(check) > 100
