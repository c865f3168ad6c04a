"""Machines of all pairs of classes, each of them one compiled call.

A pair of classes of a thousand rows takes LIBSVM three milliseconds; so what is done once, for all
pairs, matters as much as what is done for each: rows are sorted by class, so that a pair is two
runs of them, and the kernel values of a class with itself are computed once, by BLAS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thresher.kernels.column_cache import POOL
from thresher.kernels.columns import DenseRows
from thresher.solvers._duel_steps import duel, values_within
from thresher.solvers.base import Status
from thresher.solvers.decomposition import NOT_FINITE

__all__ = ["Duel", "SmallDuels"]

_FEWEST = 5  # classes; fewer make less than ten pairs, for which nothing more need be compiled
_MOST_ROWS = 3000  # of a pair; beyond, columns of members that do not move cost more than calls
_TABLES = 0.125  # of the memory, for the columns of a pair: several may be at work
_MATRICES = 0.5  # of the memory, for the values of classes with themselves
_FOREVER = 1 << 62


class Duel(NamedTuple):
    """sum_i coef_i k(x_i, x) + intercept over the rows of two classes, and how it was found."""

    coef: np.ndarray
    intercept: float
    scores: np.ndarray  # of the rows that it was learned from
    status: Status
    steps: int
    violation: float
    negative: int
    objective: float


class SmallDuels:
    """The machines of pairs of classes, asked for one by one, by several threads if need be.

    Parameters
    ----------
    rows : DenseRows
        Sorted by class.
    starts : int array of shape (classes + 1,)
        Where the rows of each class begin.
    bounds : array of shape (rows,)
        C times the weights.
    tol, memory : float
        As those of ``KernelDual``.
    max_steps : int or None
        Renewals of the working set of a pair, at most.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.columns import KernelColumns
    >>> from thresher.solvers.duels import SmallDuels
    >>> X, starts = np.array([[0.0], [1.0], [4.0], [5.0], [9.0]]), np.array([0, 2, 4, 5])
    >>> rows = KernelColumns(RBF(1.0), X).dense
    >>> duels = SmallDuels(rows, starts, np.full(5, 10.0), 1e-3, 2e8)
    >>> duels.between(0, 2).scores.round(2).tolist()
    [-1.0, -1.0, 1.0]
    """

    def __init__(
        self, rows: DenseRows, starts: np.ndarray, bounds: np.ndarray, tol: float, memory: float,
        max_steps: int | None = None,
    ):  # fmt: skip
        self._rows, self._starts, self._bounds, self._tol = rows, starts, bounds, tol
        self._most = _FOREVER if max_steps is None else max_steps
        sizes = np.diff(starts)
        self._has_matrices = 4.0 * float(np.sum(sizes**2)) <= _MATRICES * memory
        nothing = np.empty((0, 0), dtype=np.float32)
        self._own = [nothing] * sizes.size

    @staticmethod
    def fit_in(starts: np.ndarray, memory: float) -> bool:
        """Whether pairs are many, and all of them small enough."""
        largest = float(np.sort(np.diff(starts))[-2:].sum())
        small = largest <= _MOST_ROWS and 4.0 * largest**2 <= _TABLES * memory
        return small and starts.size > _FEWEST

    def prepare(self, c: int) -> None:
        """Compute the values of a class with itself, if there is room for those of all."""
        if not self._has_matrices:
            return
        kernel, X, squares, _ = self._rows
        own = slice(int(self._starts[c]), int(self._starts[c + 1]))
        count = own.stop - own.start
        matrix = np.empty((count, count), dtype=np.float32)
        values_within(kernel, X[own], squares[own], matrix)
        self._own[c] = matrix

    def between(self, i: int, j: int) -> Duel | None:
        """The machine with the class i on the negative side; None if rounding is in its way."""
        kernel, X, squares, diagonal = self._rows
        a, b, c, d = (int(self._starts[k]) for k in (i, i + 1, j, j + 1))
        n, cut = b - a + d - c, b - a
        z, G = np.empty(n), np.empty(n)
        buffer = POOL.lend(n * n)
        try:
            intercept, violation, steps, _, _, negative, has_stalled = duel(
                kernel, X, squares, diagonal, self._bounds, (a, b, c, d), self._own[i],
                self._own[j], buffer[: n * n].reshape(n, n), z, G, self._tol, self._most,
            )  # fmt: skip
        finally:
            POOL.give_back(buffer)
        if np.isnan(violation):
            raise ArithmeticError(NOT_FINITE)
        if has_stalled:
            return None
        status = Status.CONVERGED if violation <= self._tol else Status.MAX_ITER
        scores = G + intercept
        scores[:cut] -= 1.0
        scores[cut:] += 1.0
        objective = 0.5 * float(z @ G - z[cut:].sum() + z[:cut].sum())
        return Duel(z, intercept, scores, status, steps, violation, negative, objective)
