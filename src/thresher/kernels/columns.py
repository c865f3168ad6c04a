r"""Where a dual solver gets the columns of a matrix from that is too large to hold.

A *source* knows its ``size`` and ``diagonal`` and computes values of the matrix in blocks: whole
columns into the rows of a table (``fill``), or a small block (``block``).  :class:`KernelColumns`
has those of a kernel over dense or sparse rows, :class:`GramColumns` those of a matrix in memory,
:class:`WeightedColumns` those of a weighted sum of sources.  Values are kept in single precision
(``column_cache.py`` keeps them); the diagonal is exact.

Inner products come from BLAS (dense rows) or from one visit of each row's non-zeros with a block of
wanted rows laid open (sparse ones), and a kernel's ``of`` is applied while the block is in the
cache of the processor: any kernel, a user's included, runs as compiled code.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit

from thresher._rows import as_rows
from thresher.kernels.expansion import in_precision
from thresher.kernels.functions import RBF, Kernel
from thresher.kernels.gram import self_values, squares
from thresher.kernels.matrices import canonical

__all__ = [
    "Columns",
    "DenseRows",
    "GramColumns",
    "KernelColumns",
    "WeightedColumns",
    "fitting_precision",
]

_TALL = 256  # wanted rows multiplied at a time
_CELLS = 1 << 19  # of a block of inner products
_OPEN = 1 << 20  # cells of the block of wanted rows that is laid open beside sparse rows
_DENSE = 0.1  # share of non-zeros from which on sparse rows are better multiplied as dense ones
_LARGE = 1e15  # beyond which squares leave single precision
_TILE = 64  # sparse rows visited before the kernel is applied


class Columns(Protocol):
    """What a dual solver asks of a matrix.

    Both may be called by several threads at once, for different parts of the columns.
    """

    size: int
    diagonal: np.ndarray

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """table[places[k], start:stop] = values of row rows[k] with the rows start .. stop."""

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """out[:rows.size, :others.size] = values of all pairs."""


def take(columns: Columns, rows: np.ndarray) -> np.ndarray:
    """(len(rows), size): whole columns in memory of their own."""
    out = np.empty((rows.size, columns.size), dtype=np.float32)
    columns.fill(rows, out, np.arange(rows.size), 0, columns.size)
    return out


class _Scratch(threading.local):
    """Buffers of each thread by name, which grow and are used again: new memory is slow."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        size = math.prod(shape)
        flat = self.kept.get(name)
        if flat is None or flat.size < size or flat.dtype != dtype:
            flat = self.kept[name] = np.zeros(size, dtype=dtype)
        return flat[:size].reshape(shape)


class DenseRows(NamedTuple):
    """Prepared rows, for compiled code that computes kernel values itself."""

    kernel: Kernel
    X: np.ndarray
    squares: np.ndarray
    diagonal: np.ndarray


