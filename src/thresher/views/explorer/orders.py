"""The orders that a page can switch between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thresher._random import generator
from thresher.orderings.column_ordering import ColumnOrdering
from thresher.orderings.row_ordering import RowOrdering
from thresher.views.explorer.codes import MISSING, CodedColumn, as_matrix

__all__ = ["by_column", "column_order", "row_order"]

_CELLS = 2_000_000  # from which columns are ordered
_MOST_ROWS = 2000


def row_order(
    columns: Sequence[CodedColumn], ordering: RowOrdering
) -> tuple[np.ndarray, np.ndarray]:
    """Rows with neighbours alike, and the weight of each column: the largest of its features."""
    n = columns[0].codes.size
    if n < 3:
        return np.arange(n), np.ones(len(columns))
    matrix, owners = as_matrix(columns)
    fitted = ordering.fit(matrix)
    weights = np.zeros(len(columns))
    np.maximum.at(weights, owners, fitted.weights_[: owners.size])
    return fitted.order_, weights


def column_order(columns: Sequence[CodedColumn], seed: int) -> np.ndarray:
    """Numbers with neighbours alike, by some of the rows; then the categories as they come."""
    numbers = [j for j, column in enumerate(columns) if not column.is_category]
    others = [j for j, column in enumerate(columns) if column.is_category]
    if len(numbers) > 2:
        n = columns[0].codes.size
        size = min(n, _MOST_ROWS, max(_CELLS // len(numbers), 10))
        rows = np.sort(generator(seed, 28).choice(n, size, replace=False))
        codes = np.column_stack([columns[j].codes[rows] for j in numbers]).astype(np.float32)
        codes[codes == MISSING] = np.nan
        found = ColumnOrdering(RowOrdering(max_iter=1, random_state=seed)).fit(codes).order_
        numbers = [numbers[k] for k in found]
    return np.array(numbers + others, dtype=np.int64)


def by_column(column: CodedColumn, order: np.ndarray) -> np.ndarray:
    """Rows by the codes of a column; those of equal codes stay in the order that they have."""
    return order[np.argsort(column.codes[order], kind="stable")]
