"""Columns of which every row has exactly one: a category again, as one column.

A schema, or scikit-learn's encoder, makes a column of zeros and ones of every category.  Trees that
draw the features they try draw such columns instead of numbers, most of them of no use, and cut off
one category at a time.  Here neighbouring columns that are 1 in turn become one column, whose
values are the places of the categories in the order of their mean targets: the best cut of a
category in two is then between two neighbours (Breiman et al., Classification and Regression
Trees, 1984, for two classes and for numbers).  With several classes the shares of the classes are
ordered along their first principal component (Coppersmith, Hong and Hosking, 1999).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["Bundles", "bundled"]

_LEAST = 3  # columns of a bundle: two say the same as one
_SAMPLE = 500  # rows that rule out most columns
_PRIOR = 10.0  # rows with the mean of all, that every category has besides its own


class Bundles(NamedTuple):
    """For every column of the rows, the column that it becomes part of, and the value of a 1."""

    place: np.ndarray
    value: np.ndarray

    @property
    def width(self) -> int:
        return int(self.place[-1]) + 1

    @property
    def matrix(self) -> csr_matrix:
        """(columns, fewer columns): rows times it are the rows with bundles."""
        ends = np.arange(self.place.size + 1)
        return csr_matrix((self.value, self.place.astype(np.int32), ends))

    def rows(self, X: Any) -> Any:
        """Exactly what is compared: every sum has one term that is not zero."""
        if hasattr(X, "indptr"):
            return (X @ self.matrix.astype(X.dtype)).tocsr()
        return np.ascontiguousarray((self.matrix.astype(X.dtype).T @ X.T).T)

    def check(self, d: int) -> None:
        """ValueError unless these are bundles of ``d`` columns, in their order."""
        arrays = [(self.place, np.uint32), (self.value, np.float32)]
        if not all(isinstance(a, np.ndarray) and a.dtype == kind for a, kind in arrays):
            raise ValueError("bundles: places and values must be arrays of uint32 and float32")
        if not self.place.shape == self.value.shape == (d,) or not np.isfinite(self.value).all():
            raise ValueError(f"bundles: {d} columns need a place and a finite value each")
        steps = np.diff(self.place.astype(np.int64))
        if self.place[0] != 0 or np.any((steps != 0) & (steps != 1)):
            raise ValueError("bundles: places must be in order, from 0 on")


def bundled(X: Any, y: np.ndarray) -> Bundles | None:
    """Those of the columns of X; None where there are none.  Targets of an integer type are
    classes."""
    groups = list(_groups(X))
    if not groups:
        return None
    d = X.shape[1]
    first, value = np.ones(d, dtype=bool), np.ones(d, dtype=np.float32)
    for columns in groups:
        first[columns.start + 1 : columns.stop] = False
        value[columns] = _ranks(X[:, columns], y)
    return Bundles((np.cumsum(first) - 1).astype(np.uint32), value)


def _groups(X: Any) -> Iterator[slice]:
    """Neighbouring columns of zeros and ones, of which every row has exactly one 1.

    Some rows rule out most columns, in time that is linear in their number: a window of columns is
    made shorter at its start where a row has two, and looked at in all rows where each has one.
    """
    n, d = X.shape
    sparse = hasattr(X, "indptr")
    some = X[:: max(1, n // _SAMPLE)]
    some = np.asfortranarray(some.toarray() if sparse else some)
    binary = np.all((some == 0.0) | (some == 1.0), axis=0)
    whole = X.tocsc() if sparse else X

    def column(j: int) -> np.ndarray:
        return whole[:, [j]].toarray().ravel() if sparse else whole[:, j]

    start, j, ones = 0, 0, np.zeros(some.shape[0])
    while j < d:
        if not binary[j]:
            start, j, ones = j + 1, j + 1, np.zeros_like(ones)
            continue
        ones += some[:, j]
        j += 1
        while ones.max() > 1.0:
            ones -= some[:, start]
            start += 1
        if ones.min() < 1.0:
            continue
        stop = _end(column, start, d)
        if stop is None:
            ones -= some[:, start]
            start += 1
            continue
        if stop - start >= _LEAST:
            yield slice(start, stop)
        start, j, ones = stop, stop, np.zeros_like(ones)


def _end(column: Callable[[int], np.ndarray], start: int, d: int) -> int | None:
    """Where the columns from ``start`` on end, of which every row has one; None: nowhere."""
    ones: Any = 0.0
    for j in range(start, d):
        values = column(j)
        ones = ones + values
        if not np.all((values == 0.0) | (values == 1.0)) or ones.max() > 1.0:
            return None
        if ones.min() == 1.0:
            return j + 1
    return None


def _ranks(part: Any, y: np.ndarray) -> np.ndarray:
    """Places of the categories, columns of ``part``, in the order of their mean targets."""
    targets = y[:, None].astype(np.float64) if y.dtype.kind == "f" else np.eye(int(y.max()) + 1)[y]
    means, counts = targets.mean(axis=0), np.asarray(part.sum(axis=0)).reshape(-1, 1)
    apart = np.asarray(part.T @ (targets - means)) / (counts + _PRIOR)
    spread = (apart * counts).T @ apart
    along = np.linalg.eigh(spread)[1][:, -1]
    along *= np.sign(along[np.argmax(np.abs(along))])  # eigenvectors have no sign of their own
    return np.argsort(np.argsort(apart @ along, kind="stable"), kind="stable")
