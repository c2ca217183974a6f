import pytest

from gateway.runtime import elders
from gateway.runtime.elders import ALIVE_SECONDS, Waits

A, B = ("r", "a", None), ("r", "b", None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets."""
    now = [100.0]
    monkeypatch.setattr(elders.clock, "monotonic", lambda: now[0])
    return now


def test_who_waits_for_longer_in_another_worker_is_before(clock: list[float]) -> None:
    waits = Waits(3)
    one, two, three = (waits.of(number) for number in range(3))
    two.tell(A, 90.0)
    assert one.before(A, 91.0)
    assert three.before(A, 91.0)
    assert not one.before(A, 90.0)
    assert not one.before(B, 91.0)
    assert not two.before(A, 91.0)
    two.tell(A, 0.0)
    assert not one.before(A, 91.0)
    assert clock == [100.0]


def test_a_worker_that_stands_still_is_before_nobody(clock: list[float]) -> None:
    waits = Waits(2)
    one, two = waits.of(0), waits.of(1)
    two.tell(A, 90.0)
    clock[0] += 1.5 * ALIVE_SECONDS
    assert not one.before(A, 95.0)
    two.beat()
    assert one.before(A, 95.0)


def test_places_are_used_again_and_kinds_beyond_them_are_not_told(clock: list[float]) -> None:
    waits = Waits(2, most=2)
    one, two = waits.of(0), waits.of(1)
    for number in range(5):
        two.tell(number, clock[0])
        two.tell(number, 0.0)
    for number in range(3):
        two.tell(number, clock[0])
    assert [one.before(number, clock[0] + 1.0) for number in range(3)] == [True, True, False]
    two.tell(2, 0.0)
    two.tell(0, 0.0)
    two.tell(2, clock[0])
    assert [one.before(number, clock[0] + 1.0) for number in range(3)] == [False, True, True]


def test_of_one_that_takes_the_place_of_a_dead_one_nobody_waits_yet(clock: list[float]) -> None:
    waits = Waits(2)
    one = waits.of(0)
    waits.of(1).tell(A, 90.0)
    anew = waits.of(1)
    anew.beat()
    assert not one.before(A, 95.0)
    anew.tell(B, clock[0])
    assert not one.before(A, 105.0)
    assert one.before(B, 105.0)
