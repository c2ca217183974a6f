from __future__ import annotations

from gateway.runtime.notes import Notebooks


def test_each_reads_what_the_others_note_once() -> None:
    notebooks = Notebooks(3)
    one, two, three = (notebooks.of(number) for number in range(3))
    one.leave((1, 2, 3, 4))
    two.leave((-5, 6, 7, 8))
    two.leave((9, 9, 9, 9))
    assert [*three.news()] == [(1, 2, 3, 4), (-5, 6, 7, 8), (9, 9, 9, 9)]
    assert [*three.news()] == []
    assert [*one.news()] == [(-5, 6, 7, 8), (9, 9, 9, 9)]
    one.leave((0, 0, 0, 1))
    assert [*three.news()] == [(0, 0, 0, 1)]


def test_of_too_many_the_last_are_read() -> None:
    notebooks = Notebooks(2, kept=8)
    one, two = notebooks.of(0), notebooks.of(1)
    for number in range(30):
        one.leave((number, 0, 0, 0))
    read = [note[0] for note in two.news()]
    assert read == [*range(23, 30)]
    one.leave((30, 0, 0, 0))
    assert [*two.news()] == [(30, 0, 0, 0)]


def test_a_note_that_is_written_over_while_it_is_read_is_left_out() -> None:
    notebooks = Notebooks(2, kept=4)
    one, two = notebooks.of(0), notebooks.of(1)
    for number in range(3):
        one.leave((number, 0, 0, 0))
    reading = two.news()
    assert next(reading)[0] == 0
    for number in range(3, 6):
        one.leave((number, 0, 0, 0))
    assert [note[0] for note in reading] == []  # 1 and 2 are gone or may be half of another
    assert [note[0] for note in two.news()] == [3, 4, 5]


def test_a_worker_that_was_started_anew_reads_what_is_there_and_goes_on() -> None:
    notebooks = Notebooks(2)
    one, two = notebooks.of(0), notebooks.of(1)
    one.leave((1, 0, 0, 0))
    two.leave((2, 0, 0, 0))
    assert [*one.news()] == [(2, 0, 0, 0)]
    anew = notebooks.of(1)
    assert [*anew.news()] == [(1, 0, 0, 0)]
    anew.leave((3, 0, 0, 0))
    assert [*one.news()] == [(3, 0, 0, 0)]
