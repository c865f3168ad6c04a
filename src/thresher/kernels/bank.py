r"""Many kernels over the same rows, of which weighted sums and quadratic forms are wanted.

A *member* of a bank is a kernel on some of the columns.  Members on the same columns share their
inner products, and every kernel's ``of`` is applied to them while the block is in the cache of the
processor.  What is ever stored is one weighted sum, or some columns of it; the forms
:math:`z'K_q z` are added up block by block over the rows where z is not zero.

Every kernel is divided by the mean of its diagonal, so that none is larger than the others by its
units; a trace of one, as published, is the same with C in units of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit

from thresher.kernels.columns import Columns, GramColumns, WeightedColumns
from thresher.kernels.expansion import in_precision
from thresher.kernels.functions import Kernel, Polynomial
from thresher.kernels.gram import self_values, squares

__all__ = ["Bank", "GramBank", "KernelBank", "Member"]

_TALL, _WIDE = 128, 1024  # a block of inner products: half a megabyte
_ROUNDING = 1.2e-7  # of single precision
_LARGEST = 1e30  # mean value of a kernel that leaves room for its values in single precision


class Member(NamedTuple):
    """A kernel on some of the columns; None: on all of them.

    Examples
    --------
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.bank import Member
    >>> Member(RBF(0.5), (3,)).columns
    (3,)
    """

    kernel: Kernel
    columns: tuple[int, ...] | None = None

    def taken(self, X: Any) -> Any:
        """The columns that it is about."""
        return X if self.columns is None else X[:, list(self.columns)]


class Bank(Protocol):
    """What multiple kernel learning asks of kernels."""

    size: int  # rows
    count: int  # kernels
    factors: np.ndarray  # by which kernels are multiplied; 0 for one that cannot be used

    def columns(self, weights: np.ndarray) -> Columns:
        """Of the sum of the kernels with these weights."""

    def gram(self, weights: np.ndarray, threads: int = 1) -> np.ndarray:
        """The same as one matrix, in single precision."""

    def forms(self, coefs: np.ndarray) -> np.ndarray:
        """(outputs, kernels): z'K_q z of the rows z of ``coefs``."""


def _factors(means: np.ndarray) -> np.ndarray:
    usable = (means > 1.0 / _LARGEST) & (means < _LARGEST)
    return np.where(usable, 1.0 / np.where(usable, means, 1.0), 0.0)


# ---------------------------------------------------------------- kernels of rows


