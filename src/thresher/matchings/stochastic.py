r"""The nearest matrix with non-negative entries whose rows and columns sum to one, or nearly so.

.. math:: \min_{P \ge 0} \tfrac12 \|P - V\|_F^2
   + \tfrac{\kappa}{2} \left(\|P1 - 1\|^2 + \|P'1 - 1\|^2\right)

The answer is :math:`P = (V - r1' - 1c')_+` with one number for every row and column.  They minimise
a convex function with piecewise linear slopes, which Newton's method with a line search does in a
few steps; a step is conjugate gradients with the pattern of positive entries, O(n m) a product.
With infinite kappa the sums are exact, and P is the projection on the doubly stochastic matrices.
Where there are more columns than rows, columns sum to one at most: c >= 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

__all__ = ["Multipliers", "nearest_stochastic"]

_NEWTON_STEPS = 50
_CONJUGATE_STEPS = 100
_HALVINGS = 30


class Multipliers(NamedTuple):
    """What is taken from every entry of a row, and of a column."""

    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def none(cls, shape: tuple[int, int]) -> Multipliers:
        return cls(np.zeros(shape[0]), np.zeros(shape[1]))


def nearest_stochastic(
    V: np.ndarray,
    kappa: float = np.inf,
    start: Multipliers | None = None,
    tol: float = 1e-9,
) -> tuple[np.ndarray, Multipliers]:
    """The matrix above and its multipliers, a good start for a V nearby.

    Entries of V that are -inf stay zero.  ``tol`` bounds the error of every sum.
    """
    n, m = V.shape
    if n > m:
        P, (columns, rows) = nearest_stochastic(
            V.T, kappa, start and Multipliers(*start[::-1]), tol
        )
        return P.T, Multipliers(rows, columns)
    rounding = 10.0 * float(np.finfo(V.dtype).eps)
    dual = _Dual(V, 1.0 / kappa, n < m)
    place = np.concatenate(Multipliers.none(V.shape) if start is None else start)
    place = dual.with_entries(place)
    value, P, slope, _ = dual.at(place)
    for _ in range(_NEWTON_STEPS):
        free = ~(dual.bounded & (place <= 0.0) & (slope > 0.0))
        if np.max(np.abs(slope[free]), initial=0.0) <= tol:
            break
        step = -dual.newton(P, np.where(free, slope, 0.0), free)
        length, promised = 1.0, float(slope @ step)
        for _ in range(_HALVINGS):
            trial = dual.allowed(place + length * step)
            found = dual.at(trial)
            if found[0] <= value + 1e-4 * length * promised + rounding * abs(value):
                break
            length /= 2.0
        place, (value, P, slope, sums) = trial, found
        if not sums.all():  # an empty line
            place = dual.with_entries(place)
            value, P, slope, _ = dual.at(place)
    return P, Multipliers(place[:n], place[n:])


class _Dual:
    """The convex function of all multipliers, rows before columns, that the best ones minimise."""

    def __init__(self, V: np.ndarray, softness: float, at_most: bool):
        self.V, self.softness = V, softness
        self.bounded = np.arange(sum(V.shape)) >= (V.shape[0] if at_most else sum(V.shape))

    def at(self, place: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Value, the matrix P there, the slope (one minus the sums of P, if they are hard), and
        these sums."""
        n = self.V.shape[0]
        taken = place.astype(self.V.dtype)
        P = np.empty_like(self.V)
        sums = np.zeros(place.size)
        squares = _positive_part(self.V, taken[:n], taken[n:], P, sums[:n], sums[n:])
        value = 0.5 * squares + place.sum() + 0.5 * self.softness * (place @ place)
        return float(value), P, 1.0 - sums + self.softness * place, sums

    def allowed(self, place: np.ndarray) -> np.ndarray:
        return np.where(self.bounded, np.maximum(place, 0.0), place)

    def with_entries(self, place: np.ndarray) -> np.ndarray:
        """Rows, then columns, that would be empty get a first entry, as far as that is a descent.

        Where nothing is positive the function is straight, and Newton's step would not know how
        far to go.
        """
        n = self.V.shape[0]
        most = -1.0 / self.softness if self.softness > 0.0 else -np.inf  # best for an empty line
        for axis, part, other in (
            (1, slice(0, n), slice(n, None)),
            (0, slice(n, None), slice(0, n)),
        ):
            taken = place[other] if axis == 1 else place[other][:, None]
            highest = np.max(self.V - taken, axis=axis)
            first = np.maximum(highest - 1.0 / self.V.shape[axis], most)
            empty = (place[part] >= highest) & np.isfinite(first)
            place = place.copy()
            place[part] = np.where(empty, first, place[part])
        return self.allowed(place)

    def newton(self, P: np.ndarray, slope: np.ndarray, free: np.ndarray) -> np.ndarray:
        """The Hessian's inverse times the slope among free multipliers, by conjugate gradients.

        Rows or columns without a positive entry have no curvature: a little is added.
        """
        n = P.shape[0]
        active = (P > 0.0).astype(P.dtype)
        diagonal = np.concatenate([active.sum(axis=1), active.sum(axis=0)]) + self.softness
        diagonal += 1e-10 * max(float(diagonal.max()), 1.0)
        diagonal[diagonal < 0.5] = 0.5

        def product(x: np.ndarray) -> np.ndarray:
            short = x.astype(P.dtype, copy=False)
            across = np.concatenate([active @ short[n:], short[:n] @ active])
            return np.where(free, diagonal * x + across, 0.0)

        step, rest = np.zeros_like(slope), slope.copy()
        scaled = rest / diagonal
        direction, size = scaled.copy(), float(rest @ scaled)
        goal = 1e-6 * size
        for _ in range(_CONJUGATE_STEPS):
            if size <= goal or size == 0.0:
                break
            bent = product(direction)
            length = size / float(direction @ bent)
            step += length * direction
            rest -= length * bent
            scaled = rest / diagonal
            size, before = float(rest @ scaled), size
            direction = scaled + (size / before) * direction
        return step


# Sums of one sign may be taken in any order.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _positive_part(V, from_rows, from_columns, P, row_sums, column_sums):
    """P = (V - r1' - 1c')_+ and its sums, in one pass; the sum of its squares."""
    squares = 0.0
    for i in range(V.shape[0]):
        taken, total, here = from_rows[i], 0.0, 0.0
        for j in range(V.shape[1]):
            left = V[i, j] - taken - from_columns[j]
            left = left if left > 0.0 else V.dtype.type(0.0)
            P[i, j] = left
            total += left
            column_sums[j] += left
            here += left * left
        row_sums[i] = total
        squares += here
    return squares
