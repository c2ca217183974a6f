from __future__ import annotations

import numpy as np
import pytest

from gateway.core import grams
from gateway.core.examples import BITS, LearntLabels, UnusableExamplesError, folded
from gateway.core.features import RequestView, Turn


def asked(text: str) -> RequestView:
    return RequestView("chat", "m", turns=(Turn("user", text, len(text)),))


def labels() -> LearntLabels:
    weights = np.zeros((2**BITS, 2))
    for at, text in enumerate(("contract clause", "select from")):
        weights[folded(grams.read(asked(text))).buckets, at] = 5.0
    return LearntLabels(("legal", "sql"), weights, np.array([-4.0, -4.0]))


def test_the_likeliest_label_is_given_if_it_is_likely_enough() -> None:
    found = labels().best(asked("select from"))
    assert found is not None
    assert found[0] == "sql"
    assert 0.5 <= found[1] <= 1.0
    assert labels().best(asked("How are you?")) is None
    assert labels().best(asked("")) is None


def test_a_file_holds_what_was_learnt() -> None:
    read = LearntLabels.from_json(labels().to_json())
    assert read.names == ("legal", "sql")
    assert np.array_equal(read.weights, labels().weights)
    assert np.array_equal(read.biases, labels().biases)


def test_labels_are_equal_if_they_say_the_same() -> None:
    one, same = labels(), labels()
    assert one == same
    assert hash(one) == hash(same)
    assert one != LearntLabels(("legal", "code"), one.weights, one.biases)
    assert one != LearntLabels(one.names, one.weights * 2, one.biases)
    assert one != LearntLabels(one.names, one.weights, one.biases + 1)
    assert one != "legal"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "[" * 100_000,
        '{"format": 1, "bits": 12, "labels": {"sql": 3}}',
        '{"format": 1, "bits": 12, "labels": {"sql": {"bias": 0, "buckets": {"99999": 1}}}}',
        '{"format": 1, "bits": 12, "labels": {}}',
        '{"format": 2, "bits": 12, "labels": {"sql": {"bias": 0, "buckets": {}}}}',
    ],
)  # fmt: skip
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(UnusableExamplesError):
        LearntLabels.from_json(text)
