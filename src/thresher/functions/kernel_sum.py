"""Sums of kernels on different columns over shared support vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, require
from thresher.functions.over_vectors import OverVectors, products
from thresher.functions.units import Units
from thresher.kernels.expansion import onnx_values
from thresher.kernels.functions import Kernel

__all__ = ["KernelSum", "are_columns", "taken_columns"]


class _SumFields(NamedTuple):
    kernels: tuple[Kernel, ...]
    columns_of: tuple[Any, ...]
    weights: np.ndarray
    vectors: Any
    coef: np.ndarray
    intercept: np.ndarray
    units: Units | None = None


class KernelSum(OverVectors, _SumFields):
    """sum_q weights[c, q] sum_j coef[c, j] k_q(z_j, x) + intercept[c], each k_q on its own columns.

    The vectors z and x are in ``units`` if given.

    Parameters
    ----------
    kernels : tuple of Kernel
        The k_q.
    columns_of : tuple of (tuple of int or None)
        The columns of every kernel; None: all.
    weights : array of shape (1 or outputs, kernels)
        One row: those of all outputs.
    vectors : array or CSR matrix of shape (support vectors, features)
    coef : array of shape (outputs, support vectors)
    intercept : array of shape (outputs,)
    units : Units or None, default=None
        Of the vectors; rows are read in them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import KernelSum
    >>> from thresher.kernels import Linear, Polynomial
    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> f = KernelSum((Linear(), Polynomial(2)), (None, (0,)), np.array([[1.0, 0.5]]), vectors,
    ...               np.array([[1.0, -1.0]]), np.zeros(1))
    >>> f.scores(np.array([[3.0, 1.0]])).tolist(), f.describe()
    ([[8.5]], '2 kernels, 2 support vectors')
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        return super().size + self.weights.size

    @property
    def basis(self) -> str:
        return f"{len(self.kernels)} kernels"

    def scores(self, X: Any) -> np.ndarray:
        X = self.in_units(X)
        out = np.zeros((X.shape[0], self.outputs))
        for kernel, columns, weight in zip(
            self.kernels, self.columns_of, self.weights.T, strict=True
        ):
            vectors, rows = taken_columns(self.vectors, columns), taken_columns(X, columns)
            out += weight * products(kernel, vectors, rows, self.coef.T)
        return out + self.intercept

    def describe(self) -> str:
        return f"{self.basis}, {super().describe()}"

    def is_finite(self) -> bool:
        return super().is_finite() and bool(np.all(np.isfinite(self.weights)))

    def check(self) -> None:
        kernels, columns = self.kernels, self.columns_of
        plain = isinstance(kernels, tuple) and all(isinstance(k, Kernel) for k in kernels)
        require(plain, "the kernels must be a tuple of Kernel")
        for kernel in kernels:
            kernel.check()
        self.check_tables(self.coef.shape[0] if np.ndim(self.coef) == 2 else 0)
        d = self.features
        paired = isinstance(columns, tuple) and len(columns) == len(kernels)
        whole = paired and all(c is None or are_columns(c, d) for c in columns)
        require(whole, "the columns of the kernels are damaged")
        require(np.ndim(self.weights) == 2, "the weights of the kernels must be a table")
        rows = 1 if self.weights.shape[0] == 1 else self.outputs
        check_numbers("the weights of the kernels", self.weights, (rows, len(kernels)))
        check_numbers("intercept_", self.intercept, (self.outputs,))

    def to_onnx(self, graph: Any, rows: str) -> str:
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        total = graph.constant(self.intercept.astype(np.float64))
        for kernel, columns, weight in zip(
            self.kernels, self.columns_of, self.weights.T, strict=True
        ):
            taken = rows
            if columns is not None:
                taken = graph.add("Gather", rows, graph.constant(np.array(columns)), axis=1)
            values = onnx_values(graph, kernel, taken, taken_columns(self.vectors, columns))
            coef = np.ascontiguousarray((weight[:, None] * self.coef).T, dtype=np.float64)
            total = graph.add("Add", graph.add("MatMul", values, graph.constant(coef)), total)
        return total


def taken_columns(X: Any, columns: tuple[int, ...] | None) -> Any:
    """The columns of a kernel, dense if they are some; None: all, as they are."""
    if columns is None:
        return X
    part = X[:, list(columns)]
    return part.toarray() if hasattr(part, "toarray") else part


def are_columns(columns: Any, features: int) -> bool:
    """Whether these are numbers of columns, as a kernel has them."""
    plain = isinstance(columns, tuple) and len(columns) > 0
    return plain and all(type(j) is int and 0 <= j < features for j in columns)