class KernelColumns:
    """Columns k(x_i, x_j) over the rows of X.

    Parameters
    ----------
    kernel : Kernel
    X : float array or SciPy CSR container of shape (size, n_features)
    precision : dtype, default=float32
        Of the inner products; see :func:`fitting_precision`.

    Attributes
    ----------
    size : int
    diagonal : array of shape (size,)
        k(x_i, x_i), in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.columns import KernelColumns, take
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> take(KernelColumns(RBF(0.5), X), np.array([3, 7])).shape
    (2, 100)
    """

    def __init__(self, kernel: Kernel, X: Any, precision: Any = np.float32):
        self.size, self.n_features = X.shape
        self.diagonal = self_values(kernel, X.astype(np.float64))
        if isinstance(kernel, RBF):  # so that single precision has room for rows of any size
            X, kernel = X.astype(np.float64) * math.sqrt(kernel.gamma), RBF(1.0)
        self._kernel = in_precision(kernel, np.dtype(np.float32))
        self._dtype = np.dtype(precision)
        self._scratch = _Scratch()
        self._sparse = hasattr(X, "indptr") and X.nnz < _DENSE * self.size * self.n_features
        if self._sparse:
            self._X: Any = canonical(X.astype(self._dtype))
            self._rows = as_rows(self._X)
        else:
            X = X.toarray() if hasattr(X, "toarray") else X
            if "radial" in kernel.traits:  # far from the origin distances drown in the norms
                X = X - X.mean(axis=0, dtype=np.float64)
            self._X = np.ascontiguousarray(X, dtype=self._dtype)
        self._squares = squares(self._X).astype(self._dtype)

    @property
    def dense(self) -> DenseRows | None:
        """The rows as they were prepared; None where they are sparse."""
        if self._sparse:
            return None
        return DenseRows(self._kernel, self._X, self._squares, self.diagonal)

    def taken(self, order: np.ndarray) -> KernelColumns:
        """Those of some of the rows, without preparing them again."""
        out = copy(self)
        out.keep(order)
        return out

    def keep(self, order: np.ndarray) -> None:
        """Forget all other rows."""
        self.size = int(order.size)
        self.diagonal, self._squares = self.diagonal[order], self._squares[order]
        self._X = self._X[order]
        if self._sparse:
            self._rows = as_rows(self._X)

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """Whole columns, or a span of them, into rows of a table."""
        if self._sparse:
            self._fill_sparse(rows, np.arange(start, stop), table, places, start)
            return
        for a in range(0, rows.size, _TALL):
            wanted = rows[a : a + _TALL]
            X = self._gathered("wanted", wanted)
            width = max(_CELLS // wanted.size, _TALL)
            for c in range(start, stop, width):
                part = slice(c, min(c + width, stop))
                S = self._scratch.array("S", (wanted.size, part.stop - c), self._dtype)
                np.matmul(X, self._X[part].T, out=S)
                own = self._squares
                _apply(self._kernel, S, own[wanted], own[part], table, places[a : a + _TALL], c)

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """A small block of pairs."""
        places = np.arange(rows.size)
        if self._sparse:
            self._fill_sparse(rows, others, out, places, 0)
            return
        S = self._scratch.array("S", (rows.size, others.size), self._dtype)
        np.matmul(self._gathered("wanted", rows), self._gathered("others", others).T, out=S)
        own = self._squares
        _apply(self._kernel, S, own[rows], own[others], out, places, 0)

    def _gathered(self, name: str, rows: np.ndarray) -> np.ndarray:
        out = self._scratch.array(name, (rows.size, self.n_features), self._dtype)
        return np.take(self._X, rows, axis=0, out=out, mode="clip")

    def _fill_sparse(
        self, rows: np.ndarray, others: np.ndarray, table: np.ndarray, places: np.ndarray, at: int
    ) -> None:
        width = min(max(_OPEN // max(self.n_features, 1), 16), 64, max(rows.size, 1))
        opened = self._scratch.array("opened", (max(self.n_features, 1), width), self._dtype)
        for a in range(0, rows.size, width):
            part = slice(a, a + width)
            _by_sparse_rows(
                self._rows, rows[part], others, opened, self._kernel, self._squares, table,
                places[part], at,
            )  # fmt: skip


class GramColumns:
    """Columns of a symmetric matrix in memory: precomputed kernels, any quadratic form.

    Parameters
    ----------
    K : array of shape (size, size)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels.columns import GramColumns, take
    >>> take(GramColumns(np.eye(3)), np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    def __init__(self, K: np.ndarray):
        K = np.asarray(K)
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"a Gram matrix must be square, got the shape {K.shape}")
        self.size = int(K.shape[0])
        self.diagonal = np.diag(K).astype(np.float64)
        self._K = K

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """Whole columns, or a span of them, into rows of a table."""
        table[places, start:stop] = self._K[rows, start:stop]

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """A small block of pairs."""
        out[: rows.size, : others.size] = self._K[np.ix_(rows, others)]


class WeightedColumns:
    """Columns of a sum of matrices with weights, as multiple kernel learning has them.

    Parameters
    ----------
    parts : sequence of columns of the same size
    weights : sequence of float
        A part of weight zero is not computed.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels.columns import GramColumns, WeightedColumns, take
    >>> both = WeightedColumns([GramColumns(np.eye(2)), GramColumns(np.ones((2, 2)))], [2.0, 0.5])
    >>> take(both, np.array([0])).tolist()
    [[2.5, 0.5]]
    """

    def __init__(self, parts: Sequence[Columns], weights: Sequence[float]):
        pairs = [(p, float(w)) for p, w in zip(parts, weights, strict=True) if w != 0.0]
        self.size = parts[0].size
        self.diagonal = np.zeros(self.size)
        for part, weight in pairs:
            self.diagonal += weight * part.diagonal
        self._pairs = pairs
        self._scratch = _Scratch()

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """Whole columns, or a span of them, into rows of a table."""
        for a in range(0, rows.size, _TALL):
            wanted, put = rows[a : a + _TALL], places[a : a + _TALL]
            own = np.arange(wanted.size)
            table[put, start:stop] = 0.0
            for part, weight in self._pairs:
                piece = self._scratch.array("piece", (wanted.size, self.size), np.float32)
                part.fill(wanted, piece, own, start, stop)
                _add_piece(table, put, piece, start, stop, np.float32(weight))

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """A small block of pairs."""
        out[: rows.size, : others.size] = 0.0
        for part, weight in self._pairs:
            piece = self._scratch.array("block", (rows.size, others.size), np.float32)
            part.block(rows, others, piece)
            own = np.arange(rows.size)
            _add_piece(out, own, piece, 0, others.size, np.float32(weight))


def fitting_precision(kernel: Kernel, X: Any, bound: float, tol: float) -> Any:
    """float32, or float64 where its rounding of distances would show in a gradient.

    A squared distance from inner products errs by about 1.2e-7 times the squared norms, and the
    gradient by that times gamma, times a sum over the support vectors that grows with the root of
    their number; ``bound`` is the largest coefficient, ``tol`` the wanted violation.
    """
    gamma = float(getattr(kernel, "gamma", 0.0))
    values = X.data if hasattr(X, "indptr") else X
    if not isinstance(kernel, RBF) and np.max(np.abs(values), initial=0.0) > _LARGE:
        return np.dtype(np.float64)
    if "radial" not in kernel.traits:
        return np.dtype(np.float32)
    if hasattr(X, "indptr"):
        spread = float(squares(X).mean())
    else:
        spread = float(np.var(X, axis=0, dtype=np.float64).sum())
    error = 1.2e-7 * gamma * spread * bound * 0.1 * math.sqrt(X.shape[0])
    return np.dtype(np.float64 if error > 0.3 * tol else np.float32)


# ---------------------------------------------------------------- compiled


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(kernel, S, sq_w, sq_x, table, places, at):
    """Inner products to kernel values, into the rows of a table.

    Values next to nothing become zeros: products with them would be denormal, and slow.
    """
    least, zero = np.float32(1e-20), np.float32(0.0)
    for a in range(S.shape[0]):
        line, out, own = S[a], table[places[a]], sq_w[a]
        for j in range(line.size):
            value = np.float32(kernel.of(line[j], own, sq_x[j]))
            out[at + j] = zero if abs(value) < least else value


@njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"}, forceinline=True
)
def _open(rows, wanted, opened, factor):
    """Lay wanted rows open, as columns; factor zero takes them away again."""
    for a in range(wanted.size):
        i = wanted[a]
        for k in range(rows.start(i), rows.stop(i)):
            opened[rows.column(i, k), a] = factor * rows.element(i, k)


@njit(cache=True, nogil=True, error_model="numpy")
def _by_sparse_rows(rows, wanted, others, opened, kernel, square, table, places, at):
    """Kernel values of some wanted rows with the other rows, tile by tile."""
    one = opened.dtype.type
    least, zero = np.float32(1e-20), np.float32(0.0)
    _open(rows, wanted, opened, one(1.0))
    inner = np.empty((_TILE, opened.shape[1]), opened.dtype)
    for c in range(0, others.size, _TILE):
        count = min(_TILE, others.size - c)
        for t in range(count):
            line = inner[t]
            for a in range(line.size):
                line[a] = one(0.0)
            rows.dots(others[c + t], opened, line)
        for a in range(wanted.size):
            out, own = table[places[a]], square[wanted[a]]
            for t in range(count):
                value = np.float32(kernel.of(inner[t, a], own, square[others[c + t]]))
                out[at + c + t] = zero if abs(value) < least else value
    _open(rows, wanted, opened, one(0.0))


@njit(cache=True, nogil=True)
def _add_piece(table, places, piece, start, stop, weight):
    for a in range(places.size):
        line, more = table[places[a]], piece[a]
        for j in range(start, stop):
            line[j] += weight * more[j]
