from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gateway.core import grams, signals
from gateway.core.classify import Classification
from gateway.core.features import WORKLOADS, RequestView, Tool, Turn, extract
from gateway.core.model import CONTENTS, Model, TrainedClassifier, UnusableModelError, compose


def model() -> Model:
    """A model that says the same of every request."""
    rows = len(signals.NAMES) + 1
    return Model(
        version="t1",
        table=np.zeros((2**grams.BITS, 8), np.int8),
        scales=np.full(7, 0.5, np.float32),
        weights=np.zeros((rows, 7), np.float32),
        temperatures=(1.0, 1.0),
    )


def asked(text: str, **fields: Any) -> RequestView:
    return RequestView(endpoint="chat", model="m", turns=(Turn("user", text, len(text)),), **fields)


def label(made: Model, text: str, **fields: Any) -> Classification:
    view = asked(text, **fields)
    return TrainedClassifier(made).label(view, extract(view))


def taught(text: str, content: str, worth: int) -> Model:
    """A model for which the words of a text speak for a content."""
    made = model()
    _, buckets = grams.message_words(asked(text))
    made.table[buckets, CONTENTS.index(content)] = worth
    return made


def biased(**bias: float) -> Model:
    made = model()
    for content, worth in bias.items():
        made.weights[-1, -1 if content == "foreign" else CONTENTS.index(content)] = worth
    return made


def test_probabilities_of_all_labels_add_up_to_one() -> None:
    found = label(model(), "hello")
    assert tuple(found.scores) == WORKLOADS
    assert sum(found.scores.values()) == pytest.approx(1.0)
    assert found.confidence == max(found.scores.values())
    assert found.source == "model:t1"


def test_the_words_of_a_message_decide() -> None:
    made = taught("eigenvalue", "math", 100)
    assert label(made, "find the eigenvalue").label == "math"
    assert label(made, "find the keys").scores["math"] < 0.2


def test_a_signal_decides() -> None:
    made = model()
    made.weights[signals.NAMES.index("translation"), CONTENTS.index("translation")] = 9.0
    assert label(made, "Translate to German: good day").label == "multilingual"


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ({"chat": 9.0, "foreign": -9.0}, "chat"),
        ({"chat": 9.0, "foreign": 9.0}, "multilingual"),
        ({"grounded": 9.0, "foreign": -9.0}, "grounded"),
        ({"grounded": 9.0, "foreign": 9.0}, "multilingual"),
        ({"code": 9.0, "foreign": 9.0}, "code"),
        ({"math": 9.0, "foreign": 9.0}, "math"),
        ({"translation": 9.0, "foreign": -9.0}, "multilingual"),
    ],
)
def test_content_and_language_are_told_apart(bias: dict[str, float], expected: str) -> None:
    assert label(biased(**bias), "hello").label == expected


def test_extreme_odds_of_language_are_survived() -> None:
    for odds in (-1e6, 1e6):
        assert 0.0 <= label(biased(chat=9.0, foreign=odds), "hello").confidence <= 1.0


def test_a_higher_temperature_makes_it_less_sure() -> None:
    sure = biased(math=3.0)
    assert label(replace(sure, temperatures=(2.0, 1.0)), "x").confidence < label(sure, "x").confidence


def test_a_certain_rule_stays_first() -> None:
    found = label(biased(math=9.0), "2 + 2", tools=(Tool("calculator"),), tool_choice="required")
    assert (found.label, found.source) == ("tool_use", "rule:forced_tool")


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ({"chat": 1.5, "tool_use": 1.0}, ("tool_use", "rule:tool_name")),
        ({"chat": 1.0, "tool_use": 99.0}, ("tool_use", "rule:tool_name")),
        ({"code": 9.0, "tool_use": 1.0}, ("code", "model:t1")),
    ],
    ids=["not unlikely", "certain", "unlikely"],
)
def test_a_rule_that_sees_a_tool_named_decides_where_a_call_is_not_unlikely(
    bias: dict[str, float], expected: tuple[str, str]
) -> None:
    tools = (Tool("get_weather", "Weather of a city"),)
    found = label(biased(**bias), "What is the weather in Lisbon this week?", tools=tools)
    assert (found.label, found.source) == expected
    assert sum(found.scores.values()) == pytest.approx(1.0)
    # What speeds are weighed by says the same as the label.
    assert found.weights[found.label] == found.confidence == max(found.weights.values())


