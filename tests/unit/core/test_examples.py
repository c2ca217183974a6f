from __future__ import annotations

import json

import numpy as np
import pytest

from gateway.core import grams
from gateway.core.examples import (
    BITS,
    Head,
    LearntLabels,
    UnusableExamplesError,
    folded,
    likeness,
    rounded,
    shared,
)
from gateway.core.features import WORKLOADS, RequestView, Turn

EVEN = np.ones(2**BITS, np.float32)
CODE = {"code": 0.9, "chat": 0.1}
CHAT = {"code": 0.1, "chat": 0.9}


def asked(text: str) -> RequestView:
    return RequestView("chat", "m", turns=(Turn("user", text, len(text)),))


def head(text: str, *, bias: float = -4.0, of_code: float = 0.0) -> Head:
    buckets = np.zeros(2**BITS)
    buckets[folded(grams.read(asked(text)), EVEN).buckets] = 2.0
    scores = tuple(of_code * (label == "code") for label in WORKLOADS)
    return Head(rounded(buckets), scores, bias)


def labels() -> LearntLabels:
    return LearntLabels(
        {"legal": head("contract clause"), "sql": head("select from", of_code=1.0)}, rounded(EVEN)
    )


def test_words_and_what_the_classifier_says_speak_for_a_label() -> None:
    found = labels().odds(asked("select from"), CODE)
    assert found["sql"] > 0 > found["legal"]
    assert found["sql"] > labels().odds(asked("select from"), CHAT)["sql"]
    assert max(labels().odds(asked(""), CHAT).values()) < 0


def test_all_labels_together_have_probability_one() -> None:
    found = labels().beside(asked("select from"), CODE)
    assert sum(found.values()) == pytest.approx(1)
    assert set(found) == {"legal", "sql", "code", "chat"}
    assert found["code"] / found["chat"] == pytest.approx(9)


def test_the_odds_of_one_label_are_against_all_others() -> None:
    assert shared({"sql": 0.0}, CODE) == pytest.approx({"sql": 0.5, "code": 0.45, "chat": 0.05})
    assert shared({"sql": 1e9, "legal": 1e9}, CODE)["sql"] == pytest.approx(0.5)


def test_rare_words_count_more() -> None:
    rarity = EVEN.copy()
    read = folded(grams.read(asked("common rare")), EVEN)
    rarity[read.buckets[0]] = 0.1
    found = folded(grams.read(asked("common rare")), rarity)
    assert float(found.weights @ found.weights) == pytest.approx(1)
    assert found.weights[0] < read.weights[0]
    assert found.weights[1] > read.weights[1]


def test_a_label_without_a_probability_counts_as_hardly_any() -> None:
    assert len(likeness({})) == len(WORKLOADS)
    assert likeness({}) == likeness(dict.fromkeys(WORKLOADS, 1e-9))


def test_a_file_holds_what_was_learnt() -> None:
    assert LearntLabels.from_json(labels().to_json()) == labels()


def test_labels_are_equal_if_they_say_the_same() -> None:
    one, same = labels(), labels()
    assert one == same
    assert hash(one) == hash(same)
    assert one != LearntLabels({"legal": one.heads["legal"]}, one.rarity)
    assert one != LearntLabels(one.heads, one.rarity * 2)
    assert one != LearntLabels(one.heads | {"sql": head("other")}, one.rarity)
    assert one != LearntLabels(one.heads | {"sql": head("select from", bias=1.0, of_code=1.0)}, one.rarity)
    assert one != "legal"
    assert one.heads["sql"] != "sql"
    assert hash(one.heads["sql"]) == hash(same.heads["sql"])


def test_nothing_is_rounded_to_nothing() -> None:
    assert not rounded(np.zeros(2**BITS)).any()


WHOLE = json.loads(labels().to_json())
LABEL = WHOLE["labels"]["sql"]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "[" * 100_000,
        *(
            json.dumps(WHOLE | changed)
            for changed in (
                {"format": 1}, {"bits": 12}, {"labels": {}}, {"labels": 3}, {"labels": {"sql": 3}},
                {"rarity": {"unit": 1, "counts": "AAAA"}}, {"rarity": {"unit": 1, "counts": "*"}},
                {"labels": {"sql": LABEL | {"scores": [1, 2]}}}, {"labels": {"sql": LABEL | {"bias": "x"}}},
            )
        ),
    ],
)  # fmt: skip
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(UnusableExamplesError):
        LearntLabels.from_json(text)
