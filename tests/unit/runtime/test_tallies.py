from __future__ import annotations

import os

import pytest

from gateway.runtime.tallies import Tallies

forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""The child does nothing that could wait for a lock of another thread."""


def told(changes: object) -> dict[int, int]:
    assert isinstance(changes, dict)
    return {key: by for key, by in changes.items() if by}


def test_workers_tell_each_other_what_they_have_open() -> None:
    tallies = Tallies(3)
    one, two, three = (tallies.of(number) for number in range(3))
    one.put("a", 2)
    two.put("a", 1)
    two.put("b", 4)
    assert told(three.changes()) == {hash("a"): 3, hash("b"): 4}
    assert (three.elsewhere("a"), three.elsewhere("b"), three.elsewhere("c")) == (3, 4, 0)
    assert told(one.changes()) == {hash("a"): 1, hash("b"): 4}
    two.put("b", 1)
    assert told(three.changes()) == {hash("b"): -3}
    assert three.changes() == {}
    assert three.elsewhere("b") == 1


def test_what_is_this_workers_own_is_not_elsewhere() -> None:
    tally = Tallies(1).of(0)
    tally.put("a", 2)
    assert tally.changes() == {}
    assert tally.elsewhere("a") == 0


def test_a_dead_worker_has_nothing_open() -> None:
    tallies = Tallies(2)
    one, two = tallies.of(0), tallies.of(1)
    two.put("a", 2)
    two.put("b", 1)
    one.changes()
    tallies.clear(1)
    assert told(one.changes()) == {hash("a"): -2, hash("b"): -1}
    assert one.elsewhere("a") == 0


def test_one_that_takes_its_place_tells_anew() -> None:
    tallies = Tallies(2)
    one, two = tallies.of(0), tallies.of(1)
    two.put("a", 2)
    two.put("b", 1)
    one.changes()
    tallies.clear(1)
    tallies.of(1).put("b", 5)
    assert told(one.changes()) == {hash("a"): -2, hash("b"): 4}


def test_backends_on_which_nothing_is_open_make_room_for_others() -> None:
    tallies = Tallies(2, most=2)
    one, two = tallies.of(0), tallies.of(1)
    for name in "abcdefg":
        two.put(name, 1)
        assert told(one.changes()) == {hash(name): 1}
        two.put(name, 0)
        assert told(one.changes()) == {hash(name): -1}
    two.put("x", 1)
    two.put("y", 1)
    assert told(one.changes()) == {hash("x"): 1, hash("y"): 1}
    two.put("g", 9)  # another has its place by now, and there is no room
    assert told(one.changes()) == {}


def test_backends_beyond_the_room_are_known_to_their_worker_alone() -> None:
    tallies = Tallies(2, most=2)
    one, two = tallies.of(0), tallies.of(1)
    for name in "abc":
        two.put(name, 1)
    assert told(one.changes()) == {hash("a"): 1, hash("b"): 1}
    two.put("a", 0)
    two.put("c", 3)
    assert told(one.changes()) == {hash("a"): -1, hash("c"): 3}


def test_the_places_of_dead_workers_are_used_again() -> None:
    tallies = Tallies(2, most=2)
    one = tallies.of(0)
    for turn in range(3):
        two = tallies.of(1)
        for name in (f"a{turn}", f"b{turn}"):
            two.put(name, 1)
        one.changes()
        assert (one.elsewhere(f"a{turn}"), one.elsewhere(f"b{turn}")) == (1, 1)
        tallies.clear(1)
    one.changes()
    assert one.elsewhere("a2") == 0


@forks
def test_processes_that_were_forked_share_it() -> None:
    tallies = Tallies(2)
    pid = os.fork()
    if not pid:
        tallies.of(1).put("a", 7)
        os._exit(0)
    os.waitpid(pid, 0)
    one = tallies.of(0)
    assert told(one.changes()) == {hash("a"): 7}


def test_what_changed_often_in_between_is_read_whole() -> None:
    tallies = Tallies(2)
    one, two = tallies.of(0), tallies.of(1)
    two.put("a", 3)
    for turn in range(200):
        two.put(f"b{turn % 5}", turn)
    assert told(one.changes()) == {
        hash("a"): 3,
        **{hash(f"b{number}"): 195 + number for number in range(5)},
    }


@forks
def test_what_changes_while_it_is_read_is_read_again() -> None:
    tallies, names = Tallies(2), [f"b{number}" for number in range(9)]
    pid = os.fork()
    if not pid:
        two = tallies.of(1)
        for turn in range(50_000):
            two.put(names[turn * turn % 9], turn % 7)
        for number, name in enumerate(names):
            two.put(name, number)
        os._exit(0)
    one, reads = tallies.of(0), 0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        reads += bool(one.changes())
    one.changes()
    assert [one.elsewhere(name) for name in names] == [*range(9)]
    assert reads
