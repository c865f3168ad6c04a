"""Checks of a kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from thresher.kernels import Kernel
from thresher.testing._require import require, require_close, require_dataclass, same_compiled


def check_kernel(kernel: Kernel, n_features: int = 3, seed: int = 0) -> None:
    """Check that a kernel is symmetric and finite, and what its traits promise.

    "radial": the same value for pairs at the same distance, wherever they lie; "positive": no
    negative eigenvalue in the kernel matrix of random points.

    Parameters
    ----------
    kernel : Kernel
    n_features : int, default=3
        Of the random points.
    seed : int, default=0
        Of the random points.

    Examples
    --------
    >>> from thresher import RBF
    >>> from thresher.testing import check_kernel
    >>> check_kernel(RBF(gamma=0.5))
    """
    require_dataclass(kernel, Kernel)
    _check_kernel(kernel, n_features, np.random.default_rng(seed))


def _check_kernel(kernel: Any, n_features: int, rng: np.random.Generator) -> None:
    name = type(kernel).__name__
    X = np.concatenate([rng.normal(0.0, 1.5, (30, n_features)), np.zeros((1, n_features))])
    K = _matrix(kernel, X)
    require(np.all(np.isfinite(K)), f"{name}: of() is not finite everywhere, or not a number")
    scale = 1.0 + np.abs(K)
    uneven = float(np.max(np.abs(K - K.T) / scale))
    require_close(uneven, 0.0, 1e-12, f"{name}: k(x, z) differs from k(z, x)")
    if "radial" in kernel.traits:
        moved = float(np.max(np.abs(_matrix(kernel, X + 2.0) - K) / scale))
        require_close(  # the distance of equal points is the root of a rounding error
            moved, 0.0, 1e-6, f"{name}: radial, but the value changes when both points are shifted"
        )
        near = np.array([kernel.of(1.0, 1.0, 1.0 + 1e-15), kernel.of(1.0 + 1e-15, 1.0, 1.0)])
        require(
            np.all(np.isfinite(near)),
            f"{name}: sq_x + sq_z - 2 inner may round below zero; take its maximum with zero",
        )
    if "positive" in kernel.traits:
        values = np.linalg.eigvalsh(0.5 * (K + K.T))
        require(
            values[0] >= -1e-9 * max(abs(values[-1]), 1e-300),
            f"{name}: positive, but a kernel matrix has the eigenvalue {values[0]:.3g}",
        )
    inner = rng.normal(size=20)
    sizes = 1.0 + inner**2
    same_compiled(_values, (20,), name, kernel, inner, sizes, sizes[::-1].copy())


def _matrix(kernel: Any, X: np.ndarray) -> np.ndarray:
    square = (X * X).sum(axis=1)
    inner = X @ X.T
    out = np.empty_like(inner)
    for i in range(len(X)):
        for j in range(len(X)):
            try:
                out[i, j] = kernel.of(float(inner[i, j]), float(square[i]), float(square[j]))
            except (ArithmeticError, ValueError):
                out[i, j] = math.nan
    return out


@njit(cache=True)
def _values(kernel, inner, sq_x, sq_z, out):
    for i in range(inner.size):
        out[i] = kernel.of(inner[i], sq_x[i], sq_z[i])
