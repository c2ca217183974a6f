"""Trains the shipped classifier: ``python -m gateway.training.train DATA.jsonl MODEL``.

Run so, it computes with the same kernels on every x86-64 processor of the last ten years, and the same numpy
makes the same file bit for bit.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gateway.core import grams, signals
from gateway.core.model import CONTENTS, Model
from gateway.training import corpus
from gateway.training.solve import Data, Heads, Sparse, fit, probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gateway.training.corpus import Row

VERSION: Final = "linear-3"
SEED: Final = 11

_VARIATION_WEIGHTS: Final = {
    "": 1.0, "tools": 0.4, "more_tools": 0.6, "system": 0.1, "switch": 0.1, "own": 6.0,
    "language": 3.0, "loop": 4.0,
}  # fmt: skip
_TOOL_USE_WEIGHT: Final = 1.4
_RIDGE: Final = (1e-3, 1e-4)
_LANGUAGE_RIDGE: Final = (1e-4, 1e-4)
_FOLDS: Final = 4
_SURE: Final = 0.99
_TEMPERATURES: Final = (0.85, 1.0)
"""Chosen on dev: without it the content head is a little less sure than it is right."""
_LARGEST: Final = 127


@dataclass(frozen=True, slots=True)
class Steps:
    """Iterations of the two fits at most."""

    content: int = 80
    language: int = 25


def encode(rows: Sequence[Row]) -> Data:
    """The features of rows as matrices, with the weight of each row."""
    sparse = Sparse.of([grams.read(row.view) for row in rows], 2**grams.BITS)
    dense = np.stack([signals.read(row.features, signals.first_rule(row.features)) for row in rows])
    weights = [
        _VARIATION_WEIGHTS[row.variation] * (_TOOL_USE_WEIGHT if row.label == "tool_use" else 1.0)
        for row in rows
    ]
    return Data(sparse, dense.astype(np.float64), np.array(weights))


def _language(rows: Sequence[Row], data: Data, steps: int) -> tuple[Heads, NDArray[np.float64]]:
    """The language head, and for each row the odds by a head that did not see it."""
    known = np.array([row.language != "und" for row in rows])
    foreign = np.array([row.language not in {"en", "und"} for row in rows])
    folds = np.arange(len(rows)) % _FOLDS
    of_language = Data(data.sparse, data.dense[:, : len(signals.LANGUAGE)], data.weights)

    def fitted(chosen: NDArray[np.bool_]) -> Heads:
        at = np.flatnonzero(chosen & known)
        due = np.stack([~foreign[at], foreign[at]], axis=1).astype(np.float64)
        return fit(
            of_language.take(at),
            2,
            lambda found: ((found * due).sum(axis=1), due),
            ridge=_LANGUAGE_RIDGE,
            steps=steps,
        )

    odds = np.zeros(len(rows))
    for fold in range(_FOLDS):
        at = np.flatnonzero(folds == fold)
        odds[at] = probabilities(fitted(folds != fold).logits(of_language.take(at)))[:, 1]
    return fitted(known), np.clip(odds, 1 - _SURE, _SURE)


def _content(rows: Sequence[Row], data: Data, foreign: NDArray[np.float64], steps: int) -> Heads:
    """The content head. Which content a multilingual row has is not known, only what it can be."""
    other = np.array([row.label == "multilingual" for row in rows])
    known = np.zeros((len(rows), len(CONTENTS)))
    for number, row in enumerate(rows):
        if row.label != "multilingual":
            known[number, CONTENTS.index(row.label)] = 1.0
    can_be = known.copy()
    can_be[other, CONTENTS.index("translation")] = 1.0
    for content in ("chat", "grounded"):
        can_be[other, CONTENTS.index(content)] = foreign[other]

    def likelihood(found: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        parts = found * can_be
        likely = parts.sum(axis=1)
        return likely, parts / likely[:, None]

    return fit(data, len(CONTENTS), likelihood, ridge=_RIDGE, steps=steps)


def _pack(content: Heads, language: Heads) -> Model:
    """Both heads as one table of small integers and one matrix."""
    columns = np.concatenate((content.buckets, language.buckets[1:] - language.buckets[:1]))
    scales = np.maximum(np.abs(columns).max(axis=1), 1e-9) / _LARGEST
    table = np.zeros((columns.shape[1], 8), np.int8)
    table[:, : len(columns)] = np.rint(columns / scales[:, None]).astype(np.int8).T
    weights = np.zeros((len(signals.NAMES) + 1, len(columns)))
    weights[:-1, :-1] = content.dense.T
    weights[-1, :-1] = content.bias
    weights[: len(signals.LANGUAGE), -1] = language.dense[1] - language.dense[0]
    weights[-1, -1] = language.bias[1] - language.bias[0]
    return Model(VERSION, table, scales.astype(np.float32), weights.astype(np.float32), _TEMPERATURES)


def train(rows: Sequence[Row], steps: Steps | None = None) -> Model:
    """Fits both heads to rows of :func:`gateway.training.corpus.read`."""
    steps = steps or Steps()
    data = encode(rows)
    language, foreign = _language(rows, data, steps.language)
    return _pack(_content(rows, data, foreign, steps.content), language)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the data, writes the model."""
    parser = argparse.ArgumentParser(prog="python -m gateway.training.train", description=__doc__)
    parser.add_argument("data", type=Path, help="labelled requests, a JSON object a line")
    parser.add_argument("model", type=Path, help="the file to write")
    parser.add_argument("--own", type=Path, nargs="*", default=[], help="requests written for the project")
    chosen = parser.parse_args(arguments)
    own = [line for file in sorted(chosen.own) for line in corpus.lines(file)]
    rows = corpus.read(corpus.lines(chosen.data), own, seed=SEED)
    chosen.model.write_bytes(train(rows).to_bytes())


_BLAS: Final = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
_FEATURES: Final = "NPY_DISABLE_CPU_FEATURES"


def alike(arguments: Sequence[str]) -> None:
    """Runs the script without kernels for newer processors, which add up in another order.

    What numpy reads when it is imported cannot be changed later, so another process takes this one's place.
    """
    if _FEATURES not in os.environ:
        kernels: Any = np.show_config(mode="dicts")
        found = " ".join(kernels["SIMD Extensions"]["found"])
        command = [sys.executable, "-m", "gateway.training.train", *arguments]
        os.execve(command[0], command, {**os.environ, **_BLAS, _FEATURES: found})  # noqa: S606 - our own
    main(arguments)


if __name__ == "__main__":
    alike(sys.argv[1:])
