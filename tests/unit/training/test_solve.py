from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from gateway.core.grams import Grams
from gateway.training.solve import Data, Sparse, fit, minimise, probabilities

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROWS = (
    Grams(np.array([2, 0, 2], np.int64), np.array([0.5, 1.0, 0.5], np.float32)),
    Grams(np.array([], np.int64), np.array([], np.float32)),
    Grams(np.array([1, 3], np.int64), np.array([2.0, 3.0], np.float32)),
)
DENSE = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 3.0]])


@pytest.fixture
def sparse() -> Sparse:
    return Sparse.of(ROWS, 4)


def test_products_are_those_of_the_dense_matrix(sparse: Sparse) -> None:
    columns, rows = np.array([1.0, -2.0, 3.0, 0.5]), np.array([2.0, 7.0, -1.0])
    assert sparse.times(columns) == pytest.approx(DENSE @ columns)
    assert sparse.transposed_times(rows) == pytest.approx(DENSE.T @ rows)


def test_rows_can_be_taken_in_any_order(sparse: Sparse) -> None:
    taken = sparse.take(np.array([2, 1, 2]))
    vector = np.array([1.0, -2.0, 3.0, 0.5])
    assert taken.times(vector) == pytest.approx(DENSE[[2, 1, 2]] @ vector)


def test_a_quadratic_bowl_is_descended_to_its_bottom() -> None:
    bottom, steep = np.array([3.0, -1.0, 0.5]), np.array([1.0, 10.0, 100.0])

    def bowl(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        return 1 + float((steep * (at - bottom) ** 2).sum()), 2 * steep * (at - bottom)

    assert minimise(bowl, np.zeros(3), 100) == pytest.approx(bottom, abs=1e-2)
    assert minimise(bowl, np.zeros(3), 0) == pytest.approx(np.zeros(3))


def test_more_pairs_than_are_kept_and_a_flat_place_are_survived() -> None:
    def valley(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        x, y = at
        slope = np.array([-2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)])
        return float((1 - x) ** 2 + 100 * (y - x * x) ** 2) + 1e-3, slope

    assert minimise(valley, np.array([-1.0, 1.0]), 200) == pytest.approx([1.0, 1.0], abs=0.05)
    flat = minimise(lambda at: (1.0, np.zeros(2)), np.array([4.0, 4.0]), 5)
    assert flat.tolist() == [4.0, 4.0]


def test_probabilities_add_up_even_where_logits_are_large() -> None:
    found = probabilities(np.array([[1e4, 0.0], [0.0, 0.0]]))
    assert found.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert found[1].tolist() == [0.5, 0.5]


def separable(count: int = 60) -> tuple[Data, NDArray[np.intp]]:
    rows = [
        Grams(np.array([number % 3, 3 + number % 2], np.int64), np.ones(2, np.float32))
        for number in range(count)
    ]
    dense = (np.arange(count) % 5)[:, None].astype(np.float64)
    return Data(Sparse.of(rows, 8), dense, np.ones(count)), np.arange(count) % 3


def test_classes_that_a_bucket_tells_are_told() -> None:
    data, classes = separable()
    due = np.eye(3)[classes]
    heads = fit(data, 3, lambda found: ((found * due).sum(axis=1), due), ridge=(1e-4, 1e-3), steps=60)
    found = probabilities(heads.logits(data))
    assert (found.argmax(axis=1) == classes).all()
    assert found.max(axis=1).min() > 0.9
    assert heads.bias.shape == (3,)


def test_what_is_not_known_of_a_row_is_shared_out() -> None:
    data, classes = separable()
    can_be = np.eye(3)[classes]
    can_be[classes == 2, 1] = 1.0

    def likelihood(found: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        parts = found * can_be
        return parts.sum(axis=1), parts / parts.sum(axis=1, keepdims=True)

    heads = fit(data, 3, likelihood, ridge=(1e-4, 1e-3), steps=60)
    found = probabilities(heads.logits(data))
    assert found[classes == 2][:, 1:].sum(axis=1).min() > 0.9
    assert found[classes == 0][:, 0].min() > 0.9


def test_a_row_without_weight_teaches_nothing() -> None:
    data, classes = separable()
    wrong = np.where(np.arange(len(classes)) < 30, (classes + 1) % 3, classes)
    due = np.eye(3)[wrong]
    weights = (np.arange(len(classes)) >= 30).astype(np.float64)
    heads = fit(
        Data(data.sparse, data.dense, weights),
        3,
        lambda found: ((found * due).sum(axis=1), due),
        ridge=(1e-4, 1e-3),
        steps=60,
    )
    assert (heads.logits(data).argmax(axis=1) == classes).all()
