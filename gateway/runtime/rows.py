"""Constraints of a linear program under construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class Rows:
    """Constraints A·x ≤ or = b under construction, as triplets."""

    rows: list[NDArray[np.int64]] = field(default_factory=list)
    columns: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)

    def new(self, bound: float) -> int:
        """Begin a constraint with its right side; gives its row."""
        self.bounds.append(bound)
        return len(self.bounds) - 1

    def put(self, row: int, columns: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Put coefficients into a row."""
        self.rows.append(np.full(len(columns), row))
        self.columns.append(columns)
        self.values.append(values)

    def one(self, row: int, column: int, value: float) -> None:
        """Put one coefficient into a row."""
        self.put(row, np.array([column]), np.array([value]))

    def matrix(self, width: int) -> Any:  # noqa: ANN401 - scipy has no types
        """A, for so many variables."""
        from scipy.sparse import coo_matrix  # noqa: PLC0415 - only who plans pays for the import

        places = np.concatenate(self.rows), np.concatenate(self.columns)
        return coo_matrix((np.concatenate(self.values), places), shape=(len(self.bounds), width)).tocsr()
