"""A linear function of the features of a map, folded into the map."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.linear import LinearFunction
from thresher.functions.units import Units

__all__ = ["MappedFunction"]


class MappedFunction(NamedTuple):
    """coef . phi(x) + intercept, computed as ``map.scores(x, table)``; x in ``units`` if given.

    Parameters
    ----------
    map : thresher.maps.base.FeatureMap
        phi, fitted.
    coef : array of shape (outputs, features of the map)
    table : array of shape (outputs, map.table_width)
        What the map folds coef into: coefficients of landmarks, weights of leaves.
    intercept : array of shape (outputs,)
    features : int
        Of a row, before the map.
    units : Units or None, default=None
        Rows are read in them before they are mapped.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import LinearFunction, MappedFunction
    >>> from thresher.maps import Nystroem
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> made = Nystroem(n_components=20, random_state=0).fit(X)
    >>> linear = LinearFunction(np.ones((1, made.width)), np.zeros(1))
    >>> f = MappedFunction.folded(made, linear, features=3, units=None)
    >>> bool(np.allclose(f.scores(X), linear.scores(made.transform(X))))
    True
    """

    map: Any
    coef: np.ndarray
    table: np.ndarray
    intercept: np.ndarray
    features: int
    units: Units | None = None

    @classmethod
    def folded(cls, made: Any, linear: Any, features: int, units: Units | None) -> MappedFunction:
        """The linear function of what the map ``made`` makes of so many features."""
        linear = LinearFunction.stacked([linear])
        table = made.fold(linear.coef)
        # Where folding only reorders the numbers they are once in memory, and in files.
        coef = table if made.by_entries else linear.coef
        return cls(made, coef, table, linear.intercept, features, units)

    def unscaled(self, units: Units | None) -> MappedFunction:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(units=units)

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    @property
    def size(self) -> int:
        return count_nonzero(self.table) + int(self.map.size)

    @property
    def basis(self) -> str:
        return self.map.describe()

    def columns(self, X: Any) -> Any:
        return self.map.features(self.in_units(X)) if self.map.by_columns else None

    def in_units(self, X: Any) -> Any:
        return X if self.units is None else self.units.matrix(X)

    def scores(self, X: Any) -> np.ndarray:
        return self.map.scores(self.in_units(X), self.table) + self.intercept

    def describe(self) -> str:
        return f"{self.coef.shape[1]:,} {self.map.unit}"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.coef)) and np.all(np.isfinite(self.intercept)))

    def check(self) -> None:
        require(np.ndim(self.coef) == 2, "coef_ must have two dimensions")
        d, (outputs, width) = self.features, self.coef.shape
        require(type(d) is int and d > 0, "the number of features must be a count")
        self.map.check(d, width)
        check_numbers("coef_", self.coef, (outputs, width))
        check_numbers("dual_coef_", self.table, (outputs, self.map.table_width))
        check_numbers("intercept_", self.intercept, (outputs,))
        if self.units is not None:
            self.units.check(d)

    def to_onnx(self, graph: Any, rows: str) -> str:
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        products = self.map.to_onnx(graph, rows, self.table)
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))
