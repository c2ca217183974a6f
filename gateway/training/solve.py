"""Logistic regression on sparse and dense features by L-BFGS, in double precision and one fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from gateway.core.grams import Grams

    Floats = NDArray[np.float64]
    Objective = Callable[[Floats], tuple[float, Floats]]

_MEMORY: Final = 10
_HALVINGS: Final = 12
_SUFFICIENT: Final = 1e-4
_ENOUGH: Final = 2e-6
_CURVED: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse matrix by rows.

    Attributes:
        starts: Where each row begins in the other two, and where the last ends.
        columns: Column of each entry.
        values: Value of each entry.
        width: How many columns there are.
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Floats
    width: int

    @classmethod
    def of(cls, rows: Sequence[Grams], width: int) -> Sparse:
        """Puts buckets that occur several times in one row together."""
        columns, values, lengths = [], [], []
        for row in rows:
            buckets, inverse = np.unique(row.buckets, return_inverse=True)
            columns.append(buckets.astype(np.int32))
            values.append(np.bincount(inverse, row.weights, len(buckets)))
            lengths.append(len(buckets))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        return cls(starts, np.concatenate(columns), np.concatenate(values), width)

    def take(self, rows: NDArray[np.intp]) -> Sparse:
        """The matrix of some of the rows, in their order."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        at = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return Sparse(starts, self.columns[at], self.values[at], self.width)

    def times(self, vector: Floats) -> Floats:
        """The product with a vector of the width."""
        sums = np.concatenate(([0.0], np.cumsum(self.values * vector[self.columns])))
        product: Floats = sums[self.starts[1:]] - sums[self.starts[:-1]]
        return product

    def transposed_times(self, vector: Floats) -> Floats:
        """The product of the transposed matrix with a vector of one number a row."""
        spread = np.repeat(vector, np.diff(self.starts))
        product: Floats = np.bincount(self.columns, self.values * spread, self.width).astype(np.float64)
        return product


@dataclass(frozen=True, slots=True)
class Data:
    """What is fitted: sparse features, dense features and the weight of each row."""

    sparse: Sparse
    dense: Floats
    weights: Floats

    def take(self, rows: NDArray[np.intp]) -> Data:
        """Some of the rows."""
        return Data(self.sparse.take(rows), self.dense[rows], self.weights[rows])


@dataclass(frozen=True, slots=True)
class Heads:
    """Fitted weights: a row a class for the buckets, the dense features, and the biases."""

    buckets: Floats
    dense: Floats
    bias: Floats

    def logits(self, data: Data) -> Floats:
        """Log-odds of each row and class."""
        hashed = np.stack([data.sparse.times(row) for row in self.buckets], axis=1)
        logits: Floats = hashed + data.dense @ self.dense.T + self.bias
        return logits


def probabilities(logits: Floats) -> Floats:
    """The softmax of each row."""
    steep = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = steep / steep.sum(axis=1, keepdims=True)
    return shares


def fit(
    data: Data,
    classes: int,
    likelihood: Callable[[Floats], tuple[Floats, Floats]],
    *,
    ridge: tuple[float, float],
    steps: int,
) -> Heads:
    """Fits one linear head a class.

    Args:
        data: Features and weights of the rows.
        classes: How many heads.
        likelihood: From the probabilities of the classes to the likelihood of what is known of each row, and
            to the share of each class in it (one where the class is known).
        ridge: Penalty on the squares of the weights of the buckets, and of the dense features.
        steps: Iterations at most.
    """
    wide, narrow = data.sparse.width * classes, data.dense.shape[1] * classes
    shares = data.weights / data.weights.sum()

    def heads(vector: Floats) -> Heads:
        return Heads(
            vector[:wide].reshape(classes, -1),
            vector[wide : wide + narrow].reshape(classes, -1),
            vector[wide + narrow :],
        )

    def objective(vector: Floats) -> tuple[float, Floats]:
        now = heads(vector)
        found = probabilities(now.logits(data))
        likely, due = likelihood(found)
        penalty = ridge[0] * (now.buckets**2).sum() + ridge[1] * (now.dense**2).sum()
        loss = -float((shares * np.log(np.maximum(likely, 1e-12))).sum()) + penalty / 2
        off = (found - due) * shares[:, None]
        slope = np.concatenate(
            (
                (
                    np.stack([data.sparse.transposed_times(column) for column in off.T])
                    + ridge[0] * now.buckets
                ).ravel(),
                (off.T @ data.dense + ridge[1] * now.dense).ravel(),
                off.sum(axis=0),
            )
        )
        return loss, slope

    return heads(minimise(objective, np.zeros(wide + narrow + classes), steps))


def minimise(objective: Objective, start: Floats, steps: int) -> Floats:
    """The limited-memory BFGS method with halving steps; ends early where a step gains nearly nothing."""
    at = start
    loss, slope = objective(at)
    pairs: list[tuple[Floats, Floats, float]] = []
    for _ in range(steps):
        direction = _direction(slope, pairs)
        gain = float(slope @ direction)
        size = 1.0
        for _ in range(_HALVINGS):
            there = at - size * direction
            new_loss, new_slope = objective(there)
            if new_loss <= loss - _SUFFICIENT * size * gain:
                break
            size /= 2
        moved, bent = there - at, new_slope - slope
        curvature = float(moved @ bent)
        if curvature > _CURVED:
            pairs = [*pairs[-_MEMORY + 1 :], (moved, bent, 1 / curvature)]
        gained = loss - new_loss
        at, loss, slope = there, new_loss, new_slope
        if gained < _ENOUGH * abs(loss):
            break
    return at


def _direction(slope: Floats, pairs: list[tuple[Floats, Floats, float]]) -> Floats:
    if not pairs:
        return slope / max(float(np.linalg.norm(slope)), 1e-9)
    direction = slope.copy()
    steps = []
    for moved, bent, inverse in reversed(pairs):
        step = inverse * float(moved @ direction)
        steps.append(step)
        direction -= step * bent
    _, bent, inverse = pairs[-1]
    direction /= inverse * float(bent @ bent)
    for (moved, bent, inverse), step in zip(pairs, reversed(steps), strict=True):
        direction += moved * (step - inverse * float(bent @ direction))
    return direction
