"""Kernel expansions over many support vectors, and duels of classes made of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, require
from thresher.functions.over_vectors import OverVectors, products
from thresher.functions.units import Units
from thresher.kernels.functions import Kernel

__all__ = ["Duels", "SupportFunction"]


class _SupportFields(NamedTuple):
    kernel: Kernel
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    units: Units | None = None


class _DuelFields(NamedTuple):
    kernel: Kernel
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    starts: np.ndarray
    units: Units | None = None


class SupportFunction(OverVectors, _SupportFields):
    """sum_j coef[c, j] k(z_j, x) + intercept[c], the vectors z and x in ``units`` if given.

    For as many vectors as an exact machine has: kernel values are computed in blocks by BLAS, and
    the vectors may be sparse.

    Parameters
    ----------
    kernel : Kernel
        The k of the sum.
    vectors : array or CSR matrix of shape (support vectors, features)
        The z, in ``units``.
    coef : array of shape (outputs, support vectors)
    intercept : array of shape (outputs,)
    units : Units or None, default=None
        Of the vectors; rows are read in them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import SupportFunction
    >>> from thresher.kernels import Linear
    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> f = SupportFunction(Linear(), vectors, np.array([[1.0, -1.0]]), np.array([0.5]))
    >>> f.scores(np.array([[3.0, 1.0]])).tolist(), f.describe()
    ([[1.5]], '2 support vectors')
    """

    __slots__ = ()

    def scores(self, X: Any) -> np.ndarray:
        return products(self.kernel, self.vectors, self.in_units(X), self.coef.T) + self.intercept


class Duels(OverVectors, _DuelFields):
    r"""A machine for every pair of classes, which share their support vectors; they vote.

    Vectors are sorted by class; one of class c has a coefficient in the duel with each of the k - 1
    others (``coef[d]``, d counting the others in their order), as in LIBSVM's files.  A positive
    duel i < j speaks for j.  The score of a class is the number of duels that it wins, plus the sum
    s of the duels' values squeezed into less than a half, :math:`s / (3 (|s| + 1))`, which breaks
    ties.

    Parameters
    ----------
    kernel : Kernel
    vectors : array or CSR matrix of shape (support vectors, features)
        In ``units``, those of the first class first.
    coef : array of shape (classes - 1, support vectors)
    intercept : array of shape (classes (classes - 1) / 2,)
        Of the duels (0, 1), (0, 2), ..., (1, 2), ...
    starts : int array of shape (classes + 1,)
        Where the vectors of each class begin.
    units : Units or None, default=None

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Duels
    >>> from thresher.kernels import Linear
    >>> vectors, starts = np.array([[-1.0], [0.5], [2.0]]), np.array([0, 1, 2, 3])
    >>> coef = np.array([[-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]])
    >>> f = Duels(Linear(), vectors, coef, np.array([0.0, -0.5, -1.0]), starts)
    >>> f.scores(np.array([[2.0]])).argmax(axis=1)
    array([2])
    """

    __slots__ = ()

    @property
    def outputs(self) -> int:
        return int(self.starts.size - 1)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The classes of every duel."""
        return [(i, j) for i in range(self.outputs) for j in range(i + 1, self.outputs)]

    def duels(self, X: Any) -> np.ndarray:
        """(rows, pairs): the value of every duel."""
        X, pieces = self.in_units(X), []
        for a, b in pairwise(self.starts.tolist()):
            pieces.append(products(self.kernel, self.vectors[a:b], X, self.coef[:, a:b].T))
        pairs = zip(self.pairs, self.intercept, strict=True)
        values = [pieces[i][:, j - 1] + pieces[j][:, i] + b for (i, j), b in pairs]
        return np.stack(values, axis=1)

    def scores(self, X: Any) -> np.ndarray:
        values = self.duels(X)
        votes, sums = (np.zeros((X.shape[0], self.outputs)) for _ in range(2))
        for (i, j), value in zip(self.pairs, values.T, strict=True):
            votes[:, i] += value <= 0.0
            votes[:, j] += value > 0.0
            sums[:, i] -= value
            sums[:, j] += value
        return votes + sums / (3.0 * (np.abs(sums) + 1.0))

    def describe(self) -> str:
        return f"{super().describe()}, {len(self.pairs)} pairs of classes"

    def check(self) -> None:
        starts = self.starts
        whole = isinstance(starts, np.ndarray) and starts.ndim == 1 and starts.dtype.kind == "i"
        require(whole and 3 <= starts.size < 10_000, "the places of the classes are damaged")
        require(isinstance(self.kernel, Kernel), "kernel_ must be a Kernel")
        self.kernel.check()
        self.check_tables(self.outputs - 1)
        ends = starts[0] == 0 and starts[-1] == self.vectors.shape[0]
        require(ends and np.all(np.diff(starts) >= 0), "the places of the classes are damaged")
        check_numbers("intercept_", self.intercept, (len(self.pairs),))

    def _wide(self) -> np.ndarray:
        """(support vectors, pairs): one column for each duel."""
        out = np.zeros((self.vectors.shape[0], len(self.pairs)))
        for p, (i, j) in enumerate(self.pairs):
            for c, d in ((i, j - 1), (j, i)):
                part = slice(int(self.starts[c]), int(self.starts[c + 1]))
                out[part, p] = self.coef[d, part]
        return out

    def to_onnx(self, graph: Any, rows: str) -> str:
        values = self.onnx_products(graph, rows, self._wide())
        values = graph.add("Add", values, graph.constant(self.intercept.astype(np.float64)))
        sides = np.zeros((len(self.pairs), self.outputs))
        for p, (i, j) in enumerate(self.pairs):
            sides[p, i], sides[p, j] = -1.0, 1.0
        won = graph.add("Greater", values, graph.constant(0.0))
        half = graph.constant(0.5)
        signed = graph.add("Where", won, half, graph.constant(-0.5))  # of j's side
        votes = graph.add("MatMul", signed, graph.constant(sides))
        votes = graph.add("Add", votes, graph.constant(0.5 * np.abs(sides).sum(axis=0)))
        sums = graph.add("MatMul", values, graph.constant(sides))
        size = graph.add("Add", graph.add("Abs", sums), graph.constant(1.0))
        squeezed = graph.add("Div", sums, graph.add("Mul", size, graph.constant(3.0)))
        return graph.add("Add", votes, squeezed)
