r"""Symmetric systems over features and a free intercept, solved around the mean of the rows.

The matrices of least squares and Newton's method are sums of :math:`h\,\tilde x\tilde x'` over the
rows, :math:`\tilde x = (x, 1)`, plus a ridge :math:`\Lambda` for the features:

.. math:: A = \begin{pmatrix} X'HX + \Lambda & X'h \\ h'X & \sum h \end{pmatrix}, \qquad
          S = X'HX + \Lambda - \sum h\; m m', \quad m = X'h / \sum h .

Eliminating the intercept leaves S, the matrix of the rows less their mean m.  Only S, with every
feature in the unit that makes its diagonal one, gets a trace of curvature: the solution then does
not depend on where the zero of a feature is, nor on its unit.  (A trace that is measured by the
diagonal of A, and given to the intercept too, outweighs the rows themselves where features are
far from zero.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

__all__ = ["Factored", "factored", "mirrored", "whole_hessian"]

_TRACE = 1e-12  # of curvature, for directions that neither rows nor penalty hold
_ROUNDING = 1e-15  # of a square about zero may be missing in the square about the mean
_LEAST = 1e-20  # curvature where there is none at all: the line search bounds the step


class Factored(NamedTuple):
    """The matrix A as a factor of S: ``solve`` costs two triangular systems.

    Parameters
    ----------
    lower : array of shape (features, features)
        Cholesky's factor of S in the features' units.
    unit : array of shape (features,)
        By which S and its right-hand sides are multiplied.
    mean : array of shape (features,)
        Of the rows; zero without an intercept.
    level : float or None
        Sum of h, the curvature of the intercept; None: there is none.
    """

    lower: np.ndarray
    unit: np.ndarray
    mean: np.ndarray
    level: float | None

    @property
    def size(self) -> int:
        return self.unit.size + (self.level is not None)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """A^-1 b, for one right-hand side or for columns of them."""
        d = self.unit.size
        columns = b.reshape(self.size, -1)
        if self.level is None:
            return (self.unit[:, None] * self._inner(columns)).reshape(b.shape)
        out = np.empty_like(columns, dtype=np.float64)
        out[:d] = self.unit[:, None] * self._inner(columns[:d] - np.outer(self.mean, columns[d]))
        out[d] = columns[d] / self.level - self.mean @ out[:d]
        return out.reshape(b.shape)

    def _inner(self, columns: np.ndarray) -> np.ndarray:
        return cho_solve((self.lower, True), self.unit[:, None] * columns, check_finite=False)

    def whitener(self) -> np.ndarray:
        """The lower triangle V with V' V = S^-1.

        x' A^-1 x is then |V (x - mean)|^2, and 1 / level more with an intercept.
        """
        return solve_triangular(self.lower, np.eye(self.unit.size), lower=True) * self.unit


def factored(matrix: np.ndarray, ridge: np.ndarray, fit_intercept: bool) -> Factored:
    """Factor a symmetric ``matrix`` over (features, intercept) plus a ridge for the features.

    Where rounding has left it not quite positive, more is added.
    """
    d = ridge.size
    S, level, mean = matrix[:d, :d].copy(), None, np.zeros(d)
    raw = np.diag(S).copy()
    if fit_intercept:
        level = float(matrix[d, d])
        if level > 0.0:
            mean = matrix[:d, d] / level
            S -= np.outer(matrix[:d, d], mean)
    diagonal = np.maximum(np.diag(S), 0.0) + ridge + _ROUNDING * raw
    none = max(_TRACE * float(np.mean(diagonal)) if d else 0.0, _LEAST)
    if level is not None and level <= 0.0:
        level = none
    unit = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, none))
    S *= unit[:, None]
    S *= unit
    return Factored(_cholesky(S), unit, mean, level)


def _cholesky(S: np.ndarray) -> np.ndarray:
    """Of a matrix whose diagonal should be one, with as much more of it as it takes."""
    more = _TRACE
    while True:
        S[np.diag_indices_from(S)] = 1.0 + more
        try:
            return cholesky(S, lower=True)
        except LinAlgError:
            more *= 100.0


def whole_hessian(added: np.ndarray) -> np.ndarray:
    """The symmetric matrix of one to which each pair of features was added once, below or above the
    diagonal, and the intercept's line and column both."""
    d = added.shape[0] - 1
    whole = added + added.T
    whole[np.diag_indices_from(whole)] = np.diag(added)
    whole[d, :d] = whole[:d, d] = added[d, :d]
    return whole


def mirrored(upper: np.ndarray) -> np.ndarray:
    """The symmetric matrix of an upper triangle."""
    whole = np.triu(upper)
    whole += np.triu(whole, 1).T
    return whole
