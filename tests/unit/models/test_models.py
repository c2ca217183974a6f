from __future__ import annotations

import json
from importlib.resources import files

from gateway import models
from gateway.core.features import RequestView, Turn, extract
from gateway.core.model import Model
from gateway.training.train import VERSION


def shipped() -> bytes:
    return files(models).joinpath(models.FILE).read_bytes()


def test_the_shipped_model_is_small_and_of_this_version() -> None:
    assert len(shipped()) <= 4 * 2**20
    assert json.loads(shipped().partition(b"\n")[0])["version"] == VERSION
    assert Model.from_bytes(shipped()).version == VERSION


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
