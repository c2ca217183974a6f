from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from gateway.core.classify import Classification, classify
from gateway.core.features import Features, RequestView, Turn, extract
from gateway.core.policy import ClassifierSettings
from gateway.training import everyday
from gateway.training.examples import NONE, TooFewExamplesError, learn
from gateway.training.score import score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.examples import LearntLabels


def asked(text: str) -> RequestView:
    return RequestView("chat", "m", turns=(Turn("user", text, len(text)),))


class Coder:
    """Takes everything with SELECT for code, and the rest for chat."""

    def labels(self, requests: Sequence[tuple[RequestView, Features]], /) -> list[Classification]:
        return [self.label(view) for view, _ in requests]

    def label(self, view: RequestView) -> Classification:
        code = 0.9 if "SELECT" in view.turns[-1].text else 0.1
        scores = {"code": code, "chat": 1 - code}
        return Classification(max(scores, key=scores.__getitem__), 0.9, "model:test", scores)

    def reasons(self, _view: RequestView, _features: Features, _label: str, /) -> list[str]:
        return []


THINGS = (
    "rent", "loan", "sale", "work", "supply", "licence", "lease", "purchase", "service", "merger", "insurance",
    "repair",
)  # fmt: skip
EXAMPLES = [
    *(
        ("legal", asked(f"Review the termination clause of {whose} {thing} contract."))
        for whose, thing in zip(cycle(("this", "my", "our")), THINGS, strict=False)
    ),
    *(("sql", asked(f"SELECT total FROM {thing} WHERE year = 2020 is slow")) for thing in THINGS),  # noqa: S608 - not run
    *(("chat", asked(f"Tell me something nice about {thing}.")) for thing in THINGS),
]
OTHERS = [asked(text) for text in everyday.requests()]


@pytest.fixture(scope="module")
def learnt() -> LearntLabels:
    return learn(EXAMPLES, OTHERS, Coder()).labels


def found(learnt: LearntLabels, text: str) -> str:
    view = asked(text)
    return classify(view, extract(view), ClassifierSettings(examples=learnt), Coder()).label


def test_labels_of_ones_own_are_learnt_from_a_few_examples(learnt: LearntLabels) -> None:
    assert learnt.names == ("legal", "sql")
    assert found(learnt, "Review the termination clause of my gym contract.") == "legal"
    assert found(learnt, "SELECT total FROM orders WHERE year = 2021 is slow") == "sql"
    assert found(learnt, "Tell me something nice about the weather.") == "chat"


@pytest.mark.parametrize(
    "text", ["Review this poem.", "What is the best SELECTION of teas?", "A year is slow."]
)
def test_a_word_in_common_is_not_enough(learnt: LearntLabels, text: str) -> None:
    assert found(learnt, text) in {"chat", "code"}


def test_the_same_examples_teach_the_same(learnt: LearntLabels) -> None:
    assert learn(EXAMPLES, OTHERS, Coder()).labels == learnt
    assert learn(EXAMPLES + EXAMPLES, OTHERS, Coder()).labels == learnt


def test_what_was_learnt_is_checked_on_what_was_left_out() -> None:
    guesses = learn(EXAMPLES, OTHERS, Coder()).guesses
    assert len(guesses) == len(EXAMPLES) + len(OTHERS)
    assert {guess.truth for guess in guesses} == {"legal", "sql", NONE}
    assert score(guesses).accuracy >= 0.95


def test_others_that_look_like_an_example_are_left_aside() -> None:
    hidden = [asked("Review the termination clause of this boat contract.")]
    assert learn(EXAMPLES, OTHERS + hidden, Coder()).left_aside == {"legal": 1, "sql": 0}


@pytest.mark.parametrize(
    ("examples", "says"),
    [
        ([("chat", asked("hi"))] * 9, "no line has a label of its own"),
        ([("legal", asked("hi"))] * 40, "'legal' has 1 different examples; give it 10 at least"),
        ([("legal", asked(f"hi {n}")) for n in range(9)], "'legal' has 9 different examples"),
    ],
)
def test_too_few_examples_are_refused(examples: list[tuple[str, RequestView]], says: str) -> None:
    with pytest.raises(TooFewExamplesError, match=says):
        learn(examples, OTHERS, Coder())


def test_as_many_as_are_needed_are_enough() -> None:
    examples = [one for one in EXAMPLES if one[0] == "legal"][:10]
    assert learn(examples, OTHERS, Coder()).labels.names == ("legal",)


def test_everyday_requests_are_different_and_in_all_forms() -> None:
    texts = everyday.requests()
    assert len(set(texts)) == len(texts) == 6 * (len(everyday.ABOUT) + len(everyday.PROGRAMS))
    assert all("{" not in text for text in texts)
    assert {topic for topic in everyday.TOPICS if any(topic in text for text in texts)} == set(
        everyday.TOPICS
    )
