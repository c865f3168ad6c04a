r"""A kernel matrix as a product of tall factors, :math:`K \approx GG'`, by pivots.

The next pivot is the row whose diagonal is least explained; after s of them G is the matrix of the
Nystroem method with these rows (Fine and Scheinberg, 2001).  Cost O(n s^2) and s columns of K.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["incomplete_cholesky"]


def incomplete_cholesky(columns: Any, most: int, rest: float) -> tuple[np.ndarray, float]:
    """G of at most ``most`` columns, and the mean of what is left of the diagonal.

    Ends before where the largest diagonal left is below ``rest`` times the mean of all.
    """
    diagonal = columns.source.diagonal
    left = diagonal.copy()
    floor = max(rest, 1e-12) * float(np.mean(diagonal))
    G = np.zeros((min(most, left.size), left.size))  # column-major in effect: one row a pivot
    count = 0
    for k in range(G.shape[0]):
        pivot = int(np.argmax(left))
        if not left[pivot] > floor:
            break
        column = columns.take(np.array([pivot]))[0].astype(np.float64)
        column -= G[:k, pivot] @ G[:k]
        column /= np.sqrt(left[pivot])
        G[k] = column
        left = np.maximum(left - column**2, 0.0)
        left[pivot] = 0.0
        count = k + 1
    return np.ascontiguousarray(G[:count].T), float(np.mean(left))
