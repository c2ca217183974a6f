from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING

from gateway.core.plan import Limits, Plan, Wanted
from gateway.runtime.agreed import Agreed, Agreements, _Shared

if TYPE_CHECKING:
    import pytest

PLANS = {"org/Tiny": Plan({"chat": frozenset({"a"})}, {"a": 3}, since=12.0)}


def three(**given: int) -> tuple[Agreements, list[Agreed]]:
    agreements = Agreements(3, **given)
    return agreements, [agreements.of(number, now) for number, now in enumerate((11.0, 10.0, 12.0))]


def asks(in_flight: float, target: str = "org/Tiny") -> dict[str, tuple[Wanted, ...]]:
    return {target: (Wanted("chat", Limits(), {"math": in_flight / 2}, in_flight),)}


def test_the_oldest_worker_plans() -> None:
    agreements, workers = three()
    assert [one.leads for one in workers] == [False, True, False]
    agreements.clear(1)
    assert [one.leads for one in (workers[0], workers[2])] == [True, False]
    anew = agreements.of(1, 20.0)
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
    agreements.of(1, 20.0).asked(asks(1.0))
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
