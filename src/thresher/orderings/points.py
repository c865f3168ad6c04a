"""Points between which a path is sought, and how far apart they are.

A *point* knows one thing in compiled code, ``distance(i, j)``, so that the search for short paths
(``improve.py``) is one source for dense rows, sparse rows and tables of distances.  Coordinates are
kept in single precision: a search compares distances, and half of the memory is half of the wait.

=============  ============================================
``EUCLIDEAN``  the length of the difference
``SQUARED``    its square, what Gaussian residuals cost
``MANHATTAN``  its sum of magnitudes, what Laplacian ones do
=============  ============================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher._terms import Term, reassociate

__all__ = [
    "EUCLIDEAN", "MANHATTAN", "METRICS", "SQUARED", "DensePoints", "Points", "SparsePoints",
    "TablePoints", "as_points",
]  # fmt: skip

EUCLIDEAN, SQUARED, MANHATTAN = 0, 1, 2
METRICS = {"euclidean": EUCLIDEAN, "squared": SQUARED, "manhattan": MANHATTAN}


class Points(Term):
    """A set of points; ``distance(i, j)`` is the same number as ``distance(j, i)``."""


@dataclass(frozen=True, eq=False)
class DensePoints(Points):
    """Rows of a C-ordered float32 matrix."""

    X: np.ndarray
    metric: int

    @reassociate
    def distance(self, i, j):
        x, z = self.X[i], self.X[j]
        total = np.float32(0.0)
        if self.metric == MANHATTAN:
            for k in range(x.size):
                total += abs(x[k] - z[k])
            return np.float64(total)
        for k in range(x.size):
            step = x[k] - z[k]
            total += step * step
        if self.metric == SQUARED:
            return np.float64(total)
        return math.sqrt(np.float64(total))


@dataclass(frozen=True, eq=False)
class SparsePoints(Points):
    """Rows of a CSR matrix whose columns are sorted, met by merging two rows."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    metric: int

    def distance(self, i, j):
        k, last = self.indptr[i], self.indptr[i + 1]
        q, end = self.indptr[j], self.indptr[j + 1]
        total = 0.0
        while k < last or q < end:
            if q >= end or (k < last and self.indices[k] < self.indices[q]):
                step = np.float64(self.data[k])
                k += 1
            elif k >= last or self.indices[q] < self.indices[k]:
                step = np.float64(self.data[q])
                q += 1
            else:
                step = np.float64(self.data[k]) - np.float64(self.data[q])
                k += 1
                q += 1
            total += abs(step) if self.metric == MANHATTAN else step * step
        return math.sqrt(total) if self.metric == EUCLIDEAN else total


@dataclass(frozen=True, eq=False)
class TablePoints(Points):
    """Points known by a symmetric table of their distances only."""

    D: np.ndarray

    def distance(self, i, j):
        return np.float64(self.D[i, j])


def as_points(X: Any, metric: int) -> DensePoints | SparsePoints:
    """Rows of an array or a CSR matrix, in single precision; copied only if they must be."""
    if not hasattr(X, "indptr"):
        return DensePoints(np.ascontiguousarray(X, dtype=np.float32), metric)
    if not X.has_sorted_indices:
        X = X.sorted_indices()
    return SparsePoints(X.data.astype(np.float32, copy=False), X.indices, X.indptr, metric)
