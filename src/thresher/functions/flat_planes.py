"""Planes as clusters: a row belongs to the nearest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.linear import LinearFunction
from thresher.functions.units import Units

__all__ = ["FlatPlanes"]


class FlatPlanes(NamedTuple):
    """Minus the squared distance to each plane, -(coef . x + intercept)^2: the best is largest.

    Distances are measured in the units in which the normals have length one, those of the fit.

    Parameters
    ----------
    coef : array of shape (clusters, features)
        Normals of the planes.
    intercept : array of shape (clusters,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import FlatPlanes
    >>> f = FlatPlanes(np.eye(2), np.array([0.0, -1.0]))  # x = 0 and y = 1
    >>> f.scores(np.array([[2.0, 3.0]])).tolist(), f.describe()
    ([[-4.0, -4.0]], '2 planes, 2 non-zero weights')
    """

    coef: np.ndarray
    intercept: np.ndarray

    def unscaled(self, units: Units | None) -> FlatPlanes:
        """Of rows in their original units, if this is one of rows in ``units``."""
        if units is None:
            return self
        coef, intercept = units.undo(self.coef, self.intercept)
        return FlatPlanes(coef.astype(self.coef.dtype, copy=False), intercept)

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    @property
    def size(self) -> int:
        return count_nonzero(self.coef)

    @property
    def basis(self) -> str:
        return ""

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        return -self.squares(X)

    def distances(self, X: Any) -> np.ndarray:
        """(rows, clusters): distances to the planes."""
        return np.abs(np.asarray(X @ self.coef.T.astype(np.float64)) + self.intercept)

    def squares(self, X: Any) -> np.ndarray:
        """(rows, clusters): squared distances."""
        return self.distances(X) ** 2

    def describe(self) -> str:
        return f"{self.outputs:,} planes, {self.size:,} non-zero weights"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.coef)) and np.all(np.isfinite(self.intercept)))

    def check(self) -> None:
        require(np.ndim(self.coef) == 2 and self.outputs >= 1, "coef_ must have two dimensions")
        check_numbers("coef_", self.coef, self.coef.shape)
        check_numbers("intercept_", self.intercept, self.coef.shape[:1])

    def to_onnx(self, graph: Any, rows: str) -> str:
        away = LinearFunction(self.coef, self.intercept).to_onnx(graph, rows)
        return graph.add("Neg", graph.add("Mul", away, away))
