"""Rows: the two layouts of a block of examples, and the few primitives every solver is made of.

``Dense`` and ``CSR`` are terms, so one solver source serves both.  ``Scaled*`` are the same rows
seen through a change of units, ``(x - shift) * scale``, applied element by element as they are
read: standardising never copies the data and, with no shift, never densifies it.

Indices are viewed as unsigned integers.  Numba then omits Python's "negative index counts from
the end" test from the innermost loops, which alone makes them twice as fast.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from thresher._terms import Term, prefetch, reassociate

__all__ = [
    "AHEAD", "CSR", "Dense", "Rows", "ScaledCSR", "ScaledDense", "as_rows", "check_compressed",
    "is_sound_layout", "scaled",
]  # fmt: skip

#: how many rows ahead of their visit rows are fetched
AHEAD = 8
_LINE = 8  # elements that a line of memory holds at least
_SIGNED = {4: np.int32, 8: np.int64}
_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}


class Rows(Term):
    """A block of examples: ``i`` is a row, ``w`` a weight vector, ``W`` (features, outputs).

    ==================  ===============================================
    ``dot(i, w)``       x_i . w
    ``add(i, a, w)``    w += a x_i
    ``sqnorm(i)``       x_i . x_i
    ``start/stop(i)``   the positions of row i's stored elements
    ``column(i, k)``    the feature of the element at position k
    ``element(i, k)``   its value
    ``fetch(i)``        start loading row i, to be visited some rows later
    ``dots(i, W, m)``   m += x_i W, all outputs in one visit of the row
    ==================  ===============================================

    Outside of compiled code, ``taken(order)`` is a copy of some rows in double precision, an array
    or a CSR matrix.
    """

    @property
    def shape(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        raise NotImplementedError

    @property
    def stored(self) -> int:
        """Number of elements held in memory."""
        raise NotImplementedError

    @property
    def is_sparse(self) -> bool:
        """Whether zeros are not stored."""
        return False

    def taken(self, order: np.ndarray) -> Any:
        raise NotImplementedError

    def seen(self, order: np.ndarray) -> Any:
        """As ``taken``, for whoever changes nothing: all rows in their order need no copy."""
        return self.taken(order)


class _DenseLayout(Rows):
    """What holds for every row of a C-ordered matrix ``X``."""

    X: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.X.dtype

    @property
    def stored(self) -> int:
        return self.X.size

    def taken(self, order: np.ndarray) -> Any:
        return np.take(self.X, order, axis=0).astype(np.float64, copy=False)

    def fetch(self, i):
        d = self.X.shape[1]
        if d > 24:  # shorter rows come with the lines of their neighbours
            for j in range(0, min(d, 128), 16):
                prefetch(self.X, i * d + j)

    def fetch_some(self, i, columns):
        """The lines of memory that hold these elements of row i."""
        first, last = i * self.X.shape[1], -_LINE
        for a in range(columns.size):
            j = columns[a]
            if abs(j - last) >= _LINE:
                prefetch(self.X, first + j)
                last = j

    def start(self, i):
        return 0

    def stop(self, i):
        return self.X.shape[1]

    def column(self, i, k):
        return k


class _SparseLayout(Rows):
    """What holds for compressed sparse rows."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.indptr.size - 1, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def stored(self) -> int:
        return self.data.size

    def taken(self, order: np.ndarray) -> Any:
        indices, indptr = (p.view(_SIGNED[p.itemsize]) for p in (self.indices, self.indptr))
        X = csr_matrix((self.data, indices, indptr), shape=self.shape)
        return X[order].astype(np.float64, copy=False)

    def fetch(self, i):
        k, stop = self.indptr[i], self.indptr[i + 1]
        prefetch(self.data, k)
        prefetch(self.indices, k)
        prefetch(self.data, k + 16)
        prefetch(self.indices, k + 16)
        if stop > k + 32:  # short rows need no more
            for at in range(k + 32, min(stop, k + 128), 16):
                prefetch(self.data, at)
                prefetch(self.indices, at)

    def start(self, i):
        return self.indptr[i]

    def stop(self, i):
        return self.indptr[i + 1]

    def column(self, i, k):
        return self.indices[k]


