r"""Quadratic programs over a kernel with bounds and a few equality rows.

.. math:: \min_z\; F(z) = \tfrac12 z'Qz + p'z, \quad l \le z \le u, \quad Az = r, \qquad
          Q_{ij} = k(x_{\rho(i)}, x_{\rho(j)})

Several variables may belong to the same row :math:`\rho(i)` of the kernel, so that only k over the
rows is ever computed: support vector regression has two for each row, one pulling up (0 .. c) and
one pulling down (-c .. 0), and no signs in Q.  With the multipliers eta of Az = r and
:math:`g = Qz + p + A'\eta` a solution has g >= 0 where z = l, g <= 0 where z = u, g = 0 between.

For every z within its bounds, feasible or not, and every eta

.. math:: F^* \ge F(z) - \sum_i \bigl(g_i z_i - \min(g_i l_i, g_i u_i)\bigr) + \eta'(Az - r),

which is the duality gap (Lee, 2011, chapter 4, has the problem; its Q carries signs that do not
belong there).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.kernels.functions import Kernel
from thresher.kernels.gram import blocks, gram

__all__ = ["Block", "EqualityQP", "violations"]

_AT_ONCE = 1 << 23  # kernel values of whole columns at a time


class Block(NamedTuple):
    """The program over some variables, the others fixed: what inner solvers are given.

    ``Q`` is over distinct rows of the kernel, ``row`` says which of them a variable belongs to;
    ``linear`` is p and what the fixed variables add to it, ``target`` what is left of r.
    """

    Q: np.ndarray
    row: np.ndarray
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray  # (equality rows, variables)
    target: np.ndarray

    @property
    def width(self) -> float:
        """Mean distance of the bounds: by it the violation of an equality is measured."""
        return float(np.mean(self.upper - self.lower))


class EqualityQP(NamedTuple):
    """The whole program.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix
        Rows of the kernel.
    columns : thresher.kernels.column_cache.ColumnCache
        k(x_i, .) of these rows, on demand.
    row : array of int64
        The row of X that each variable belongs to.
    linear, lower, upper : arrays of shape (variables,)
    A : array of shape (equality rows, rows of X)
        What a variable of a row counts in each equality.
    target : array of shape (equality rows,)
    """

    kernel: Kernel
    X: Any
    columns: Any
    row: np.ndarray
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    target: np.ndarray

    @classmethod
    def tube(
        cls, kernel: Kernel, X: Any, columns: Any, y: np.ndarray, epsilon: float,
        bound: np.ndarray, psi: np.ndarray,
    ) -> EqualityQP:  # fmt: skip
        """Of regression with the loss max(|residual| - epsilon, 0), free functions ``psi``."""
        n, zero = y.size, np.zeros(y.size)
        rows = np.arange(n)
        return cls(
            kernel, X, columns, np.concatenate([rows, rows]),
            np.concatenate([epsilon - y, -epsilon - y]), np.concatenate([zero, -bound]),
            np.concatenate([bound, zero]), np.ascontiguousarray(psi.T), np.zeros(psi.shape[1]),
        )  # fmt: skip

    @property
    def width(self) -> float:
        return float(np.mean(self.upper - self.lower))

    def weights(self, z: np.ndarray) -> np.ndarray:
        """The sum of the variables of every row: coefficients of the kernel expansion."""
        return np.bincount(self.row, z, minlength=self.columns.source.size)

    def slopes(self, images: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """g, with ``images`` = K weights(z)."""
        return (images + eta @ self.A)[self.row] + self.linear

    def residue(self, z: np.ndarray) -> np.ndarray:
        """Az - r."""
        return self.A @ self.weights(z) - self.target

    def objective(self, z: np.ndarray, images: np.ndarray) -> float:
        return float(0.5 * self.weights(z) @ images + self.linear @ z)

    def gap(self, z: np.ndarray, images: np.ndarray, eta: np.ndarray) -> float:
        """A bound on F(z) - F*; on the primal side, what the model costs beyond the optimum."""
        g = self.slopes(images, eta)
        least = np.minimum(g * self.lower, g * self.upper)
        return float(np.sum(g * z - least) - eta @ self.residue(z))

    def images(self, weights: np.ndarray) -> np.ndarray:
        """K weights from scratch: kernel values in blocks, kept nowhere."""
        used = np.flatnonzero(weights)
        out = np.zeros(weights.size)
        for part in blocks(used.size, weights.size, _AT_ONCE, 16):
            some = used[part]
            values = gram(self.kernel, self.X[some], self.X)
            add_columns(values, weights[some], out)
        return out

    def moved(self, images: np.ndarray, change: np.ndarray) -> None:
        """images += K change, by the columns of the rows that changed."""
        used = np.flatnonzero(change)
        for part in blocks(used.size, images.size, _AT_ONCE, 16):
            some = used[part]
            add_columns(self.columns.take(some), change[some], images)

    def block(self, chosen: np.ndarray, z: np.ndarray, images: np.ndarray) -> Block:
        """The program over the ``chosen`` variables; ``images`` are those of z."""
        rows, row = np.unique(self.row[chosen], return_inverse=True)
        Q = gram(self.kernel, self.X[rows].astype(np.float64))
        mine = np.bincount(row, z[chosen], minlength=rows.size)
        linear = (images[rows] - Q @ mine)[row] + self.linear[chosen]
        A = np.ascontiguousarray(self.A[:, self.row[chosen]])
        target = A @ z[chosen] - self.residue(z)
        return Block(Q, row, linear, self.lower[chosen], self.upper[chosen], A, target)


def violations(z: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """How far each variable is from its condition, in the units of g."""
    inward = np.where(z <= lower, -g, np.where(z >= upper, g, np.abs(g)))
    return np.maximum(inward, 0.0)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def add_columns(columns, factors, out):
    """out += factors . columns, eight columns at a time, sums in double precision."""
    count = factors.size
    whole = count - count % 8
    for k in range(0, whole, 8):
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        f4, f5, f6, f7 = factors[k + 4], factors[k + 5], factors[k + 6], factors[k + 7]
        for j in range(out.size):
            out[j] += (
                f0 * columns[k, j] + f1 * columns[k + 1, j] + f2 * columns[k + 2, j]
                + f3 * columns[k + 3, j] + f4 * columns[k + 4, j] + f5 * columns[k + 5, j]
                + f6 * columns[k + 6, j] + f7 * columns[k + 7, j]
            )  # fmt: skip
    for k in range(whole, count):
        for j in range(out.size):
            out[j] += factors[k] * columns[k, j]
