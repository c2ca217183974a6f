from __future__ import annotations

import pytest

from gateway.core import scorers
from gateway.policy.registry import SCORERS


def test_every_scorer_of_the_core_has_a_name_a_summary_and_words() -> None:
    assert {name: entry.cost for name, entry in SCORERS.items()} == dict(scorers.SCORERS)
    assert all(entry.summary for entry in SCORERS.values())


@pytest.mark.parametrize(
    ("scorer", "cost", "words"),
    [
        ("preference", 0.0, "first choice"),
        ("preference", 2.0, "third choice"),
        ("preference", 3.0, "choice 4"),
        ("load", 0.0, "idle"),
        ("load", 0.625, "at 62% of its in-flight limit"),
    ],
)
def test_a_cost_is_said_in_words(scorer: str, cost: float, words: str) -> None:
    assert SCORERS[scorer].say(cost) == words
