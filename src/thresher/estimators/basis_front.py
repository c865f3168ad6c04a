"""Rows with the values of free functions beside them, as solvers of semiparametric models take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack

from thresher._rows import Rows
from thresher.estimators.input import matrix_of, refuse_far_rows, to_rows
from thresher.functions import LinearFunction, MappedFunction, Units
from thresher.functions.basis import tabulated
from thresher.functions.semiparametric import SemiparametricFunction
from thresher.maps.base import FeatureMap

__all__ = ["BasisFront", "beside"]


def beside(X: Any, table: np.ndarray) -> Any:
    """The columns of X, an array or a CSR matrix, then those of the table, in X's precision."""
    table = table.astype(X.dtype)
    if hasattr(X, "indptr"):
        return hstack([X, csr_matrix(table)], format="csr")
    return np.ascontiguousarray(np.concatenate([X, table], axis=1))


class BasisFront(NamedTuple):
    """[x in units | psi(x)], [phi(x) | psi(x)] behind a map, or psi(x) alone.

    ``spread`` is the deviation of the targets from the best combination of the functions.
    """

    units: Units | None
    map: FeatureMap | None
    terms: tuple
    features: int  # of the raw rows
    width: int  # of the functions
    spread: float
    alone: bool = False

    @property
    def is_linear(self) -> bool:
        return False

    def enter(self, rows: Rows) -> Any:
        X = matrix_of(rows)
        table = tabulated(self.terms, X)
        if self.alone:
            return np.ascontiguousarray(table.astype(X.dtype))
        X = X if self.units is None else self.units.matrix(X)
        refuse_far_rows(X)
        return beside(X, table)

    def rows(self, entered: Any) -> Rows:
        if self.map is None:
            return to_rows(entered)
        d = entered.shape[1] - self.width
        table = entered[:, d:]
        table = table.toarray() if hasattr(table, "toarray") else table
        X = entered[:, :d]
        X = X if hasattr(X, "indptr") else np.ascontiguousarray(X)
        return to_rows(beside(self.map.features(X), table))

    def fold(self, function: Any) -> SemiparametricFunction:
        if self.map is None and not self.alone:
            return function._replace(part=function.part.unscaled(self.units), terms=self.terms)
        coef = np.atleast_2d(function.coef)
        at = coef.shape[1] - self.width
        beta = coef[0, at:].astype(np.float64)
        if self.map is None:
            part: Any = LinearFunction(np.zeros((1, self.features)), np.zeros(1))
        else:
            linear = LinearFunction(np.ascontiguousarray(coef[:, :at]), np.zeros(1))
            part = MappedFunction.folded(self.map, linear, self.features, self.units)
        return SemiparametricFunction(part, self.terms, beta)

    def block_rows(self, memory: float, dtype: Any) -> float:
        """The features of all rows have to be together."""
        return np.inf
