r"""Columns of a Gram matrix that is too large to hold, for solvers of the dual.

A dual solver asks for the columns :math:`k(x_i, \cdot)` of a few rows at a time, and often for the
same again.  They are computed in blocks (`gram.py`), kept in single precision as long as ``memory``
lasts, and the column that was not asked for the longest makes room.  The diagonal is exact.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from thresher.kernels.functions import Kernel
from thresher.kernels.gram import Points, self_values

__all__ = ["Columns"]


class Columns:
    """The columns of k(x_i, x_j) over the rows of X, computed when they are asked for.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix
    memory : float, default=2e8
        Bytes that the kept columns may take; at least two are kept.

    Attributes
    ----------
    diagonal : array of shape (n,)
        k(x_i, x_i), in float64.
    computed : int
        Columns that were computed so far.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.columns import Columns
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> columns = Columns(RBF(0.5), X)
    >>> columns.take(np.array([3, 7])).shape, columns.computed
    ((2, 100), 2)
    >>> columns.take(np.array([7])).shape, columns.computed
    ((1, 100), 2)
    """

    def __init__(self, kernel: Kernel, X: Any, memory: float = 2e8):
        self.kernel, self.X = kernel, X
        self.size = int(X.shape[0])
        self.diagonal = self_values(kernel, X.astype(np.float64))
        self.computed = 0
        self._points = Points(kernel, X)
        slots = min(max(int(memory // (4 * max(self.size, 1))), 2), max(self.size, 1))
        self._kept = np.empty((slots, self.size), dtype=np.float32)
        self._free = list(range(slots))
        self._places: OrderedDict[int, int] = OrderedDict()  # row -> slot, the oldest first

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows), n): the columns of these rows, which are the matrix's rows as well."""
        missing = [i for i in dict.fromkeys(rows.tolist()) if i not in self._places]
        fresh = dict(zip(missing, self._computed(missing), strict=True))
        out = np.empty((rows.size, self.size), dtype=np.float32)
        for r, i in enumerate(rows.tolist()):
            if i in fresh:
                out[r] = fresh[i]
            else:
                self._places.move_to_end(i)
                out[r] = self._kept[self._places[i]]
        for i, column in fresh.items():
            self._keep(i, column)
        return out

    def _computed(self, rows: list[int]) -> np.ndarray:
        self.computed += len(rows)
        return self._points(self.X[rows]).astype(np.float32, copy=False) if rows else self._kept[:0]

    def _keep(self, row: int, column: np.ndarray) -> None:
        slot = self._free.pop() if self._free else self._places.popitem(last=False)[1]
        self._kept[slot] = column
        self._places[row] = slot