@dataclass(frozen=True, eq=False)
class Dense(_DenseLayout):
    """Rows of a C-ordered matrix."""

    X: np.ndarray

    def seen(self, order: np.ndarray) -> Any:
        whole = order.size == self.X.shape[0] and bool(np.all(order[1:] > order[:-1]))
        return self.X if whole and self.X.dtype == np.float64 else self.taken(order)

    @reassociate
    def dot(self, i, w):
        x = self.X[i]
        total = w.dtype.type(0)
        for j in range(w.size):
            total += x[j] * w[j]
        return total

    def add(self, i, a, w):
        x = self.X[i]
        c = w.dtype.type(a)
        for j in range(w.size):
            w[j] += c * x[j]

    @reassociate
    def sqnorm(self, i):
        x = self.X[i]
        total = 0.0
        for j in range(x.size):
            total += x[j] * x[j]
        return total

    def element(self, i, k):
        return self.X[i, k]

    @reassociate
    def dots(self, i, W, m):
        # Four features at a time: m is loaded and stored once for them, and zeros, which come in
        # runs (images, one-hot codes), are skipped four at a time.
        x = self.X[i]
        whole = x.size - x.size % 4
        for j in range(0, whole, 4):
            x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
            if x0 != 0.0 or x1 != 0.0 or x2 != 0.0 or x3 != 0.0:
                for c in range(m.size):
                    m[c] += x0 * W[j, c] + x1 * W[j + 1, c] + x2 * W[j + 2, c] + x3 * W[j + 3, c]
        for j in range(whole, x.size):
            for c in range(m.size):
                m[c] += x[j] * W[j, c]


@dataclass(frozen=True, eq=False)
class CSR(_SparseLayout):
    """Rows of a compressed sparse matrix without repeated entries."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_features: int

    @reassociate
    def dot(self, i, w):
        data, indices = self.data, self.indices
        total = w.dtype.type(0)
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += data[k] * w[indices[k]]
        return total

    def add(self, i, a, w):
        data, indices = self.data, self.indices
        c = w.dtype.type(a)
        for k in range(self.indptr[i], self.indptr[i + 1]):
            w[indices[k]] += c * data[k]

    @reassociate
    def sqnorm(self, i):
        data = self.data
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            total += data[k] * data[k]
        return total

    def element(self, i, k):
        return self.data[k]

    @reassociate
    def dots(self, i, W, m):
        data, indices = self.data, self.indices
        start, stop = self.indptr[i], self.indptr[i + 1]
        whole = stop - (stop - start) % 4
        for k in range(start, whole, 4):
            x0, x1, x2, x3 = data[k], data[k + 1], data[k + 2], data[k + 3]
            j0, j1, j2, j3 = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            for c in range(m.size):
                m[c] += x0 * W[j0, c] + x1 * W[j1, c] + x2 * W[j2, c] + x3 * W[j3, c]
        for k in range(whole, stop):
            for c in range(m.size):
                m[c] += data[k] * W[indices[k], c]


@dataclass(frozen=True, eq=False)
class ScaledDense(_DenseLayout):
    """Dense rows read as ``(x - shift) * scale``."""

    X: np.ndarray
    shift: np.ndarray
    scale: np.ndarray

    def taken(self, order: np.ndarray) -> Any:
        return (super().taken(order) - self.shift) * self.scale

    @reassociate
    def dot(self, i, w):
        x, shift, scale = self.X[i], self.shift, self.scale
        total = w.dtype.type(0)
        for j in range(w.size):
            total += (x[j] - shift[j]) * scale[j] * w[j]
        return total

    def add(self, i, a, w):
        x, shift, scale = self.X[i], self.shift, self.scale
        c = w.dtype.type(a)
        for j in range(w.size):
            w[j] += c * ((x[j] - shift[j]) * scale[j])

    @reassociate
    def sqnorm(self, i):
        x, shift, scale = self.X[i], self.shift, self.scale
        total = 0.0
        for j in range(x.size):
            z = (x[j] - shift[j]) * scale[j]
            total += z * z
        return total

    def element(self, i, k):
        return (self.X[i, k] - self.shift[k]) * self.scale[k]

    def dots(self, i, W, m):
        for j in range(self.scale.size):
            x = self.element(i, j)
            for c in range(m.size):
                m[c] += x * W[j, c]


@dataclass(frozen=True, eq=False)
class ScaledCSR(_SparseLayout):
    """Sparse rows read as ``x * scale``; a shift would fill in the zeros and is not offered."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    n_features: int
    scale: np.ndarray

    def taken(self, order: np.ndarray) -> Any:
        return csr_matrix(super().taken(order).multiply(self.scale))

    @reassociate
    def dot(self, i, w):
        total = w.dtype.type(0)
        for k in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[k]
            total += self.data[k] * self.scale[j] * w[j]
        return total

    def add(self, i, a, w):
        c = w.dtype.type(a)
        for k in range(self.indptr[i], self.indptr[i + 1]):
            j = self.indices[k]
            w[j] += c * (self.data[k] * self.scale[j])

    @reassociate
    def sqnorm(self, i):
        total = 0.0
        for k in range(self.indptr[i], self.indptr[i + 1]):
            z = self.data[k] * self.scale[self.indices[k]]
            total += z * z
        return total

    def element(self, i, k):
        return self.data[k] * self.scale[self.indices[k]]

    def dots(self, i, W, m):
        for k in range(self.indptr[i], self.indptr[i + 1]):
            j, x = self.indices[k], self.element(i, k)
            for c in range(m.size):
                m[c] += x * W[j, c]


