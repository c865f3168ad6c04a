"""What all sums of kernels over support vectors share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.units import Units
from thresher.kernels.expansion import onnx_values
from thresher.kernels.functions import Kernel
from thresher.kernels.gram import Points, blocks

__all__ = ["OverVectors", "products"]

_CELLS = 1 << 22  # kernel values at a time


class OverVectors:
    """sum_j coef[c, j] k(z_j, x) + intercept[c], the vectors z and x in ``units`` if given.

    A function of this kind is a NamedTuple of at least these fields, below this class: a NamedTuple
    takes no base, but may be one.
    """

    __slots__ = ()
    kernel: Any
    vectors: Any
    coef: Any
    intercept: Any
    units: Any
    _replace: Any

    def unscaled(self, units: Units | None) -> Self:
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

    def describe(self) -> str:
        return f"{self.vectors.shape[0]:,} support vectors"

    def is_finite(self) -> bool:
        vectors = self.vectors.data if issparse(self.vectors) else self.vectors
        return all(bool(np.all(np.isfinite(v))) for v in (self.coef, vectors, self.intercept))

    def in_units(self, X: Any) -> Any:
        """Rows as the vectors are."""
        return X if self.units is None else self.units.matrix(X)

    def check(self) -> None:
        require(isinstance(self.kernel, Kernel), "kernel_ must be a Kernel")
        self.kernel.check()
        self.check_tables(self.coef.shape[0] if np.ndim(self.coef) == 2 else 0)
        check_numbers("intercept_", self.intercept, (self.outputs,))

    def check_tables(self, coefs: int) -> None:
        """Vectors, and so many coefficients of each; their units."""
        require(np.ndim(self.coef) == 2, "dual_coef_ must be a table")
        require(len(np.shape(self.vectors)) == 2, "support_vectors_ must be a table")
        check_numbers("support_vectors_", self.vectors, self.vectors.shape)
        check_numbers("dual_coef_", self.coef, (coefs, self.vectors.shape[0]))
        if self.units is not None:
            self.units.check(self.features)

    def to_onnx(self, graph: Any, rows: str) -> str:
        products = self.onnx_products(graph, rows, self.coef.T.astype(np.float64))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))

    def onnx_products(self, graph: Any, rows: str, coefs: np.ndarray) -> str:
        """Kernel values of rows in their original units, times coefficients."""
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        values = onnx_values(graph, self.kernel, rows, self.vectors)
        return graph.add("MatMul", values, graph.constant(coefs))


def products(kernel: Kernel, vectors: Any, X: Any, coefs: np.ndarray) -> np.ndarray:
    """(rows, columns of coefs): kernel values times coefficients, block by block, by BLAS."""
    points = Points(kernel, vectors, vectors.dtype)
    out = np.empty((X.shape[0], coefs.shape[1]))
    for part in blocks(X.shape[0], points.size, _CELLS, 16):
        out[part] = points(X[part]) @ coefs
    return out
