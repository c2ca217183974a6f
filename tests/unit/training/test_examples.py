from __future__ import annotations

import pytest

from gateway.core.features import RequestView, Turn
from gateway.training.examples import OTHER, TooFewExamplesError, cross_validated, learn
from gateway.training.score import score


def asked(text: str) -> RequestView:
    return RequestView("chat", "m", turns=(Turn("user", text, len(text)),))


THINGS = ("rent", "loan", "sale", "work", "supply", "licence", "lease", "purchase", "service", "merger")
EXAMPLES = [
    *(("legal", asked(f"Review the termination clause of this {thing} contract.")) for thing in THINGS),
    *(("sql", asked(f"SELECT total FROM {thing} WHERE year = 2020 is slow")) for thing in THINGS),  # noqa: S608 - not run
    *(("chat", asked(f"Tell me something nice about {thing}.")) for thing in THINGS),
]
OTHERS = [asked(f"What is the history of the {thing}?") for thing in THINGS]


def test_labels_of_ones_own_are_learnt_from_a_few_examples() -> None:
    learnt = learn(EXAMPLES, OTHERS)
    assert learnt.names == ("legal", "sql")
    assert (learnt.best(asked("Is the termination clause of my gym contract valid?")) or ("",))[0] == "legal"
    assert (learnt.best(asked("SELECT price FROM orders WHERE year = 7 is wrong")) or ("",))[0] == "sql"
    assert learnt.best(asked("Tell me something nice about the weather.")) is None


def test_the_same_examples_teach_the_same() -> None:
    assert learn(EXAMPLES, OTHERS).to_json() == learn(EXAMPLES, OTHERS).to_json()


def test_what_was_learnt_is_checked_on_what_was_left_out() -> None:
    guesses = cross_validated(EXAMPLES, OTHERS)
    assert len(guesses) == len(EXAMPLES) + len(OTHERS)
    assert {guess.truth for guess in guesses} == {"legal", "sql", OTHER}
    assert score(guesses).accuracy >= 0.95


@pytest.mark.parametrize(
    ("examples", "says"),
    [
        ([("chat", asked("hi"))] * 9, "no line has a label of its own"),
        ([("legal", asked("hi"))] * 4, "'legal' has 4 examples, 5 are needed"),
    ],
)
def test_too_few_examples_are_refused(examples: list[tuple[str, RequestView]], says: str) -> None:
    with pytest.raises(TooFewExamplesError, match=says):
        learn(examples, OTHERS)
