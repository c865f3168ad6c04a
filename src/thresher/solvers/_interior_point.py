r"""A primal-dual interior-point method for box-constrained programs with a few equality rows.

.. math:: \min_z\; \tfrac12 z'Qz + p'z, \quad l \le z \le u, \quad Az = r

Mehrotra's predictor and corrector (1992): every iteration solves
:math:`(Q + D)\,\Delta z + A'\Delta\eta = \cdot`, :math:`A\,\Delta z = \cdot` for a diagonal
:math:`D > 0` by one factor of Q + D and the K x K Schur complement :math:`A (Q+D)^{-1} A'`.  Ten to
twenty iterations suffice whatever the bounds: neither dependent columns of Q nor a large c matter,
which is where steps along the gradient fail.  At the end variables within a millionth of a bound
are put on it, if its multiplier says more than that distance: with a large c a millionth of it is
no small step.

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


class _Point(NamedTuple):
    """Variables, multipliers of the equalities, and those of the lower and upper bounds."""

    z: np.ndarray
    eta: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def moved(self, step: _Point, length: float) -> _Point:
        return _Point(*(own + length * change for own, change in zip(self, step, strict=True)))


class _Program(NamedTuple):
    Q: Curvature
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    target: np.ndarray

    def slopes(self, z: np.ndarray, eta: np.ndarray) -> np.ndarray:
        return self.Q.times(z) + self.linear + eta @ self.A


class _System:
    """Newton's equations at a point, factored."""

    def __init__(self, program: _Program, point: _Point, trace: float):
        least = 1e-15 * (program.upper - program.lower)
        self.A, self.point, self._trace = program.A, point, trace
        self.below = np.maximum(point.z - program.lower, least)
        self.above = np.maximum(program.upper - point.z, least)
        self.dual = program.slopes(point.z, point.eta) - point.low + point.high
        self.primal = program.A @ point.z - program.target
        self.mu = self._products(point, self.below, self.above)
        self.worst = float(max(np.max(point.low * self.below), np.max(point.high * self.above)))

    def factor(self, Q: Curvature) -> bool:
        """False where no more digits are left."""
        self._solve = Q.factor(
            self.point.low / self.below + self.point.high / self.above + self._trace
        )
        self._images = self._solve(self.A.T) if self.A.shape[0] else self.A.T
        self._schur = self.A @ self._images
        return bool(np.all(np.isfinite(self._schur)))

    def _products(self, point: _Point, below: np.ndarray, above: np.ndarray) -> float:
        return float(point.low @ below + point.high @ above) / (2 * below.size)

    def direction(self, to_low: Any, to_high: Any) -> _Point:
        """Newton's step, the products of slacks and multipliers aimed at these numbers."""
        low, high = self.point.low, self.point.high
        right = to_low / self.below - to_high / self.above - self.dual - low + high
        alone = self._solve(right[:, None])[:, 0]
        missed = self.A @ alone + self.primal
        eta = np.linalg.lstsq(self._schur, missed, rcond=1e-14)[0] if missed.size else missed
        z = alone - self._images @ eta
        return _Point(
            z, eta, (to_low - low * z) / self.below - low, (to_high + high * z) / self.above - high
        )

    def length(self, step: _Point) -> float:
        """How far everything stays positive, a little less."""
        return min(
            _reach(self.below, step.z), _reach(self.above, -step.z),
            _reach(self.point.low, step.low), _reach(self.point.high, step.high),
        )  # fmt: skip

    def corrected(self) -> _Point:
        """Mehrotra's step: as near to the centre as a first look says, and of second order."""
        first = self.direction(0.0, 0.0)
        length = self.length(first)
        aimed = self._products(
            self.point.moved(first, length),
            self.below + length * first.z, self.above - length * first.z,
        )  # fmt: skip
        centre = self.mu * min(max(aimed / self.mu, 0.0), 1.0) ** 3
        return self.direction(centre - first.low * first.z, centre + first.high * first.z)


def _reach(values: np.ndarray, change: np.ndarray) -> float:
    falls = change < 0.0
    return min(1.0, 0.995 * float(np.min(-values[falls] / change[falls]))) if falls.any() else 1.0


def interior_point(
    Q: Curvature, linear: np.ndarray, lower: np.ndarray, upper: np.ndarray, A: np.ndarray,
    target: np.ndarray, start: tuple[np.ndarray, np.ndarray], tol: float, scale: float,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """A solution whose violations are about ``tol``, its multipliers, and the iterations.

    ``scale`` is the mean diagonal of Q.
    """
    program = _Program(Q, linear, lower, upper, A, target)
    width = upper - lower
    mean, done = float(np.mean(width)), 0
    z, eta = np.clip(start[0], lower + 0.1 * width, upper - 0.1 * width), start[1].copy()
    slope = program.slopes(z, eta)
    push = max(0.1 * float(np.mean(np.abs(slope))), tol)
    point = _Point(z, eta, np.maximum(slope, 0.0) + push, np.maximum(-slope, 0.0) + push)
    while done < _MOST:
        system = _System(program, point, _TRACE * scale)
        least = 0.1 * _SNAP * tol * mean
        # Also of each: one that lags behind is neither put on its bound nor free.
        centred = system.mu <= least and system.worst <= 10.0 * least
        feasible = np.max(np.abs(system.primal), initial=0.0) <= 1e-2 * tol * mean
        if (centred and feasible and np.max(np.abs(system.dual)) <= 0.1 * tol) or not (
            system.mu > 0.0 and system.factor(Q)
        ):
            break
        step = system.corrected()
        length = system.length(step)
        if not (length > 1e-10 and all(np.all(np.isfinite(part)) for part in step)):
            break
        point, done = point.moved(step, length), done + 1
    below, above = point.z - lower, upper - point.z
    z = np.where((below < _SNAP * width) & (point.low > scale * below), lower, point.z)
    z = np.where((above < _SNAP * width) & (point.high > scale * above), upper, z)
    return np.clip(z, lower, upper), point.eta, done
