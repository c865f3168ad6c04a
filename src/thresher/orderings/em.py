r"""EM-ordering: the order of the rows and the weights of the columns, in turn.

.. math::

    \pi \leftarrow \arg\min_\pi \sum_i \sum_j w_j^2 (x_{\pi(i)j} - x_{\pi(i-1)j})^2,
    \qquad w_j \leftarrow 1 / \sigma_j(\pi),

a short path through the rows, and the likeliest scales of its steps (``coding.py``); for Laplacian
steps distances are sums of magnitudes and scales their means.  A column that the order follows has
small steps and gets a large weight; the steps of noise are as large as those of a random order.

*Policies.*  "soft" leaves it at that.  "hard" drops a column (weight 0) whose steps take more than
its values do, H(steps) > H(values); "tolerance" one with H(steps) > alpha H(values).  Entropies of
real numbers depend on their units: here they are of columns of unit scale, so that alpha = 1.1
means a mean squared step above 1.33, where noise has 2.  A dropped column comes back if its steps
get smaller.

The path is a heuristic's, so that the entropy may rise again: the best iterate is kept.

Reference: Djuric, PhD thesis, Temple University (2014), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from thresher.orderings.coding import GAUSSIAN, LAPLACIAN, column_entropies, step_scales

__all__ = ["POLICIES", "Columns", "Iterate", "em_iterates", "entropy", "policy_keeps"]

POLICIES = ("soft", "hard", "tolerance")


class Columns(NamedTuple):
    """Where the columns lie and how far they spread; spread 0: one value only."""

    centre: np.ndarray | None  # None: sparse rows are not shifted
    spread: np.ndarray

    @staticmethod
    def of(X: Any, residual: str = GAUSSIAN) -> Columns:
        """Mean and standard deviation; for Laplacian steps median and mean distance from it."""
        if hasattr(X, "indptr"):
            return Columns(None, _sparse_spread(X, residual))
        centre, spread = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        width = max(1, (1 << 22) // X.shape[0])
        for start in range(0, X.shape[1], width):
            part = slice(start, start + width)
            values = X[:, part].astype(np.float64)
            empty = np.isnan(values).all(axis=0)
            values[:, empty] = 0.0
            middle = np.nanmedian if residual == LAPLACIAN else np.nanmean
            centre[part] = middle(values, axis=0)
            values -= centre[part]
            if residual == LAPLACIAN:
                spread[part] = np.nanmean(np.abs(values), axis=0)
            else:
                spread[part] = np.sqrt(np.nanmean(values * values, axis=0))
        return Columns(centre, _without_rounding(spread, np.abs(centre)))

    def scaled(self, X: Any, weights: np.ndarray) -> Any:
        """The columns of positive weight in float32, of unit scale times their weight.

        A missing value is the centre: it is as far from the others as they are on average.
        """
        kept = np.flatnonzero((weights > 0.0) & (self.spread > 0.0))
        factors = weights[kept] / self.spread[kept]
        if hasattr(X, "indptr"):
            part = csr_matrix(X[:, kept], dtype=np.float64)
            return csr_matrix(part.multiply(factors), dtype=np.float32)
        assert self.centre is not None
        out = np.empty((X.shape[0], kept.size), np.float32)
        rows = max(1, (1 << 20) // max(kept.size, 1))
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            values = (X[part][:, kept] - self.centre[kept]) * factors
            out[part] = np.where(np.isnan(values), 0.0, values)
        return out


def _sparse_spread(X: Any, residual: str) -> np.ndarray:
    """Standard deviations, or mean magnitudes where the median is taken to be zero."""
    n = X.shape[0]
    if residual == LAPLACIAN:
        return np.asarray(abs(X).sum(axis=0, dtype=np.float64)).ravel() / n
    mean = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / n
    squares = X.astype(np.float64).power(2).sum(axis=0)
    variance = np.asarray(squares).ravel() / n - mean * mean
    return _without_rounding(np.sqrt(np.maximum(variance, 0.0)), np.abs(mean))


def _without_rounding(spread: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """A spread that is rounding of a single value is none."""
    return np.where(spread > 1e-12 * centre, spread, 0.0)


class Iterate(NamedTuple):
    """An order, and what it says about the columns."""

    order: np.ndarray
    weights: np.ndarray  # one over the scale of the steps in units of the spread; 0: dropped
    entropy: float  # nats a row; a dropped column counts with the entropy of its values


def policy_keeps(
    ratios: np.ndarray, policy: str, alpha: float, residual: str = GAUSSIAN
) -> np.ndarray:
    """Which columns stay; ``ratios`` are the scales of the steps over those of the values."""
    if policy == "soft":
        return np.ones(ratios.size, dtype=bool)
    most = column_entropies(np.ones(1), residual)[0] * (alpha if policy == "tolerance" else 1.0)
    return column_entropies(ratios, residual) <= most


def em_iterates(
    X: Any,
    columns: Columns,
    path: Callable[[Any, int], np.ndarray],
    weights: np.ndarray,
    *,
    residual: str = GAUSSIAN,
    policy: str = "tolerance",
    alpha: float = 1.1,
    max_iter: int = 4,
    tol: float = 0.01,
    on_iterate: Callable[[Iterate], Any] = lambda iterate: None,
) -> list[Iterate]:
    """All iterates, beginning with these weights (ones: every column has the same spread).

    ``path(rows, t)`` orders scaled rows, t = 0, 1, ...  It ends early when weights change by less
    than ``tol`` of the largest one.  Where a policy would drop every column, none is.
    """
    found: list[Iterate] = []
    for t in range(max_iter if columns.spread.any() else 0):
        order = path(columns.scaled(X, weights), t)
        found.append(_iterate(X, order, columns, residual, policy, alpha))
        on_iterate(found[-1])
        before, weights = weights, found[-1].weights
        if np.abs(weights - before).max() <= tol * weights.max():
            break
    return found


def _iterate(
    X: Any, order: np.ndarray, columns: Columns, residual: str, policy: str, alpha: float
) -> Iterate:
    """The weights and the entropy that belong to an order."""
    scales = step_scales(X, order, residual)
    varies = (columns.spread > 0.0) & (scales > 0.0)  # or half of the values may be missing
    ratios = np.where(varies, scales, 1.0) / np.where(varies, columns.spread, 1.0)
    kept = varies & policy_keeps(ratios, policy, alpha, residual)
    if not kept.any():
        kept = varies
    weights = np.where(kept, 1.0 / ratios, 0.0)
    return Iterate(order, weights, _total(scales, columns, kept, residual))


def entropy(
    X: Any, order: np.ndarray, columns: Columns, kept: np.ndarray, residual: str = GAUSSIAN
) -> float:
    """Nats a row: of the steps of the columns that are kept, of the values of the others."""
    return _total(step_scales(X, order, residual), columns, kept, residual)


def _total(scales: np.ndarray, columns: Columns, kept: np.ndarray, residual: str) -> float:
    coded = np.where(kept & (scales > 0.0), scales, columns.spread)
    return float(column_entropies(coded[coded > 0.0], residual).sum())
