"""The orders that a page can switch between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from thresher._random import generator
from thresher.orderings.column_ordering import ColumnOrdering
from thresher.orderings.em import Columns
from thresher.orderings.placing import positions
from thresher.orderings.row_ordering import RowOrdering
from thresher.views.explorer.codes import MISSING, CodedColumn
from thresher.views.explorer.ranks import Ranks, features_of

__all__ = ["RowOrder", "by_column", "column_order", "row_order"]

_CELLS = 2_000_000  # from which columns are ordered
_MOST_ROWS = 2000
_MOST_FEATURES = 2000
_LEARNED_FROM = 20_000  # rows, at least


class RowOrder(NamedTuple):
    """Rows in an order, the weight of each column in it, and where other rows would belong.

    ``used`` is the number of columns that had a part in it.  ``places`` takes the codes of each
    column of these rows; it is None for an order that was given.
    """

    order: np.ndarray
    weights: np.ndarray
    used: int
    places: Callable[[Sequence[np.ndarray]], np.ndarray] | None = None


def row_order(columns: Sequence[CodedColumn], ordering: RowOrdering) -> RowOrder:
    """Rows with neighbours alike.

    An ordering that is fitted already is taken as it is.  Of more than 2,000 features some at even
    distances have a part in it.  Weights are learned from the numbers.  Categories
    weigh as the typical number does: steps between equal ones are zero, so weights of their own
    would grow until they alone decide.
    """
    n = columns[0].codes.size
    if hasattr(ordering, "order_"):
        return _given(ordering, n, len(columns))
    if n < 3:
        return RowOrder(np.arange(n), np.ones(len(columns)), len(columns))
    features = features_of(columns)
    few = features[:: -(-len(features) // _MOST_FEATURES) or 1]
    used = len(columns) if len(few) == len(features) else len({f.column for f in few})
    features = few
    rows = Ranks([column.codes for column in columns], features)
    is_word = np.array([f.code is not None for f in features], dtype=bool)
    if not is_word.any():
        fitted = clone(ordering).fit(rows)
        weights = fitted.weights_[: len(features)]
    else:
        weights = _weights(rows, is_word, ordering)
        rows = Ranks(rows.codes, features, weights / np.where(is_word, 1.0, _spreads(rows)))
        fitted = clone(ordering).set_params(scale=False, max_iter=1).fit(rows)
    by_column = np.zeros(len(columns))
    np.maximum.at(by_column, [f.column for f in features], weights)

    def places(codes: Sequence[np.ndarray]) -> np.ndarray:
        others = Ranks(codes, features, rows.factors)
        return positions(
            fitted.rows_, fitted.columns_.scaled(others, fitted.weights_), guided=True
        )  # fmt: skip

    return RowOrder(fitted.order_, by_column, used, places)


def _given(ordering: RowOrdering, rows: int, columns: int) -> RowOrder:
    if ordering.order_.size != rows:
        raise ValueError(f"the ordering is of {ordering.order_.size} rows, the table has {rows}")
    has_weights = ordering.weights_.size == columns
    weights = ordering.weights_ if has_weights else np.ones(columns)
    return RowOrder(ordering.order_, weights, columns)


def _weights(rows: Ranks, is_word: np.ndarray, ordering: RowOrdering) -> np.ndarray:
    """Of all features, those of numbers learned from some rows."""
    weights = np.ones(is_word.size)
    if not is_word.all():
        some = rows[:: max(1, rows.shape[0] // _LEARNED_FROM), ~is_word]
        weights[~is_word] = clone(ordering).set_params(effort=None).fit(some).weights_
        kept = weights[~is_word][weights[~is_word] > 0.0]
        weights[is_word] = np.median(kept) if kept.size else 1.0
    return weights


def _spreads(rows: Ranks) -> np.ndarray:
    spread = Columns.of(rows).spread
    return np.where(spread > 0.0, spread, 1.0)


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
