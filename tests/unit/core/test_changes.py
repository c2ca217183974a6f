from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.changes import changes


@given(st.integers(1, 100), st.sets(st.integers(0, 99)))
def test_the_places_of_other_objects_are_found(length: int, places: set[int]) -> None:
    before = [object() for _ in range(length)]
    after = [object() if at in places else one for at, one in enumerate(before)]
    assert changes(before, after) == sorted(at for at in places if at < length)
    assert changes((*before,), (*after,)) == changes(before, after)


@pytest.mark.parametrize("length", [0, 8, 64])
def test_a_sequence_is_not_another_than_itself(length: int) -> None:
    one = [float("nan")] * length
    assert changes(one, one) == []
