"""Kernel expansions over support vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._rows import as_rows
from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.units import Units
from thresher.kernels.expansion import onnx_values, scores
from thresher.kernels.functions import Kernel
from thresher.kernels.matrices import canonical

__all__ = ["Expansion"]


class Expansion(NamedTuple):
    """sum_j coef[c, j] k(z_j, x) + intercept[c], the vectors z and x in ``units`` if given.

    Rows are read in their units as they are visited, one by one: a row's score does not depend on
    its company.

    Parameters
    ----------
    kernel : Kernel
        The k of the sum.
    vectors : array of shape (support vectors, features)
        The z, in ``units``.
    coef : array of shape (outputs, support vectors)
    intercept : array of shape (outputs,)
    units : Units or None, default=None
        Of the vectors; rows are read in them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Expansion
    >>> from thresher.kernels import Linear
    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> f = Expansion(Linear(), vectors, np.array([[1.0, -1.0]]), np.array([0.5]))
    >>> f.scores(np.array([[3.0, 1.0]])).tolist(), f.describe()
    ([[1.5]], '2 support vectors')
    """

    kernel: Kernel
    vectors: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    units: Units | None = None

    def unscaled(self, units: Units | None) -> Expansion:
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
        if hasattr(X, "indptr"):
            shifted = self.units is not None and self.units.shift is not None
            X = X.toarray() if shifted else canonical(X)
        rows = as_rows(X)
        rows = rows if self.units is None else self.units.apply(rows)
        return scores(rows, self.kernel, self.vectors, self.coef, self.intercept)

    def describe(self) -> str:
        return f"{self.vectors.shape[0]:,} support vectors"

    def is_finite(self) -> bool:
        parts = (self.coef, self.vectors, self.intercept)
        return all(bool(np.all(np.isfinite(part))) for part in parts)

    def check(self) -> None:
        require(isinstance(self.kernel, Kernel), "kernel_ must be a Kernel")
        self.kernel.check()
        for name, value in (("support_vectors_", self.vectors), ("dual_coef_", self.coef)):
            require(np.ndim(value) == 2, f"{name} must be a table")
        check_numbers("support_vectors_", self.vectors, self.vectors.shape)
        check_numbers("dual_coef_", self.coef, (self.outputs, self.vectors.shape[0]))
        check_numbers("intercept_", self.intercept, (self.outputs,))
        if self.units is not None:
            self.units.check(self.features)

    def to_onnx(self, graph: Any, rows: str) -> str:
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        values = onnx_values(graph, self.kernel, rows, self.vectors)
        products = graph.add("MatMul", values, graph.constant(self.coef.T.astype(np.float64)))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))
