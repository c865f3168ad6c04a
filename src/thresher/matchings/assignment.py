"""From scores of pairs to pairs: one to one (Hungarian), and short lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

__all__ = ["best_assignment", "best_few", "permutation_matrix", "recall"]


def best_assignment(scores: np.ndarray) -> np.ndarray:
    """For each row its column, -1 for none, such that the scores of the pairs add up to the most.

    Every object of the smaller set has a partner.  O(n^3) at worst.
    """
    match = np.full(scores.shape[0], -1, dtype=np.intp)
    rows, columns = linear_sum_assignment(scores, maximize=True)
    match[rows] = columns
    return match


def permutation_matrix(match: np.ndarray, n_columns: int, dtype: Any = np.float64) -> np.ndarray:
    """One where row and column are a pair, zero elsewhere."""
    P = np.zeros((match.size, n_columns), dtype=dtype)
    paired = np.flatnonzero(match >= 0)
    P[paired, match[paired]] = 1.0
    return P


def best_few(scores: np.ndarray, n: int) -> np.ndarray:
    """The ``n`` best columns of every row, the best first; ties by the smaller number."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :n]


def recall(scores: np.ndarray, truth: np.ndarray, n: int) -> float:
    """The share of rows whose true column is among their ``n`` best; rows with truth -1 are out."""
    known = np.flatnonzero(truth >= 0)
    if not known.size:
        raise ValueError("no row has a true partner: truth is -1 everywhere")
    found = best_few(scores[known], n) == truth[known, None]
    return float(found.any(axis=1).mean())
