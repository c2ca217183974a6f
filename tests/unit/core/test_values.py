from __future__ import annotations

from dataclasses import field, replace

import pytest

from gateway.core.values import value


@value(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    notes: dict[str, str] = field(default_factory=dict, hash=False)


def test_values_are_compared_and_hashed_by_their_fields() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(2, 2)
    assert len({Point(1, 2), Point(1, 2), Point(2, 2)}) == 2
    assert replace(Point(1), y=3) == Point(1, 3)


def test_nothing_can_be_added_to_a_value() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]
