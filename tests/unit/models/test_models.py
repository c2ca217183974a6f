# ruff: noqa: RUF001 - letters of other alphabets are the subject
from __future__ import annotations

import hashlib
import json
import tracemalloc
from importlib.resources import files
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import models
from gateway.core import grams, signals
from gateway.core.classify import Asked, classify, classify_all
from gateway.core.features import WORKLOADS, RequestView, Tool, Turn, extract
from gateway.core.model import Model
from gateway.core.policy import ClassifierSettings
from gateway.training import corpus
from gateway.training.train import VERSION
from tests.bench import shapes
from tests.bench.classification import parsed
from tests.unit.training.test_apart_from_dev import WRITTEN

FEATURES: Final = "985bb5e8630a5007923c2c6fcf1bdd1ebf20c17c44afdf2cfdb3b25166b49b6d"
"""Of what the shipped model was trained on, as far as it was written for the project. Where the features change, so does
this: train the model anew then (``make model``), for it is to be had again bit for bit from the data."""


def shipped() -> bytes:
    return files(models).joinpath(models.FILE).read_bytes()


def test_the_shipped_model_is_small_and_of_this_version() -> None:
    assert len(shipped()) <= 4 * 2**20
    assert json.loads(shipped().partition(b"\n")[0])["version"] == VERSION
    assert Model.from_bytes(shipped()).version == VERSION


def test_features_are_those_that_the_model_was_trained_with() -> None:
    found = hashlib.sha256()
    for row in corpus.read((), [line for file in WRITTEN for line in corpus.lines(file)], seed=0):
        read = grams.read(row.view)
        found.update(read.buckets.tobytes() + read.weights.tobytes())
        found.update(signals.read(row.features, signals.first_rule(row.features)).tobytes())
    assert found.hexdigest() == FEATURES


def test_the_shipped_classifier_labels_what_anybody_would() -> None:
    classifier = models.trained()
    for text, label in {
        "Write a Python function that merges two sorted lists.": "code",
        "What is the derivative of x^3 + 2x at x = 4?": "math",
        "Any ideas for a birthday party?": "chat",
        "¿Por qué el cielo es azul?": "multilingual",
        "写一个快速排序的Python函数": "code",
    }.items():
        view = RequestView(endpoint="chat", model="m", turns=(Turn("user", text, len(text)),))
        assert classifier.label(view, extract(view)).label == label


ALPHABETS: Final = st.sampled_from(
    [
        "aZ_'`\n 0.,$\\",
        "éß ¿²",
        "Ж їҐ",
        "漢かな 中",
        "한 ",
        "ไท",
        "😀👩\u200d",
        "\ud800\udfff a",
        "İıſK",
        "\x00\x85\u2028",
        "ب א",
        "𝑥𝟙",
    ]
)
BORDERS: Final = st.sampled_from([0, 1, 3, 159, 160, 161, 319, 320, 321, 699, 700, 701, 1099, 1100, 1101])
TEXTS: Final = st.builds(
    lambda alphabets, length, at: ("".join(alphabets) * length)[at : at + length],
    st.lists(ALPHABETS, min_size=1, max_size=3),
    BORDERS,
    st.integers(0, 9),
)
TURNS: Final = st.builds(
    lambda role, text, calls: Turn(role, text, len(text), calls),
    st.sampled_from(["user", "system", "assistant", "tool", "?"]),
    TEXTS | st.text(),
    st.booleans(),
)


@settings(deadline=None)
@given(st.lists(TURNS, max_size=5), st.lists(st.builds(Tool, TEXTS, TEXTS), max_size=2))
def test_every_text_gets_a_label_and_probabilities(turns: list[Turn], tools: list[Tool]) -> None:
    view = RequestView(endpoint="chat", model="m", turns=tuple(turns), tools=tuple(tools))
    features = extract(view)
    found = classify(view, features, ClassifierSettings(), models.trained())
    assert found.label in WORKLOADS
    assert 0 <= found.confidence <= 1 + 1e-9
    assert not found.scores or abs(sum(found.scores.values()) - 1) < 1e-6
    assert models.trained().reasons(view, features, found.label) is not None


def test_what_a_request_is_labelled_does_not_depend_on_those_beside_it() -> None:
    """To the last bit, of requests of all shapes and lengths."""
    views = [
        parsed(shapes.body(shape, chars, shapes.seeded(f"{shape} {chars}")))
        for chars in (20, 300, 900, 5000)
        for shape in shapes.SHAPES
    ]
    asked = [Asked(view, extract(view), ClassifierSettings()) for view in views]
    classifier = models.trained()
    alone = [classify_all([one], classifier)[0] for one in asked]
    assert classify_all(asked, classifier) == alone
    assert len({one.label for one in alone}) > 3


def test_memory_does_not_grow_with_the_conversation() -> None:
    """From the parsed body on: thousands of long turns of every role, none like another."""
    classifier = models.trained()

    def peak(turns: int) -> int:
        said = tuple(
            Turn(role, f"{role} {at} " + "so it goes " * 300, 3300)
            for at in range(turns)
            for role in ("system", "assistant", "tool", "user")
        )
        view = RequestView(endpoint="chat", model="m", turns=said, tools=(Tool("look", "Look at it"),))
        tracemalloc.start()
        classify(view, extract(view), ClassifierSettings(), classifier)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(10)
    assert peak(2000) < 2 * peak(10) + 100_000
