r"""The quadratic term of convex sorting in the coordinates in which it is a sum of squares.

With :math:`K = U \operatorname{diag}(a) U'` and :math:`L = V \operatorname{diag}(b) V'`,

.. math:: \|KP - PL\|_F^2 = \sum_{ij} (a_i - b_j)^2 Q_{ij}^2, \qquad Q = U'PV,

so that its proximal step, the inverse of a matrix with m^4 entries, is one division an entry.  With
the r largest eigenvalues of each only (the others count as zero) a step costs three products of
m x m with m x r matrices instead of four of m x m.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

__all__ = ["Coupling", "Spectrum"]


class Spectrum(NamedTuple):
    """Eigenvalues, the largest in size last, and the vectors that belong to them."""

    values: np.ndarray
    vectors: np.ndarray  # columns

    @classmethod
    def of(cls, K: np.ndarray, rank: int | None = None) -> Spectrum:
        """All eigenpairs of a symmetric matrix, or the ``rank`` largest in size."""
        values, vectors = eigh(K)
        if rank is not None and rank < values.size:
            kept = np.sort(np.argsort(np.abs(values))[-rank:])
            values, vectors = values[kept], np.ascontiguousarray(vectors[:, kept])
        return cls(values, vectors)

    @property
    def is_whole(self) -> bool:
        return self.vectors.shape[0] == self.vectors.shape[1]


class Coupling:
    """The term ‖KP - PL‖² of two spectra: its value, gradient and proximal step."""

    def __init__(self, left: Spectrum, right: Spectrum):
        self.left, self.right = left, right
        self.curvature = (left.values[:, None] - right.values) ** 2

    @property
    def usual_curvature(self) -> float:
        """The mean of a_i² + b_j²: what a change of P costs that has no part in either kernel."""
        n, m = self.left.vectors.shape[0], self.right.vectors.shape[0]
        return float(np.sum(self.left.values**2) / n + np.sum(self.right.values**2) / m)

    def value(self, P: np.ndarray) -> float:
        return float(np.sum(P * self.gradient(P))) / 2.0

    def gradient(self, P: np.ndarray) -> np.ndarray:
        """2 (K E - E L) with E = KP - PL."""
        a, b = self.left.values, self.right.values
        return self._filtered(P, 2.0 * self.curvature, 2.0 * a**2, 2.0 * b**2, 0.0)

    def proximal(self, P: np.ndarray, rho: float) -> np.ndarray:
        """The minimiser of ‖KX - XL‖² + rho/2 ‖X - P‖² over X."""

        def share(curvature: np.ndarray) -> Any:
            return rho / (rho + 2.0 * curvature)

        a, b = self.left.values, self.right.values
        return self._filtered(P, share(self.curvature), share(a**2), share(b**2), 1.0)

    def _filtered(
        self, P: np.ndarray, both: np.ndarray, left: Any, right: Any, neither: float
    ) -> np.ndarray:
        """P with its part along u_i and v_j times both[i, j], along u_i alone times left[i], ..."""
        U, V = self.left.vectors, self.right.vectors
        if self.left.is_whole and self.right.is_whole:
            return U @ ((U.T @ P @ V) * both) @ V.T
        seen_left, seen_right = U.T @ P, P @ V
        core = (seen_left @ V) * (both - left[:, None] - right + neither)
        along_left = core @ V.T + (left - neither)[:, None] * seen_left
        return neither * P + U @ along_left + (seen_right * (right - neither)) @ V.T
