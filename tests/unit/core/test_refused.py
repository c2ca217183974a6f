from __future__ import annotations

import pytest

from gateway.core.refused import (
    FIRST_WAIT,
    LONGEST_WAIT,
    SHAPES,
    TIMES,
    Refused,
    after_refusal,
    after_taken,
    shape_of,
)
from tests.factories import features

SHAPE = shape_of(features())


def test_one_refusal_shows_nothing_yet() -> None:
    assert after_refusal({}, SHAPE, 5.0) == {SHAPE: Refused(1, 0.0)}


def test_from_the_second_on_it_waits_twice_as_long_each_time() -> None:
    known, now, waits = after_refusal({}, SHAPE, 0.0), 0.0, []
    for _ in range(2000):
        known = after_refusal(known, SHAPE, now)
        waits.append(known[SHAPE].until - now)
        now = known[SHAPE].until
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert waits[-1] == LONGEST_WAIT
    assert known[SHAPE].times == TIMES + 1999


def test_those_under_way_at_the_last_refusal_add_nothing() -> None:
    known = {SHAPE: Refused(TIMES, 60.0)}
    assert after_refusal(known, SHAPE, 59.0) is known


def test_one_that_is_taken_ends_it() -> None:
    other = shape_of(features(endpoint="completions"))
    known = {SHAPE: Refused(TIMES, 60.0), other: Refused(1, 0.0)}
    assert after_taken(known, SHAPE) == {other: Refused(1, 0.0)}
    assert after_taken({}, SHAPE) == {}


def test_the_shape_that_was_not_refused_for_longest_gives_way() -> None:
    shapes = [shape_of(features(max_tokens=2**at)) for at in range(5, SHAPES + 6)]
    known = {one: Refused(1, 0.0) for one in shapes[:SHAPES]}
    after = after_refusal(after_refusal(known, shapes[0], 0.0), shapes[-1], 0.0)
    assert set(after) == {*shapes} - {shapes[1]}


@pytest.mark.parametrize(
    "other",
    [
        {"endpoint": "completions"},
        {"parameters": frozenset({"tools"})},
        {"prompt_chars": 400},
        {"max_tokens": 64},
    ],
)
def test_requests_that_differ_in_what_servers_refuse_have_other_shapes(other: dict[str, object]) -> None:
    assert shape_of(features(**other)) != SHAPE


def test_requests_of_about_the_same_length_have_one_shape() -> None:
    assert shape_of(features(prompt_chars=40)) == shape_of(features(prompt_chars=60, temperature=0.5))