class KernelBank:
    """Kernels over the rows of X, each divided by the mean of its diagonal.

    Parameters
    ----------
    members : sequence of Member
    X : float array or SciPy CSR container of shape (size, n_features)
    weight : array of shape (size,) or None, default=None
        Of the rows, in the means of the diagonals.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF, Linear
    >>> from thresher.kernels.bank import KernelBank, Member
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0]])
    >>> bank = KernelBank([Member(RBF(1.0)), Member(Linear(), (1,))], X)
    >>> bank.gram(np.array([0.0, 3.0])).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """

    def __init__(self, members: Sequence[Member], X: Any, weight: np.ndarray | None = None):
        self.size, self.count = int(X.shape[0]), len(members)
        numbers: dict[tuple[Any, bool], list[int]] = {}
        for q, member in enumerate(members):
            key = (member.columns, "radial" in member.kernel.traits)
            numbers.setdefault(key, []).append(q)
        self._groups = [_Group.of(members, own, X) for own in numbers.values()]
        means = np.empty(self.count)
        for group in self._groups:
            for q, diagonal in group.diagonals():
                with np.errstate(over="ignore", invalid="ignore"):
                    means[q] = np.average(diagonal, weights=weight)
        self.factors = _factors(means)

    def columns(self, weights: np.ndarray) -> Columns:
        return _BankColumns(self._groups, weights * self.factors, self.size)

    def gram(self, weights: np.ndarray, threads: int = 1) -> np.ndarray:
        out = np.zeros((self.size, self.size), dtype=np.float32)
        factors = weights * self.factors
        groups = [group for group in self._groups if np.any(factors[group.numbers])]

        def fill(a: int) -> None:
            rows = slice(a, min(a + _TALL, self.size))
            for others in _spans(a, self.size):  # the other half is the same
                out[rows, others] = _sum(groups, factors, rows, others)
            out[rows.stop :, rows] = out[rows, rows.stop :].T

        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, range(0, self.size, _TALL)))
        else:
            for a in range(0, self.size, _TALL):
                fill(a)
        np.fill_diagonal(out, self.columns(weights).diagonal)
        return out

    def forms(self, coefs: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(np.any(coefs != 0.0, axis=0))
        out = np.zeros((coefs.shape[0], self.count))
        z = np.ascontiguousarray(coefs[:, used])
        single = z.astype(np.float32)
        room = _room()
        for group in self._groups:
            group.add_forms(used, z, single, out, room)
        out[:, self.factors == 0.0] = 0.0  # whatever overflowed there
        return out * self.factors


@dataclass(frozen=True)
class _LowPolynomial(Kernel):
    """The polynomial of degree 1 to 3 in single precision, by Horner's rule.

    Free of loops, so that a loop over it is vector code, four times as fast; the same numbers.
    """

    gamma: Any  # np.float32, as all of them
    intercept: Any
    first: Any  # the coefficients of the powers of gamma x.z + c, of which one is 1
    second: Any
    third: Any

    @classmethod
    def like(cls, kernel: Polynomial) -> _LowPolynomial:
        powers = (np.float32(kernel.degree == power) for power in (1, 2, 3))
        return cls(np.float32(kernel.gamma), np.float32(kernel.intercept), *powers)

    def of(self, inner, sq_x, sq_z):
        base = self.gamma * inner + self.intercept
        return base * (self.first + base * (self.second + base * self.third))


def _vectorised(kernel: Kernel, dtype: Any) -> Kernel:
    """The kernel in the arithmetic of ``dtype``, in the form that is fastest over a line."""
    if isinstance(kernel, Polynomial) and 1 <= kernel.degree <= 3 and dtype == np.float32:
        return _LowPolynomial.like(kernel)
    return in_precision(kernel, dtype)


class _Group:
    """Members on the same columns, which share their inner products."""

    def __init__(self, X: Any, numbers: list[int], kernels: list[Kernel]):
        self.numbers = np.array(numbers)
        self._X, self._plain = X, kernels
        self._kernels = [_vectorised(kernel, X.dtype) for kernel in kernels]
        self._squares = squares(X).astype(X.dtype)

    @classmethod
    def of(cls, members: Sequence[Member], numbers: list[int], X: Any) -> _Group:
        mine = [members[q].kernel for q in numbers]
        X = members[numbers[0]].taken(X)
        if hasattr(X, "indptr") and X.shape[1] <= 64:
            X = X.toarray()
        radial = "radial" in mine[0].traits
        if radial and not hasattr(X, "indptr"):  # far from the origin distances drown in the norms
            X = X - X.mean(axis=0, dtype=np.float64)
        narrowest = max(float(getattr(kernel, "gamma", 1.0)) for kernel in mine)
        error = _ROUNDING * narrowest * float(squares(X).mean())
        dtype = np.dtype(np.float64 if not error <= 1e-3 else np.float32)
        X = X.astype(dtype) if hasattr(X, "indptr") else np.ascontiguousarray(X, dtype=dtype)
        return cls(X, numbers, mine)

    def diagonals(self) -> Iterator[tuple[int, np.ndarray]]:
        """k(x, x) of every member, by its number."""
        length = np.sqrt(squares(self._X.astype(np.float64)))[:, None]
        for q, kernel in zip(self.numbers, self._plain, strict=True):
            yield int(q), self_values(kernel, length)

    def add(
        self, factors: np.ndarray, rows: Any, others: Any, out: np.ndarray, room: np.ndarray
    ) -> None:
        """factors_q K_q of these rows with the others, added to ``out``."""
        S = self._inner(rows, others, room)
        sq_a, sq_b = self._squares[rows], self._squares[others]
        for q, kernel in zip(self.numbers, self._kernels, strict=True):
            if factors[q] != 0.0:
                _add_values(kernel, S, sq_a, sq_b, np.float32(factors[q]), out)

    def add_forms(
        self, used: np.ndarray, z: np.ndarray, single: np.ndarray, out: np.ndarray,
        room: np.ndarray,
    ) -> None:  # fmt: skip
        """z'K_q z of every member, the pairs of different blocks once."""
        line = np.empty(_WIDE, dtype=np.float32)
        sums = np.empty(z.shape[0])
        for a in range(0, used.size, _TALL):
            mine = slice(a, min(a + _TALL, used.size))
            for others in _spans(a, used.size, _TALL):
                S = self._inner(used[mine], used[others], room)
                sq_a, sq_b = self._squares[used[mine]], self._squares[used[others]]
                left = np.ascontiguousarray(z[:, mine])
                right = np.ascontiguousarray(single[:, others])
                twice = 1.0 if others.start == a else 2.0
                for q, kernel in zip(self.numbers, self._kernels, strict=True):
                    sums[:] = 0.0
                    _form(kernel, S, sq_a, sq_b, left, right, line, sums)
                    out[:, q] += twice * sums

    def _inner(self, rows: Any, others: Any, room: np.ndarray) -> np.ndarray:
        """Inner products of a block of pairs; dense ones lie in ``room``."""
        left, right = self._X[rows], self._X[others]
        if hasattr(left, "indptr"):
            return (left @ right.T).toarray()
        shape = left.shape[0], right.shape[0]
        S = room[: shape[0] * shape[1] * left.itemsize].view(left.dtype).reshape(shape)
        product = np.multiply if left.shape[1] == 1 else np.matmul
        return product(left, right.T, out=S)


def _room() -> np.ndarray:
    """Bytes for a block of inner products: fresh memory costs as much as what is put there."""
    return np.empty(8 * _TALL * _WIDE, dtype=np.uint8)


def _spans(start: int, stop: int, first: int = _WIDE) -> Iterator[slice]:
    """Slices from start to stop, the first of ``first``."""
    width = first
    while start < stop:
        yield slice(start, min(start + width, stop))
        start, width = start + width, _WIDE


def _sum(groups: list[_Group], factors: np.ndarray, rows: Any, others: Any) -> np.ndarray:
    """The weighted sum of all members for a block of pairs."""
    height, width = (
        part.stop - part.start if isinstance(part, slice) else part.size for part in (rows, others)
    )
    out, room = np.zeros((height, width), dtype=np.float32), _room()
    for group in groups:
        group.add(factors, rows, others, out, room)
    return out


class _BankColumns:
    """Columns of the weighted sum, as a dual solver asks for them."""

    def __init__(self, groups: list[_Group], factors: np.ndarray, size: int):
        self.size = size
        self._groups = [group for group in groups if np.any(factors[group.numbers])]
        self._factors = factors
        self.diagonal = np.zeros(size)
        for group in self._groups:
            for q, diagonal in group.diagonals():
                if factors[q] != 0.0:
                    self.diagonal += factors[q] * diagonal

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """Whole columns, or a span of them, into rows of a table."""
        for a in range(0, rows.size, _TALL):
            mine, put = rows[a : a + _TALL], places[a : a + _TALL]
            for others in _spans(start, stop):
                table[put, others] = _sum(self._groups, self._factors, mine, others)

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """A small block of pairs."""
        for a in range(0, rows.size, _TALL):
            for b in range(0, others.size, _WIDE):
                mine, theirs = rows[a : a + _TALL], others[b : b + _WIDE]
                found = _sum(self._groups, self._factors, mine, theirs)
                out[a : a + mine.size, b : b + theirs.size] = found


# ---------------------------------------------------------------- matrices in memory


class GramBank:
    """Kernels that somebody has computed: symmetric matrices side by side.

    Parameters
    ----------
    matrices : sequence of arrays of shape (size, size)
    weight : array of shape (size,) or None, default=None
        Of the rows, in the means of the diagonals.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels.bank import GramBank
    >>> bank = GramBank([np.eye(2), 2 * np.ones((2, 2))])
    >>> bank.forms(np.array([[1.0, -1.0]])).tolist()
    [[2.0, 0.0]]
    """

    def __init__(self, matrices: Sequence[np.ndarray], weight: np.ndarray | None = None):
        self._matrices = list(matrices)
        self.size, self.count = int(self._matrices[0].shape[0]), len(self._matrices)
        means = [np.average(np.diag(K).astype(np.float64), weights=weight) for K in matrices]
        self.factors = _factors(np.array(means))

    def columns(self, weights: np.ndarray) -> Columns:
        parts = [GramColumns(K) for K in self._matrices]
        return WeightedColumns(parts, list(weights * self.factors))

    def gram(self, weights: np.ndarray, threads: int = 1) -> np.ndarray:
        out = np.zeros((self.size, self.size))
        for K, factor in zip(self._matrices, weights * self.factors, strict=True):
            if factor != 0.0:
                out += factor * K
        return out.astype(np.float32)

    def forms(self, coefs: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(np.any(coefs != 0.0, axis=0))
        z = coefs[:, used]
        out = np.empty((coefs.shape[0], self.count))
        for q, K in enumerate(self._matrices):
            out[:, q] = np.einsum("ci,ij,cj->c", z, K[np.ix_(used, used)], z, optimize=True)
        return out * self.factors


# ---------------------------------------------------------------- compiled


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_values(kernel, S, sq_a, sq_b, factor, out):
    for i in range(S.shape[0]):
        line, into, own = S[i], out[i], sq_a[i]
        for j in range(line.size):
            into[j] += factor * np.float32(kernel.of(line[j], own, sq_b[j]))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _form(kernel, S, sq_a, sq_b, left, right, values, sums):
    """sums_c += left_c' K right_c; single precision along a line, double across lines."""
    for i in range(S.shape[0]):
        line, own = S[i], sq_a[i]
        for j in range(line.size):
            values[j] = np.float32(kernel.of(line[j], own, sq_b[j]))
        for c in range(left.shape[0]):
            total = np.float32(0.0)
            other = right[c]
            for j in range(line.size):
                total += values[j] * other[j]
            sums[c] += left[c, i] * total
