"""Trained models as package data, and how they are loaded."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from gateway.core.model import Model, TrainedClassifier

FILE: Final = "workload.model"
"""Made by :mod:`gateway.training.train`; described in docs/classifier.md."""


def trained() -> TrainedClassifier:
    """The classifier that is shipped; takes about a millisecond."""
    return TrainedClassifier(Model.from_bytes(files(__package__).joinpath(FILE).read_bytes()))
