"""Kernel expansions over many support vectors, and duels of classes made of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.units import Units
from thresher.kernels.expansion import onnx_values
from thresher.kernels.functions import Kernel
from thresher.kernels.gram import Points, blocks

__all__ = ["Duels", "SupportFunction"]

_CELLS = 1 << 22  # kernel values at a time


def _products(function: Any, X: Any, coefs: np.ndarray) -> np.ndarray:
    """(rows, columns of coefs): kernel values times coefficients, block by block, by BLAS."""
    X = X if function.units is None else function.units.matrix(X)
    points = Points(function.kernel, function.vectors, function.vectors.dtype)
    out = np.empty((X.shape[0], coefs.shape[1]))
    for part in blocks(X.shape[0], points.size, _CELLS, 16):
        out[part] = points(X[part]) @ coefs
    return out


def _check(function: Any, coefs: int) -> None:
    require(isinstance(function.kernel, Kernel), "kernel_ must be a Kernel")
    function.kernel.check()
    require(np.ndim(function.coef) == 2, "dual_coef_ must be a table")
    require(len(np.shape(function.vectors)) == 2, "support_vectors_ must be a table")
    check_numbers("support_vectors_", function.vectors, function.vectors.shape)
    check_numbers("dual_coef_", function.coef, (coefs, function.vectors.shape[0]))
    if function.units is not None:
        function.units.check(function.vectors.shape[1])


class SupportFunction(NamedTuple):
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

    kernel: Kernel
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    units: Units | None = None

    def unscaled(self, units: Units | None) -> SupportFunction:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(units=units)

    @property
    def features(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    @property
    def size(self) -> int:
        return count_nonzero(self.coef) + count_nonzero(self.vectors)

    @property
    def basis(self) -> str:
        return str(self.kernel)

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        return _products(self, X, self.coef.T) + self.intercept

    def describe(self) -> str:
        return f"{self.vectors.shape[0]:,} support vectors"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.coef)) and np.all(np.isfinite(self.intercept)))

    def check(self) -> None:
        require(np.ndim(self.coef) == 2, "dual_coef_ must be a table")
        _check(self, self.outputs)
        check_numbers("intercept_", self.intercept, (self.outputs,))

    def to_onnx(self, graph: Any, rows: str) -> str:
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        values = onnx_values(graph, self.kernel, rows, self.vectors)
        products = graph.add("MatMul", values, graph.constant(self.coef.T.astype(np.float64)))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))


class Duels(NamedTuple):
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

    kernel: Kernel
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    starts: np.ndarray
    units: Units | None = None

    def unscaled(self, units: Units | None) -> Duels:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(units=units)

    @property
    def features(self) -> int:
        return int(self.vectors.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.starts.size - 1)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The classes of every duel."""
        return [(i, j) for i in range(self.outputs) for j in range(i + 1, self.outputs)]

    @property
    def size(self) -> int:
        return count_nonzero(self.coef) + count_nonzero(self.vectors)

    @property
    def basis(self) -> str:
        return str(self.kernel)

    def columns(self, X: Any) -> Any:
        return None

    def duels(self, X: Any) -> np.ndarray:
        """(rows, pairs): the value of every duel."""
        X = X if self.units is None else self.units.matrix(X)
        k, pieces = self.outputs, []
        for c in range(k):
            part = slice(int(self.starts[c]), int(self.starts[c + 1]))
            own = self._replace(vectors=self.vectors[part], units=None)
            pieces.append(_products(own, X, self.coef[:, part].T))
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
        return f"{self.vectors.shape[0]:,} support vectors, {len(self.pairs)} pairs of classes"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.coef)) and np.all(np.isfinite(self.intercept)))

    def check(self) -> None:
        starts = self.starts
        whole = isinstance(starts, np.ndarray) and starts.ndim == 1 and starts.dtype.kind == "i"
        require(whole and 3 <= starts.size < 10_000, "the places of the classes are damaged")
        _check(self, self.outputs - 1)
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
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        values = onnx_values(graph, self.kernel, rows, self.vectors)
        values = graph.add("MatMul", values, graph.constant(self._wide()))
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
