r"""A primal-dual interior-point method for box-constrained programs with a few equality rows.

.. math:: \min_z\; \tfrac12 z'Qz + p'z, \quad l \le z \le u, \quad Az = r

Mehrotra's predictor and corrector (1992): every iteration solves
:math:`(Q + D)\,\Delta z + A'\Delta\eta = \cdot`, :math:`A\,\Delta z = \cdot` for a diagonal
:math:`D > 0` by one factor of Q + D and the K x K Schur complement :math:`A (Q+D)^{-1} A'`.  Ten to
twenty iterations suffice whatever the bounds: neither dependent columns of Q nor a large c matter,
which is where steps along the gradient fail.  At the end variables within a millionth of a bound
are put on it.

Q is one of two *curvatures*: a matrix over the rows of a kernel, for working sets and small
problems (O(n^3) an iteration), or a low-rank factor :math:`GG'` by the identity of Woodbury,
O(n s^2), for approximate solutions of large ones (Fine and Scheinberg, 2001).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

__all__ = ["Curvature", "LowRank", "WholeMatrix", "interior_point"]

_TRACE = 1e-10  # of the mean diagonal, added to Q + D: free variables may be dependent
_SNAP = 1e-6  # of the distance of the bounds
_MOST = 80


class Curvature(Protocol):
    """Q, as the method needs it."""

    def times(self, z: np.ndarray) -> np.ndarray: ...
    def factor(self, diagonal: np.ndarray) -> Any:
        """What solves (Q + diagonal) x = b for columns b."""


class WholeMatrix(NamedTuple):
    """Q[i, j] = K[row[i], row[j]]."""

    K: np.ndarray
    row: np.ndarray

    def times(self, z: np.ndarray) -> np.ndarray:
        return (self.K @ np.bincount(self.row, z, minlength=self.K.shape[0]))[self.row]

    def factor(self, diagonal: np.ndarray) -> Any:
        """Variables of the same row are added up: one system over the rows, by Woodbury.

        With E the table of which variable belongs to which row and S = E' D^-1 E,
        (D + E K E')^-1 = D^-1 - D^-1 E S^-1/2 [I - (I + S^1/2 K S^1/2)^-1] S^-1/2 E' D^-1.
        """
        inverse = 1.0 / diagonal
        root = np.sqrt(np.bincount(self.row, inverse, minlength=self.K.shape[0]))
        system = self.K * root[:, None]
        system *= root
        factor = _cholesky(system, 1.0)

        def solve(b: np.ndarray) -> np.ndarray:
            first = inverse * b.T
            sums = np.stack([np.bincount(self.row, line, minlength=root.size)
                             for line in np.atleast_2d(first)]) / root  # fmt: skip
            kept = cho_solve(factor, sums.T, check_finite=False).T
            back = ((sums - kept) / root)[:, self.row].reshape(first.shape)
            return (first - inverse * back).T

        return solve


class LowRank(NamedTuple):
    """Q[i, j] = G[row[i]] . G[row[j]]."""

    G: np.ndarray
    row: np.ndarray

    def times(self, z: np.ndarray) -> np.ndarray:
        sums = np.bincount(self.row, z, minlength=self.G.shape[0])
        return (self.G @ (self.G.T @ sums))[self.row]

    def factor(self, diagonal: np.ndarray) -> Any:
        inverse = 1.0 / diagonal
        mass = np.bincount(self.row, inverse, minlength=self.G.shape[0])
        weighed = self.G * np.sqrt(mass)[:, None]
        factor = _cholesky(weighed.T @ weighed, 1.0)

        def solve(b: np.ndarray) -> np.ndarray:
            first = inverse * b.T
            sums = np.stack([np.bincount(self.row, line, minlength=mass.size)
                             for line in np.atleast_2d(first)])  # fmt: skip
            inner = cho_solve(factor, (sums @ self.G).T, check_finite=False)
            back = (self.G @ inner).T[:, self.row].reshape(first.shape)
            return (first - inverse * back).T

        return solve


def _cholesky(matrix: np.ndarray, diagonal: float) -> Any:
    """Of matrix + diagonal I, which rounding may have left not quite positive."""
    own = np.diag(matrix).copy()
    more = 0.0
    while True:
        matrix[np.diag_indices_from(matrix)] = own + diagonal + more
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            more = max(100.0 * more, 1e-13 * float(np.max(own, initial=1.0)))


def interior_point(
    Q: Curvature, linear: np.ndarray, lower: np.ndarray, upper: np.ndarray, A: np.ndarray,
    target: np.ndarray, start: tuple[np.ndarray, np.ndarray], tol: float, scale: float,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """A solution whose violations are about ``tol``, its multipliers, and the iterations.

    ``scale`` is the mean diagonal of Q.
    """
    width = upper - lower
    mean, least = float(np.mean(width)), 1e-15 * width
    z, eta = np.clip(start[0], lower + 0.1 * width, upper - 0.1 * width), start[1].copy()
    slope = Q.times(z) + linear + eta @ A
    push = max(0.1 * float(np.mean(np.abs(slope))), tol)
    low, high = np.maximum(slope, 0.0) + push, np.maximum(-slope, 0.0) + push
    for done in range(_MOST):
        below, above = np.maximum(z - lower, least), np.maximum(upper - z, least)
        dual = Q.times(z) + linear + eta @ A - low + high
        primal = A @ z - target
        mu = float(low @ below + high @ above) / (2 * z.size)
        settled = mu <= 0.1 * _SNAP * tol * mean and np.max(np.abs(dual)) <= 0.1 * tol
        if settled and np.max(np.abs(primal), initial=0.0) <= 1e-2 * tol * mean:
            break
        solve = Q.factor(low / below + high / above + _TRACE * scale)
        images = solve(A.T) if A.shape[0] else A.T
        schur = A @ images
        if not np.all(np.isfinite(schur)):  # no more digits are left
            break

        def direction(  # noqa: PLR0913
            toward_low, toward_high, below=below, above=above, dual=dual, primal=primal,
            solve=solve, images=images, schur=schur,
        ):  # fmt: skip
            """Newton's step to products ``toward``; its steps for z, eta and both slacks."""
            right = toward_low / below - toward_high / above - dual - low + high
            alone = solve(right[:, None])[:, 0]
            missed = A @ alone + primal
            step = np.linalg.lstsq(schur, missed, rcond=1e-14)[0] if missed.size else missed
            move = alone - images @ step
            return (
                move, step, (toward_low - low * move) / below - low,
                (toward_high + high * move) / above - high,
            )  # fmt: skip

        move, _, move_low, move_high = direction(0.0, 0.0)
        length = _length(below, above, low, high, move, move_low, move_high)
        aimed = float(
            (low + length * move_low) @ (below + length * move)
            + (high + length * move_high) @ (above - length * move)
        ) / (2 * z.size)
        centre = mu * min(max(aimed / mu, 0.0), 1.0) ** 3
        move, step, move_low, move_high = direction(
            centre - move_low * move, centre + move_high * move
        )
        length = _length(below, above, low, high, move, move_low, move_high)
        if not (length > 1e-10 and np.all(np.isfinite(move)) and np.all(np.isfinite(step))):
            break
        z, eta = z + length * move, eta + length * step
        low, high = low + length * move_low, high + length * move_high
    near_low, near_high = z - lower < _SNAP * width, upper - z < _SNAP * width
    z = np.where(near_low, lower, np.where(near_high, upper, z))
    return np.clip(z, lower, upper), eta, done


def _length(below, above, low, high, move, move_low, move_high) -> float:  # noqa: PLR0913
    """How far all stay positive, a little less."""
    return min(
        _reach(below, move), _reach(above, -move), _reach(low, move_low), _reach(high, move_high)
    )


def _reach(values: np.ndarray, change: np.ndarray) -> float:
    falls = change < 0.0
    return min(1.0, 0.995 * float(np.min(-values[falls] / change[falls]))) if falls.any() else 1.0
