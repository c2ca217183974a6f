from __future__ import annotations

from itertools import islice

import pytest

from gateway.core.candidates import Candidate, Candidates, CostPart, Costs
from gateway.core.policy import WeightedScorer
from gateway.core.standing import Standing
from tests.factories import state

SCORERS = (WeightedScorer("preference", 1.0), WeightedScorer("load", 4.0))
COSTS = Costs(
    [Standing(state(name), 0.0, 15.0) for name in "abc"],
    [3.0, 1.0, 2.0],
    [[3.0, 1.0, 0.0], [0.0, 0.0, 0.5]],
    SCORERS,
)
A = Candidate("a", 3.0, (3.0, 0.0), SCORERS)
B = Candidate("b", 1.0, (1.0, 0.0), SCORERS)
C = Candidate("c", 2.0, (0.0, 0.5), SCORERS)


def test_they_come_in_order_with_what_they_cost() -> None:
    found = Candidates(COSTS, [1, 2, 0])
    assert (len(found), [*found], found[1:]) == (3, [B, C, A], (C, A))
    assert (found[0], found[-1]) == (B, A)
    assert found[1].parts == (CostPart("preference", 0.0, 1.0), CostPart("load", 0.5, 4.0))
    with pytest.raises(IndexError):
        found[3]


def test_others_come_after_them_and_are_looked_for_only_then() -> None:
    asked = []

    def others() -> Candidates:
        asked.append(1)
        return Candidates(COSTS, [0])

    found = Candidates(COSTS, [1, 2], others)
    assert (found[0], found[1], next(iter(found)), [*islice(found, 2)]) == (B, C, B, [B, C])
    assert not asked
    assert (len(found), [*found], found[2]) == (3, [B, C, A], A)


def test_they_are_equal_whatever_they_are_made_of() -> None:
    one, same = Candidates(COSTS, [1, 0]), Candidates(COSTS, [1], lambda: [A])
    assert one == same
    assert hash(one) == hash(same)
    assert repr(one) == repr((B, A))
    assert one != Candidates(COSTS, [0, 1])
    assert one != (B, A)
