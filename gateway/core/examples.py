"""Labels of the operator's own that were learnt from examples: one linear yes or no for each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from gateway.core import grams

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gateway.core.features import RequestView
    from gateway.core.grams import Grams

BITS: Final = 12
"""Fewer buckets than the shipped model has: there are fewer examples to tell them apart."""

FORMAT: Final = 1
SURE: Final = 0.5
"""Probability from which a label is given."""

_FOLD: Final = grams.BITS - BITS


class UnusableExamplesError(ValueError):
    """A file that holds no learnt labels, or those of another version."""


def folded(read: Grams) -> Grams:
    """The same words in fewer buckets."""
    return grams.Grams(read.buckets >> _FOLD, read.weights)


@dataclass(frozen=True, slots=True, eq=False)
class LearntLabels:
    """Weights of each label.

    Attributes:
        names: The labels.
        weights: A row for each bucket, a column for each label.
        biases: One for each label.
    """

    names: tuple[str, ...]
    weights: NDArray[np.float64]
    biases: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        """Whether both give the same labels; arrays by themselves do not say so in one word."""
        return (
            isinstance(other, LearntLabels)
            and self.names == other.names
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.biases, other.biases)
        )

    def __hash__(self) -> int:
        """Of the names; equal labels have equal ones."""
        return hash(self.names)

    def best(self, view: RequestView) -> tuple[str, float] | None:
        """The likeliest of the labels with its probability, if it is likely enough."""
        read = folded(grams.read(view))
        odds = read.weights @ self.weights[read.buckets] + self.biases
        at = int(odds.argmax())
        probability = 1 / (1 + exp(min(max(-float(odds[at]), -30.0), 30.0)))
        return (self.names[at], probability) if probability >= SURE else None

    def to_json(self) -> str:
        """The labels as a file."""
        labels = {
            name: {
                "bias": round(float(self.biases[at]), 5),
                "buckets": {
                    str(bucket): round(float(self.weights[bucket, at]), 5)
                    for bucket in np.flatnonzero(np.abs(self.weights[:, at]) > 1e-4).tolist()
                },
            }
            for at, name in enumerate(self.names)
        }
        return json.dumps({"format": FORMAT, "bits": BITS, "labels": labels}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what :meth:`to_json` wrote.

        Raises:
            UnusableExamplesError: It is something else.
        """
        try:
            read = json.loads(text)
            made_for, labels = (read["format"], read["bits"]), dict[str, Any](read["labels"])
            weights = np.zeros((2**BITS, len(labels)))
            for at, label in enumerate(labels.values()):
                for bucket, weight in label["buckets"].items():
                    weights[int(bucket), at] = float(weight)
            biases = np.array([float(label["bias"]) for label in labels.values()])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise UnusableExamplesError(f"no labels learnt from examples: {error!r}") from error
        if made_for != (FORMAT, BITS) or not labels:
            raise UnusableExamplesError("made by another version, or without labels")
        return cls(tuple(labels), weights, biases)
