r"""Kernel values in blocks: :math:`K_{ij} = k(x_i, z_j)` for dense or CSR rows.

A block of rows is multiplied with all points by BLAS (dense) or by one visit of each row's
non-zeros (CSR), and the kernel's ``of`` is applied to the block while it is in the cache: any
kernel, a user's included, runs as compiled code.  Cost O(non-zeros(X) m) multiplications and n m
kernel values; memory, beyond the result, one block of rows.  Sparse points that share few columns
(texts) are kept by column: only what a row and a point both have is multiplied.

The Gaussian takes a shorter way, since its exponential is most of the cost: exponents in one
vectorised pass, then NumPy's vectorised ``exp`` in place.  Values below 1e-9 become exact zeros:
left alone they turn into denormal numbers, with which every later product runs five times slower.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import as_rows
from thresher.kernels.functions import RBF, Kernel
from thresher.kernels.matrices import canonical

__all__ = ["Points", "blocks", "gram", "inner_products", "self_values", "squares"]

_CACHED = 1 << 20  # elements of a block: small enough for the caches, large enough for BLAS
_FLOOR = math.log(1e-9)
_WIDE = 1 << 26  # most elements of the points' transpose, beside sparse rows, at a time
_SHARED = 0.2  # of the points that have a column, from which on all of them are faster together


def gram(kernel: Kernel, X: Any, Z: Any = None, *, out: np.ndarray | None = None) -> np.ndarray:
    """The matrix k(x_i, z_j) of the rows of X and Z, in the precision of X.

    To meet the same Z many times, keep a :class:`Points` instead: it prepares the norms and the
    layout of Z once.

    Parameters
    ----------
    kernel : Kernel
    X : float array or SciPy CSR container of shape (n, n_features)
    Z : float array, SciPy CSR container or None, default=None
        Of shape (m, n_features); None: X itself.
    out : array of shape (n, m) or None, default=None
        Where to write the values.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import Linear
    >>> from thresher.maps import gram
    >>> X = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> gram(Linear(), X)
    array([[1., 1.],
           [1., 5.]])
    """
    return Points(kernel, X if Z is None else Z, X.dtype)(X, out)


def blocks(n: int, width: int, elements: int = _CACHED, least: int = 256) -> Iterator[slice]:
    """Slices of n rows, ``elements`` / ``width`` rows each but not fewer than ``least``."""
    size = max(elements // max(width, 1), least)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class _Shifted(NamedTuple):
    """Dense points relative to an origin, for dense rows."""

    origin: np.ndarray | None
    Z: np.ndarray
    squares: np.ndarray


class Points:
    """A fixed set of points to evaluate a kernel against, norms and layout prepared.

    For a kernel of the distance alone, dense rows and points are taken relative to the points'
    mean: far from the origin distances would otherwise drown in the rounding of the norms.

    Parameters
    ----------
    kernel : Kernel
    Z : float array or SciPy CSR container of shape (m, n_features)
        The points.
    dtype : dtype or None, default=None
        Precision of the values; None: that of Z.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import Linear
    >>> from thresher.maps import Points
    >>> points = Points(Linear(), np.eye(2))
    >>> points(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    def __init__(self, kernel: Kernel, Z: Any, dtype: Any = None):
        self.kernel = kernel
        self.dtype = np.dtype(dtype or Z.dtype)
        self.size, self.n_features = Z.shape
        if hasattr(Z, "indptr"):
            self.Z: Any = canonical(Z.astype(self.dtype))
        else:
            self.Z = np.ascontiguousarray(Z, dtype=self.dtype)
        self.squares = squares(self.Z).astype(self.dtype)

    @functools.cached_property
    def _shifted(self) -> _Shifted:
        if "radial" not in self.kernel.traits or not self.size:
            return _Shifted(None, self.Z, self.squares)
        origin = self.Z.mean(axis=0, dtype=np.float64).astype(self.dtype)
        Z = self.Z - origin
        return _Shifted(origin, Z, squares(Z).astype(self.dtype))

    @functools.cached_property
    def _transposed(self) -> np.ndarray:
        return _transpose(self.Z)

    @functools.cached_property
    def _by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Which points have a column, and their values; None where most have those that occur.

        Asked of the points alone, so that no row's value depends on the rows beside it.
        """
        if not hasattr(self.Z, "indptr"):
            return None
        having = np.bincount(self.Z.indices, minlength=self.n_features).astype(np.float64)
        if having @ having > _SHARED * self.size * self.Z.nnz:
            return None
        Z = self.Z.tocsc()
        return Z.indptr.astype(np.int64), Z.indices.astype(np.int64), Z.data

    def __call__(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        """k(x_i, z_j) for the rows of X."""
        if X.shape[1] != self.n_features:
            raise ValueError(f"rows have {X.shape[1]} features, but the points {self.n_features}")
        n = X.shape[0]
        if out is None:
            out = np.empty((n, self.size), dtype=self.dtype)
        block = self._dense
        if hasattr(X, "indptr"):
            X, block = canonical(X.astype(self.dtype, copy=False)), self._sparse
        elif hasattr(self.Z, "indptr"):
            block = self._mixed
        for part in blocks(n, self.size):
            block(X[part], out[part])
        return out

    def _dense(self, X: np.ndarray, K: np.ndarray) -> None:
        origin, Z, square = self._shifted
        for part in blocks(X.shape[0], self.n_features):
            rows = np.ascontiguousarray(X[part], dtype=self.dtype)
            rows = rows if origin is None else rows - origin
            np.matmul(rows, Z.T, out=K[part])
            finish(self.kernel, K[part], squares(rows).astype(self.dtype), square)

    def _mixed(self, X: np.ndarray, K: np.ndarray) -> None:
        """Dense rows against sparse points."""
        K[:] = (self.Z @ X.T.astype(self.dtype, copy=False)).T
        finish(self.kernel, K, squares(X).astype(self.dtype), self.squares)

    def _sparse(self, X: Any, K: np.ndarray) -> None:
        """All points in one visit of a row; the transposed points in slices that fit in memory."""
        rows = as_rows(X)
        width = max(_WIDE // max(self.n_features, 1), 1)
        if self._by_column is not None:
            _shared_products(rows, *self._by_column, K)
        elif width >= self.size:
            inner_products(rows, self._transposed, K)
        else:
            for start in range(0, self.size, width):
                part = slice(start, min(start + width, self.size))
                piece = np.empty((K.shape[0], part.stop - start), dtype=K.dtype)
                inner_products(rows, _transpose(self.Z[part]), piece)
                K[:, part] = piece
        finish(self.kernel, K, squares(X).astype(self.dtype), self.squares)


def finish(kernel: Kernel, K: np.ndarray, sq_x: np.ndarray, sq_z: np.ndarray) -> None:
    """Inner products to kernel values, in place."""
    if isinstance(kernel, RBF):
        one = K.dtype.type
        _exponents(K, sq_x, sq_z, one(kernel.gamma), one(_FLOOR))
        np.exp(K, out=K)
    else:
        _apply(kernel, K, sq_x, sq_z)


def self_values(kernel: Kernel, X: Any) -> np.ndarray:
    """k(x_i, x_i) of every row."""
    square = squares(X)
    return _diagonal(kernel, square)


def squares(X: Any) -> np.ndarray:
    """Squared norms of the rows, in float64."""
    if hasattr(X, "indptr"):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.einsum("ij,ij->i", X, X).astype(np.float64)


def _transpose(Z: Any) -> np.ndarray:
    return np.ascontiguousarray((Z.toarray() if hasattr(Z, "toarray") else Z).T)


@njit(cache=True, nogil=True)
def inner_products(rows, transposed, K):
    """K = X Z', all columns in one visit of each row."""
    for i in range(K.shape[0]):
        line = K[i]
        for j in range(line.size):
            line[j] = 0.0
        rows.dots(i, transposed, line)


@njit(cache=True, nogil=True)
def _shared_products(rows, starts, points, values, K):
    """K = X Z' for Z by columns: of each of a row's, the points ``starts[c] .. starts[c + 1]``."""
    for i in range(K.shape[0]):
        line = K[i]
        for j in range(line.size):
            line[j] = 0.0
        for k in range(rows.start(i), rows.stop(i)):
            column, x = rows.column(i, k), rows.element(i, k)
            for p in range(starts[column], starts[column + 1]):
                line[points[p]] += x * values[p]


@njit(cache=True, nogil=True)
def _exponents(K, sq_x, sq_z, gamma, floor):
    lowest = K.dtype.type(-np.inf)
    zero = K.dtype.type(0.0)
    two = gamma + gamma
    for i in range(K.shape[0]):
        line = K[i]
        own = gamma * sq_x[i]
        for j in range(line.size):
            e = min(two * line[j] - own - gamma * sq_z[j], zero)
            line[j] = e if e > floor else lowest


@njit(cache=True, nogil=True)
def _apply(kernel, K, sq_x, sq_z):
    for i in range(K.shape[0]):
        line = K[i]
        for j in range(line.size):
            line[j] = kernel.of(line[j], sq_x[i], sq_z[j])


@njit(cache=True, nogil=True)
def _diagonal(kernel, square):
    out = np.empty(square.size)
    for i in range(square.size):
        out[i] = kernel.of(square[i], square[i], square[i])
    return out
