r"""The quadratic term of convex sorting in the coordinates in which it is a sum of squares.

With :math:`K = U \operatorname{diag}(a) U'` and :math:`L = V \operatorname{diag}(b) V'`,

.. math:: \|KP - PL\|_F^2 = \sum_{ij} (a_i - b_j)^2 Q_{ij}^2, \qquad Q = U'PV,

so that its proximal step, the inverse of a matrix with m^4 entries, is one division an entry.  With
the r largest eigenvalues of each only (the others count as zero) a step costs three products of
m x m with m x r matrices instead of four of m x m.  Of smooth kernels a few eigenvalues have nearly
all of the size, and those far below the usual one change nothing that a step can see.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from thresher._random import generator

__all__ = ["Coupling", "Spectrum"]

_WORTH_IT = 0.6  # of all eigenvectors: with more of them a step is no faster than with all


class Spectrum(NamedTuple):
    """Eigenvalues, the vectors that belong to them, and the squared size of the whole matrix."""

    values: np.ndarray
    vectors: np.ndarray  # columns
    energy: float

    @classmethod
    def of(cls, K: np.ndarray, rank: int | None = None) -> Spectrum:
        """All eigenpairs of a symmetric matrix, or the ``rank`` largest in size.  O(m^3)."""
        values, vectors = eigh(K)
        return cls(values, vectors, _squares(K)).largest(rank)

    @classmethod
    def by_landmarks(
        cls, K: np.ndarray, landmarks: int, seed: int, rank: int | None = None
    ) -> Spectrum:
        """Nearly the largest eigenpairs, from the columns of some objects.  O(m^2 landmarks).

        The columns span a space as in Nystroem's method; the eigenpairs are those of K within it
        (Rayleigh and Ritz), which is nearer to K than what the columns alone tell.
        """
        chosen = np.sort(generator(seed, 41).choice(len(K), min(landmarks, len(K)), False))
        basis = np.linalg.qr(K[:, chosen])[0]
        values, turned = eigh(basis.T @ (K @ basis))
        return cls(values, basis @ turned, _squares(K)).largest(rank)

    def largest(self, rank: int | None) -> Spectrum:
        """The ``rank`` eigenpairs of largest size; all for None."""
        if rank is None or rank >= self.values.size:
            return self
        return self._only(np.sort(np.argsort(np.abs(self.values))[-rank:]))

    def above(self, size: float) -> Spectrum:
        """The eigenpairs above a size, if they are few enough to gain from that."""
        kept = np.flatnonzero(np.abs(self.values) > size)
        return self if kept.size > _WORTH_IT * len(self.vectors) else self._only(kept)

    def _only(self, kept: np.ndarray) -> Spectrum:
        vectors = np.ascontiguousarray(self.vectors[:, kept])
        return Spectrum(self.values[kept], vectors, self.energy)

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
        """The mean of a_i² + b_j² over all eigenvalues: what a usual change of P costs."""
        n, m = self.left.vectors.shape[0], self.right.vectors.shape[0]
        return self.left.energy / n + self.right.energy / m

    def without_small(self, share: float) -> Coupling:
        """Without eigenvalues whose squares are below this share of the usual curvature."""
        size = float(np.sqrt(share * self.usual_curvature))
        return Coupling(self.left.above(size), self.right.above(size))

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


def _squares(K: np.ndarray) -> float:
    return float(np.linalg.norm(K)) ** 2
