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
from thresher.solvers import Chunk

__all__ = ["BasisFront", "beside"]

_SOME = 2000  # rows that say what functions leave over


def beside(X: Any, table: np.ndarray) -> Any:
    """The columns of X, an array or a CSR matrix, then those of the table, in X's precision."""
    table = table.astype(X.dtype)
    if hasattr(X, "indptr"):
        return hstack([X, csr_matrix(table)], format="csr")
    return np.ascontiguousarray(np.concatenate([X, table], axis=1))


class BasisFront(NamedTuple):
    """[x in units | psi(x)], [phi(x) | psi(x)] behind a map, or psi(x) alone.

    ``best`` are the coefficients of the best combination of the functions, by least squares, and
    ``spread`` is the deviation of the targets from it.  Solvers are given what it leaves of the
    targets, so that no digits are lost where these lie far from zero; ``fold`` adds it again.
    """

    units: Units | None
    map: FeatureMap | None
    terms: tuple
    features: int  # of the raw rows
    width: int  # of the functions
    spread: float
    best: np.ndarray
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

    def _table(self, entered: Any) -> np.ndarray:
        table = entered[:, entered.shape[1] - self.width :]
        return np.asarray(table.toarray() if hasattr(table, "toarray") else table)

    def explained(self, entered: Any) -> np.ndarray:
        """The best combination of the functions at these rows."""
        return self._table(entered).astype(np.float64) @ self.best

    def rows(self, entered: Any) -> Rows:
        if self.map is None:
            return to_rows(entered)
        X = entered[:, : entered.shape[1] - self.width]
        X = X if hasattr(X, "indptr") else np.ascontiguousarray(X)
        return to_rows(beside(self.map.features(X), self._table(entered)))

    def fold(self, function: Any) -> SemiparametricFunction:
        part: Any
        if self.map is None and not self.alone:
            part = function.part.unscaled(self.units)
            return function._replace(part=part, terms=self.terms, beta=function.beta + self.best)
        coef = np.atleast_2d(function.coef)
        at = coef.shape[1] - self.width
        beta = coef[0, at:].astype(np.float64) + self.best
        if self.map is None:
            part = LinearFunction(np.zeros((1, self.features)), np.zeros(1))
        else:
            linear = LinearFunction(np.ascontiguousarray(coef[:, :at]), np.zeros(1))
            part = MappedFunction.folded(self.map, linear, self.features, self.units)
        return SemiparametricFunction(part, self.terms, beta)

    def left_over(self, judges: Chunk) -> Chunk:
        """Some of the rows, with what the best combination of the functions leaves of targets."""
        some = judges.order[:: -(-judges.order.size // _SOME)]
        X, y = judges.rows.taken(some), judges.y[some].astype(np.float64)
        y -= tabulated(self.terms, X) @ self.best
        return Chunk(to_rows(X), y, judges.weight[some], np.arange(some.size, dtype=np.uint32))

    def block_rows(self, memory: float, dtype: Any) -> float:
        """The features of all rows have to be together."""
        return np.inf
