"""Labels of the operator's own, learnt from examples: the probability of each beside the built-in ones."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from gateway.core import grams
from gateway.core.features import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gateway.core.features import RequestView
    from gateway.core.grams import Grams

BITS: Final = 15
"""Fewer buckets than the shipped model has: there are fewer examples to tell them apart."""

FORMAT: Final = 3

LEAST: Final = 1e-3
"""Probability of a built-in label below which all count alike."""

_FOLD: Final = grams.BITS - BITS
_LARGEST: Final = 127
_STEEPEST: Final = 30.0


class UnusableExamplesError(ValueError):
    """A file that holds no learnt labels, or those of another version."""


def folded(read: Grams, rarity: NDArray[np.float32]) -> Grams:
    """The same words in fewer buckets, each counting by how rare it is; the squares add up to one."""
    buckets = read.buckets >> _FOLD
    weights = read.weights * rarity[buckets]
    return grams.Grams(buckets, weights / max(float(np.linalg.norm(weights)), 1e-9))


def likeness(scores: Mapping[str, float]) -> list[float]:
    """What the classifier says of a request, as features: the logarithm of each label's probability."""
    return [log(max(scores.get(label, 0.0), LEAST)) for label in WORKLOADS]


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Weights of one label.

    Attributes:
        buckets: One for each bucket of words.
        scores: One for each of :func:`likeness`.
        bias: What is added.
    """

    buckets: NDArray[np.float32]
    scores: tuple[float, ...]
    bias: float

    def __eq__(self, other: object) -> bool:
        """Whether both say the same; arrays by themselves do not say so in one word."""
        return (
            isinstance(other, Head)
            and (self.scores, self.bias) == (other.scores, other.bias)
            and np.array_equal(self.buckets, other.buckets)
        )

    def __hash__(self) -> int:
        """Of the few numbers; equal heads have equal ones."""
        return hash((self.scores, self.bias))


@dataclass(frozen=True, slots=True, eq=False)
class LearntLabels:
    """Labels of the operator's own.

    Attributes:
        heads: By label; their odds are calibrated, so that probabilities come true.
        rarity: What each bucket counts.
    """

    heads: Mapping[str, Head]
    rarity: NDArray[np.float32]

    @property
    def names(self) -> tuple[str, ...]:
        """The labels."""
        return tuple(self.heads)

    def __eq__(self, other: object) -> bool:
        """Whether both give the same labels."""
        return (
            isinstance(other, LearntLabels)
            and self.heads == other.heads
            and np.array_equal(self.rarity, other.rarity)
        )

    def __hash__(self) -> int:
        """Of the names; equal labels have equal ones."""
        return hash(self.names)

    def odds(self, view: RequestView, scores: Mapping[str, float]) -> dict[str, float]:
        """Logarithm of the odds of each label against all others, from the words and the built-in labels."""
        read, likely = folded(grams.read(view), self.rarity), likeness(scores)
        return {
            name: float(read.weights @ head.buckets[read.buckets])
            + sum(map(float.__mul__, likely, head.scores))
            + head.bias
            for name, head in self.heads.items()
        }

    def beside(self, view: RequestView, scores: Mapping[str, float]) -> dict[str, float]:
        """Probabilities of these labels and of the built-in ones together.

        Args:
            view: The request.
            scores: Probability by built-in label; they add up to 1.
        """
        return shared(self.odds(view, scores), scores)

    def to_json(self) -> str:
        """The labels as a file."""
        labels = {
            name: {"bias": head.bias, "scores": head.scores, "buckets": _packed(head.buckets)}
            for name, head in self.heads.items()
        }
        document = {"format": FORMAT, "bits": BITS, "rarity": _packed(self.rarity), "labels": labels}
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what :meth:`to_json` wrote.

        Raises:
            UnusableExamplesError: It is something else.
        """
        try:
            read = json.loads(text)
            made_for, labels = (read["format"], read["bits"]), dict[str, Any](read["labels"])
            if made_for != (FORMAT, BITS) or not labels:
                raise UnusableExamplesError("made by another version, or without labels")
            return cls({name: _head(label) for name, label in labels.items()}, _unpacked(read["rarity"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, UnusableExamplesError):
                raise
            raise UnusableExamplesError(f"no labels learnt from examples: {error!r}") from error


def shared(odds: Mapping[str, float], scores: Mapping[str, float]) -> dict[str, float]:
    """Probabilities of all labels, from logarithms of the odds of some and from those of the others."""
    steep = {name: exp(min(max(one, -_STEEPEST), _STEEPEST)) for name, one in odds.items()}
    total = 1 + sum(steep.values())
    shares = {label: score / total for label, score in scores.items()}
    return shares | {name: one / total for name, one in steep.items()}


def _head(label: Mapping[str, Any]) -> Head:
    scores = tuple(map(float, label["scores"]))
    if len(scores) != len(WORKLOADS):
        raise ValueError("weights of other labels")
    return Head(_unpacked(label["buckets"]), scores, float(label["bias"]))


def rounded(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """The numbers as a file holds them: multiples of a 127th of the largest."""
    return _unpacked(_packed(numbers.astype(np.float32)))


def _packed(numbers: NDArray[np.float32]) -> dict[str, Any]:
    unit = float(np.abs(numbers).max()) / _LARGEST or 1.0
    return {"unit": unit, "counts": b64encode(np.rint(numbers / unit).astype(np.int8)).decode()}


def _unpacked(packed: Mapping[str, Any]) -> NDArray[np.float32]:
    counts = np.frombuffer(b64decode(packed["counts"], validate=True), np.int8)
    if len(counts) != 2**BITS:
        raise ValueError("cut short, or too long")
    return counts.astype(np.float32) * np.float32(packed["unit"])