@pytest.mark.parametrize("text", ["", " \n ", "🙂🎉", "…?!"])
def test_a_request_without_words_gets_no_label_of_its_own(text: str) -> None:
    assert label(biased(math=9.0), text) == Classification("chat", 0.0, "default")


def test_compose_divides_by_language() -> None:
    scores = compose([0.1, 0.1, 0.4, 0.1, 0.1, 0.2], 0.25)
    assert scores == pytest.approx(
        {"math": 0.1, "code": 0.1, "chat": 0.3, "tool_use": 0.1, "multilingual": 0.25, "grounded": 0.15}
    )


def test_a_file_holds_the_whole_model() -> None:
    made = taught("eigenvalue", "math", -7)
    made.weights[3, 2] = 0.25
    read = Model.from_bytes(made.to_bytes())
    assert read.to_bytes() == made.to_bytes()
    assert (read.version, read.temperatures) == (made.version, made.temperatures)
    for name in ("table", "scales", "weights"):
        assert np.array_equal(getattr(read, name), getattr(made, name))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda file: b"", "not a model file"),
        (lambda file: b"[]\n", "not a model file"),
        (lambda file: b"{}\n", "not a model file"),
        (lambda file: file.replace(b'"format": 1', b'"format": 9', 1), "made for"),
        (lambda file: file[:-1], "cut short"),
    ],
)
def test_a_file_of_another_kind_is_refused(change: Any, says: str) -> None:
    with pytest.raises(UnusableModelError, match=says):
        Model.from_bytes(change(model().to_bytes()))


def test_several_requests_get_the_labels_that_each_gets_alone() -> None:
    made = taught("eigenvalue", "math", 100)
    forced = {"tools": (Tool("look_up"),), "tool_choice": "required"}
    views = [
        asked("eigenvalue"),
        asked("Hello"),
        asked("?!"),
        asked("Do it", **forced),
        asked("Bonjour à tous"),
    ]
    requests = [(view, extract(view)) for view in views]
    classifier = TrainedClassifier(made)
    assert classifier.labels(requests) == [classifier.label(*one) for one in requests]
    assert [one.source for one in classifier.labels(requests)][2:4] == ["default", "rule:forced_tool"]
    assert classifier.labels([]) == []


def reasons(made: Model, text: str, wanted: str) -> list[str]:
    view = asked(text)
    return TrainedClassifier(made).reasons(view, extract(view), wanted, count=3)


def test_the_reasons_are_words_of_the_message_and_signals() -> None:
    made = taught("eigenvalue", "math", 100)
    made.weights[signals.NAMES.index("question"), CONTENTS.index("math")] = 9.0
    assert reasons(made, "Which eigenvalue?", "math") == ["“eigenvalue”", "question"]
    assert reasons(made, "Which eigenvalue?", "code") == []


def test_the_reasons_for_another_language_are_those_of_the_language_head() -> None:
    made = model()
    made.weights[signals.LANGUAGE.index("answer not in English"), -1] = 4.0
    assert reasons(made, "Pourquoi le ciel est-il bleu ?", "multilingual") == ["answer not in English"]


def test_a_request_without_words_has_reasons_too() -> None:
    assert reasons(model(), "?!", "chat") == []


def test_for_a_label_of_the_operators_own_nothing_speaks() -> None:
    assert reasons(taught("eigenvalue", "math", 100), "Which eigenvalue?", "legal") == []
