"""Learns labels of the operator's own from a few dozen examples of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gateway.core import grams
from gateway.core.examples import BITS, LearntLabels, folded
from gateway.core.features import WORKLOADS
from gateway.training.score import Guess
from gateway.training.solve import Data, Sparse, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.core.features import RequestView

    Example = tuple[str, RequestView]

FEWEST: Final = 5
"""Examples of a label below which there is nothing to learn from."""

OTHER: Final = "other"
"""What a request is that has none of the labels, in scores."""

_FOLDS: Final = 5
_RIDGE: Final = (3e-4, 1.0)
_STEPS: Final = 40


class TooFewExamplesError(ValueError):
    """Not enough examples of a label, or of none; the message names it."""


def learn(examples: Sequence[Example], others: Sequence[RequestView]) -> LearntLabels:
    """Learns the labels that are not built in.

    Args:
        examples: Labels and requests; those with a built-in label show what the others are not.
        others: Requests that have none of the labels.

    Raises:
        TooFewExamplesError: A label has fewer than :data:`FEWEST` examples, or there is none at all.
    """
    names = sorted({label for label, _ in examples} - set(WORKLOADS))
    counts = {name: sum(label == name for label, _ in examples) for name in names}
    if not names:
        raise TooFewExamplesError("no line has a label of its own")
    for name, count in counts.items():
        if count < FEWEST:
            raise TooFewExamplesError(f"label {name!r} has {count} examples, {FEWEST} are needed")
    views = [view for _, view in examples] + list(others)
    labels = [label for label, _ in examples] + [OTHER] * len(others)
    sparse = Sparse.of([folded(grams.read(view)) for view in views], 2**BITS)
    columns, biases = [], []
    for name in names:
        has = np.array([label == name for label in labels])
        # Between counting each example alike and counting both sides alike.
        weights = np.where(has, (~has).sum() ** 0.5, has.sum() ** 0.5)
        due = np.stack([~has, has], axis=1).astype(np.float64)
        heads = fit(
            Data(sparse, np.zeros((len(views), 0)), weights),
            2,
            lambda found, due=due: ((found * due).sum(axis=1), due),  # type: ignore[misc]
            ridge=_RIDGE,
            steps=_STEPS,
        )
        columns.append(heads.buckets[1] - heads.buckets[0])
        biases.append(heads.bias[1] - heads.bias[0])
    return LearntLabels(tuple(names), np.stack(columns, axis=1), np.array(biases))


def cross_validated(examples: Sequence[Example], others: Sequence[RequestView]) -> list[Guess]:
    """What labels learnt from four fifths say of the last fifth, for each fifth."""
    own = {label for label, _ in examples} - set(WORKLOADS)
    everything = [*examples, *((OTHER, view) for view in others)]
    everything.sort(key=lambda example: example[0])  # so that each fold has its share of every label
    guesses = []
    for fold in range(_FOLDS):
        rest = [one for at, one in enumerate(everything) if at % _FOLDS != fold]
        learnt = learn(
            [one for one in rest if one[0] != OTHER], [view for label, view in rest if label == OTHER]
        )
        for label, view in everything[fold::_FOLDS]:
            name, sure = learnt.best(view) or (OTHER, 1.0)
            guesses.append(Guess(label if label in own else OTHER, name, sure))
    return guesses
