from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING

from gateway.core.plan import Limits, Plan, Wanted
from gateway.runtime.agreed import SILENT_SECONDS, Agreed, Agreements, _Shared

if TYPE_CHECKING:
    import pytest

PLANS = {"org/Tiny": Plan({"chat": frozenset({"a"})}, {"a": 3}, since=12.0)}
OTHER = {"org/Tiny": Plan({"chat": frozenset({"b"})}, {"b": 3}, since=13.0)}


class Clock:
    """A time that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def three(**given: int) -> tuple[Agreements, list[Agreed]]:
    agreements, workers = Agreements(3, **given), []
    for number, CLOCK.now in enumerate((11.0, 10.0, 12.0)):
        workers.append(agreements.of(number, CLOCK))
    return agreements, workers


def asks(in_flight: float, target: str = "org/Tiny") -> dict[str, tuple[Wanted, ...]]:
    return {target: (Wanted("chat", Limits(), {"math": in_flight / 2}, in_flight),)}


def test_the_oldest_worker_plans() -> None:
    agreements, workers = three()
    assert [one.leads for one in workers] == [False, True, False]
    agreements.clear(1)
    assert [one.leads for one in (workers[0], workers[2])] == [True, False]
    CLOCK.now = 20.0
    anew = agreements.of(1, CLOCK)
    assert [one.leads for one in (workers[0], anew, workers[2])] == [True, False, False]


def test_the_others_go_by_what_it_tells() -> None:
    _, (one, two, third) = three()
    assert one.told() == {}
    two.tell(PLANS)
    assert one.told() == third.told() == PLANS
    assert one.told() is one.told()
    two.tell({})
    assert one.told() == {}


def test_what_is_asked_of_all_adds_up() -> None:
    agreements, (one, two, third) = three()
    assert one.asked(asks(3.0)) == asks(3.0)
    assert two.asked(asks(4.0)) == asks(7.0)
    assert third.asked(asks(1.0, "other")) == {**asks(7.0), **asks(1.0, "other")}
    assert one.asked({}) == {**asks(4.0), **asks(1.0, "other")}
    agreements.clear(1)
    assert one.asked(asks(2.0)) == {**asks(2.0), **asks(1.0, "other")}


def test_a_worker_that_takes_the_place_of_a_dead_one_is_heard() -> None:
    agreements, (one, two, _) = three()
    two.asked(asks(4.0))
    agreements.clear(1)
    agreements.of(1, CLOCK).asked(asks(1.0))
    assert one.asked({}) == asks(1.0)


def test_what_is_too_large_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    _, (one, two, _) = three(size=8)
    two.tell(PLANS)
    assert one.told() == {}
    assert "which are too many" in caplog.text


def test_what_is_written_over_while_it_is_read_is_read_the_next_time() -> None:
    memory = memoryview(mmap(-1, 4096))
    writer, reader = _Shared(memory), _Shared(memory)
    writer.put({"a": 1})

    class Overtaken:
        """The head as a reader sees it whom the writer overtakes."""

        looks = 0

        def __getitem__(self, at: int) -> int:
            self.looks += not at
            if self.looks == 2:
                writer.put({"a": 2})
            return int(head[at])

    head, reader._head = reader._head, Overtaken()  # type: ignore[assignment]
    assert reader.get() == {}
    assert reader.get() == {"a": 2}


def test_one_that_stands_still_plans_for_nobody_and_asks_for_nothing() -> None:
    _, (one, two, third) = three()
    two.asked(asks(4.0))
    two.tell(PLANS)
    third.tell(OTHER)
    CLOCK.now += SILENT_SECONDS + 1.0
    assert third.asked(asks(1.0)) == asks(1.0)
    assert [one.leads, third.leads] == [True, True]  # the first was not heard of either
    assert one.asked({}) == asks(1.0)
    assert [one.leads, third.leads] == [True, False]
    assert third.told() == {}
    one.tell(OTHER)
    assert third.told() == OTHER
    two.asked({})
    assert [one.leads, two.leads, third.leads] == [False, True, False]
    assert third.told() == PLANS


def test_what_follows_one_that_is_dead_has_told_what_it_went_by() -> None:
    agreements, (one, two, third) = three()
    two.tell(PLANS)
    one.tell(two.told())
    agreements.clear(1)
    assert third.told() == PLANS
