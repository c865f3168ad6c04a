r"""From kernel values to coordinates: :math:`\phi(x) = W' k_m(x)` with :math:`W W' = K_{mm}^{-1}`.

Then :math:`\phi(x)\cdot\phi(z) = k_m(x)' K_{mm}^{-1} k_m(z)`, the Nystroem approximation of k.  By
Cholesky, :math:`K_{mm} + \epsilon I = LL'` and :math:`W = L^{-T}` is triangular: the product is
done in place and costs half of a full one.  By eigenvalues, :math:`W = U \Lambda^{-1/2}` without
the directions whose eigenvalues are tiny (or negative: the kernel need not be positive definite).
The two differ by a rotation of the features, which no l2-penalised model can see.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.blas import dtrmm, strmm
from scipy.linalg.lapack import dtrtri

__all__ = ["Basis", "whitening"]


class Basis(NamedTuple):
    """W, (points, features), and whether its transpose is lower triangular."""

    projection: np.ndarray
    triangular: bool

    def apply(self, K: np.ndarray) -> np.ndarray:
        """K W; K, C-ordered, is overwritten where W is triangular."""
        if not self.triangular:
            return K @ self.projection
        multiply = strmm if K.dtype == np.float32 else dtrmm
        product = multiply(1.0, self.projection.T, K.T, lower=1, overwrite_b=1)  # W' K', in place
        return product.T

    def astype(self, dtype: np.dtype) -> Basis:
        # C order, so that the transpose handed to BLAS is in its own order.
        return Basis(np.ascontiguousarray(self.projection, dtype=dtype), self.triangular)


def whitening(K: np.ndarray, jitter: float, tol: float | None = None) -> Basis:
    """The basis for the points' own kernel matrix K (float64).

    ``jitter`` times the trace is added to the diagonal before the Cholesky factorisation, ten
    times more each time it fails; K too indefinite for that is decomposed by eigenvalues.  With a
    ``tol``, eigenvalues are used and those below tol times the largest are left out.
    """
    size = float(np.trace(K))
    if tol is None and size > 0.0:
        while jitter < 1e-3:
            try:
                return _triangular(K, jitter * size)
            except LinAlgError:
                jitter *= 10.0
    return _truncated(K, 1e-10 if tol is None else tol)


def _triangular(K: np.ndarray, jitter: float) -> Basis:
    shifted = K.copy()
    shifted[np.diag_indices_from(shifted)] += jitter
    lower = cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    inverse, info = dtrtri(lower, lower=1, overwrite_c=1)
    if info != 0 or not np.all(np.isfinite(inverse)):
        raise LinAlgError("the factor cannot be inverted")
    return Basis(np.ascontiguousarray(inverse.T), True)


def _truncated(K: np.ndarray, tol: float) -> Basis:
    values, vectors = eigh(K, check_finite=False)
    kept = values > tol * max(float(values[-1]), 0.0)
    if not np.any(kept):
        # Every row is k(x, .) = 0: one feature, zero for all, keeps the shapes whole.
        return Basis(np.zeros((K.shape[0], 1)), False)
    return Basis(np.ascontiguousarray(vectors[:, kept] / np.sqrt(values[kept])), False)