def as_rows(X: Any) -> Rows:
    """Wrap a float matrix: NumPy array, or SciPy CSR matrix or array. Copies only what it must.

    A C-ordered array and a CSR container are used in place.  Other memory orders are copied once
    to C order: every solver reads row by row, and strided rows would cost more than the copy.
    """
    if hasattr(X, "indptr"):
        indices, indptr = (part.view(_UNSIGNED[part.dtype]) for part in (X.indices, X.indptr))
        return CSR(X.data, indices, indptr, X.shape[1])
    return Dense(np.ascontiguousarray(X))


def is_sound_layout(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> bool:
    """Whether row pointers and columns stay within the arrays and the shape, (lines, places).

    Compiled loops and SciPy's own follow them without looking, and SciPy's ``check_format``
    believes a last pointer that the others exceed.  O(rows) and one pass over the columns.
    """
    lines, places = shape
    if indices.dtype not in _UNSIGNED or indptr.dtype not in _UNSIGNED or indices.ndim != 1:
        return False
    if indptr.shape != (lines + 1,) or indptr[0] != 0 or indptr[-1] > min(indices.size, len(data)):
        return False
    if np.any(indptr[1:] < indptr[:-1]):
        return False
    return _within(indices[: indptr[-1]], places)


def check_compressed(X: Any, name: str = "X") -> None:
    """ValueError for a sparse matrix that would be read or written outside its arrays.

    To be asked before SciPy converts it: that looks as little as compiled loops do.  Others pass.
    """
    form = _FORMS.get(getattr(X, "format", ""))
    if form is not None and len(X.shape) == 2 and not form(X):
        raise ValueError(
            f"{name} is not a sound sparse matrix: its pointers (indptr) or indices are no "
            f"32 or 64 bit integers, or lead outside its arrays or its shape {X.shape}"
        )


def _is_sound_csr(X: Any) -> bool:
    return X.data.ndim == 1 and is_sound_layout(X.data, X.indices, X.indptr, X.shape)


def _is_sound_csc(X: Any) -> bool:
    return X.data.ndim == 1 and is_sound_layout(X.data, X.indices, X.indptr, X.shape[::-1])


def _is_sound_bsr(X: Any) -> bool:
    """Blocks as the entries of a smaller CSR matrix."""
    if X.data.ndim != 3 or 0 in X.data.shape[1:]:
        return False
    lines, places = (whole // part for whole, part in zip(X.shape, X.data.shape[1:], strict=True))
    return is_sound_layout(X.data, X.indices, X.indptr, (lines, places))


def _is_sound_coo(X: Any) -> bool:
    if X.data.ndim != 1 or not X.row.shape == X.col.shape == X.data.shape:
        return False
    return _within(X.row, X.shape[0]) and _within(X.col, X.shape[1])


def _is_sound_lil(X: Any) -> bool:
    if X.rows.shape != X.shape[:1] or X.data.shape != X.shape[:1]:
        return False
    pairs = zip(X.rows, X.data, strict=True)
    return all(len(r) == len(v) and _within(np.asarray(r), X.shape[1]) for r, v in pairs if r or v)


def _within(places: np.ndarray, size: int) -> bool:
    return places.size == 0 or bool(places.min() >= 0 and places.max() < size)


_FORMS = {
    "csr": _is_sound_csr, "csc": _is_sound_csc, "bsr": _is_sound_bsr, "coo": _is_sound_coo,
    "lil": _is_sound_lil,
}  # fmt: skip


def scaled(rows: Rows, shift: np.ndarray | None, scale: np.ndarray) -> Rows:
    """The same rows in other units, (x - shift) * scale; ``shift`` is for dense rows only."""
    scale = np.ascontiguousarray(scale, dtype=rows.dtype)
    if isinstance(rows, ScaledDense | ScaledCSR):
        if shift is not None:
            raise ValueError("rows that are scaled already take a further scale, not a shift")
        return dataclasses.replace(rows, scale=rows.scale * scale)
    if isinstance(rows, CSR):
        if shift is not None:
            raise ValueError("a shift would fill in the zeros of sparse rows")
        return ScaledCSR(rows.data, rows.indices, rows.indptr, rows.n_features, scale)
    assert isinstance(rows, Dense)
    shift = np.zeros_like(scale) if shift is None else shift
    return ScaledDense(rows.X, np.ascontiguousarray(shift, dtype=rows.dtype), scale)
