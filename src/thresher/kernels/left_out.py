r"""How wide a kernel should be, and how strongly held back, by the rows that are left out.

Least squares with the kernel matrix K of n rows and the ridge a predicts H y with
:math:`H = K (K + a I)^{-1}`, and what the model without row i predicts for it is known from that of
all rows:

.. math:: y_i - \frac{y_i - (H y)_i}{1 - H_{ii}}.

One eigendecomposition of K serves every ridge, so that a width costs O(n^3) with all of them; a
sample of some hundred rows is enough to tell widths apart.  Reference: Allen, The relationship
between variable selection and data augmentation, Technometrics (1974); Rifkin and Lippert, Notes on
regularized least squares (2007).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.linalg import eigh

from thresher._random import generator
from thresher._scores import best_class
from thresher.kernels.functions import Kernel
from thresher.kernels.gram import gram
from thresher.kernels.width import median_gamma

__all__ = ["kernel_by_left_out", "left_out_losses"]

_SAMPLE = 700
_WIDTHS = 4.0 ** np.arange(-2, 3)  # times the median heuristic's gamma
_RIDGES = 10.0 ** np.arange(-4.0, 1.6, 0.5)
_SQUARES = 1e-3  # of the squared misses: they decide between settings with equal errors


def kernel_by_left_out(kernel: Kernel, X: Any, y: np.ndarray, seed: int) -> tuple[Kernel, float]:
    """The kernel with its best gamma, and the ridge that goes with it (alpha n of a fit).

    Targets of an integer type are classes, whose errors count; else squared misses do.
    """
    if X.shape[0] > _SAMPLE:
        some = np.sort(generator(seed, 27).choice(X.shape[0], _SAMPLE, replace=False))
        X, y = X[some], y[some]
    X = X.astype(np.float64)
    middle = median_gamma(kernel, X, seed)
    codes, targets = _targets(y)
    best, found, ridge = np.inf, kernel, 1.0
    for width in _WIDTHS:
        tried: Any = dataclasses.replace(kernel, gamma=float(width * middle))  # type: ignore[type-var]
        for a, left_out in zip(_RIDGES, _left_out(gram(tried, X), targets), strict=True):
            loss = _loss(left_out, targets, codes)
            if loss < best:
                best, found, ridge = loss, tried, float(a)
    return found, ridge


def left_out_losses(kernel: Kernel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of every row when it is left out, with the best ridge: an error or not, or the squared miss.

    Targets are as :func:`kernel_by_left_out` has them.
    """
    codes, targets = _targets(y)
    tried = []
    for left_out in _left_out(gram(kernel, X), targets):
        squares = np.mean((left_out - targets) ** 2, axis=1)
        tried.append(squares if codes is None else (best_class(left_out) != codes).astype(float))
    return min(tried, key=np.mean)


def _targets(y: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """Class numbers, if there are classes, and columns of centred targets in units of their own."""
    if y.dtype.kind == "f":
        return None, ((y - y.mean()) / max(float(y.std()), 1e-300))[:, None]
    classes, codes = np.unique(y, return_inverse=True)
    if classes.size == 2:
        return codes, np.where(codes == 1, 1.0, -1.0)[:, None]
    return codes, np.where(codes[:, None] == np.arange(classes.size), 1.0, -1.0)


def _left_out(K: np.ndarray, targets: np.ndarray) -> Any:
    """For every ridge, what each row is predicted by the model without it."""
    middle = targets.mean(axis=0)
    values, vectors = eigh(0.5 * (K + K.T), overwrite_a=True, check_finite=False, driver="evd")
    values = np.maximum(values, 0.0)
    parts, squares = vectors.T @ (targets - middle), vectors**2
    for a in _RIDGES:
        share = values / (values + a)
        residual = targets - middle - vectors @ (share[:, None] * parts)
        leverage = squares @ share
        yield targets - residual / np.maximum(1.0 - leverage, 1e-9)[:, None]


def _loss(left_out: np.ndarray, targets: np.ndarray, codes: np.ndarray | None) -> float:
    misses = float(np.mean((left_out - targets) ** 2))
    if codes is None:
        return misses
    return float(np.mean(best_class(left_out) != codes)) + _SQUARES * misses
