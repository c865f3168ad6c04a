"""Several linear functions per class: the best one of a class is its score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.linear import LinearFunction
from thresher.functions.units import Units

__all__ = ["Planes"]

_BLOCK = 1 << 22  # scores held at a time


class Planes(NamedTuple):
    """g(c, x) = max over the rows of coef that class c owns of  coef . x + intercept.

    For two classes the score is g(1, x) - g(0, x).

    Parameters
    ----------
    coef : array of shape (weights, features)
        Sorted by class.
    intercept : array of shape (weights,)
    owners : array of int
        The class of each weight; every class has one.
    ids : array of int
        Serial numbers of the weights, in the order in which they came.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Planes
    >>> coef, owners = np.array([[0.0], [1.0], [-1.0]]), np.array([0, 1, 1])
    >>> f = Planes(coef, np.array([1.0, 0.0, 0.0]), owners, np.arange(3))  # |x| against 1
    >>> f.scores(np.array([[-3.0], [0.5]])).tolist(), f.describe()
    ([[2.0], [-0.5]], '3 hyperplanes, 2 non-zero weights')
    """

    coef: np.ndarray
    intercept: np.ndarray
    owners: np.ndarray
    ids: np.ndarray

    def unscaled(self, units: Units | None) -> Planes:
        """Of rows in their original units, if this is one of rows in ``units``."""
        if units is None:
            return self
        coef, intercept = units.undo(self.coef, self.intercept)
        return self._replace(coef=coef.astype(self.coef.dtype, copy=False), intercept=intercept)

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def classes(self) -> int:
        return int(self.owners[-1]) + 1

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    @property
    def size(self) -> int:
        return count_nonzero(self.coef)

    @property
    def basis(self) -> str:
        return ""

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        best = np.empty((X.shape[0], self.classes))
        starts = np.searchsorted(self.owners, np.arange(self.classes))
        block = max(1, _BLOCK // self.coef.shape[0])
        for a in range(0, X.shape[0], block):
            part = X[a : a + block] @ self.coef.T + self.intercept
            np.maximum.reduceat(part, starts, axis=1, out=best[a : a + block])
        return best[:, 1:] - best[:, :1] if self.classes == 2 else best

    def describe(self) -> str:
        return f"{self.coef.shape[0]:,} hyperplanes, {self.size:,} non-zero weights"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.coef)) and np.all(np.isfinite(self.intercept)))

    def check(self) -> None:
        require(np.ndim(self.coef) == 2, "coef_ must have two dimensions")
        require(self.coef.shape[0] >= 2, "every class needs a weight")
        check_numbers("coef_", self.coef, self.coef.shape)
        check_numbers("intercept_", self.intercept, self.coef.shape[:1])
        for name, value in (("weight_classes_", self.owners), ("weight_ids_", self.ids)):
            whole = isinstance(value, np.ndarray) and value.dtype.kind in "iu"
            require(whole and value.shape == self.coef.shape[:1], f"{name} must be numbers")
        require(np.all(np.diff(self.owners) >= 0), "weight_classes_ must be sorted numbers")
        every = np.array_equal(np.unique(self.owners), np.arange(self.classes))
        require(every and self.classes >= 2, "every class needs a weight")

    def to_onnx(self, graph: Any, rows: str) -> str:
        every = LinearFunction(self.coef, self.intercept).to_onnx(graph, rows)
        best = []
        for c in range(self.classes):
            own = graph.constant(np.flatnonzero(self.owners == c))
            mine = graph.add("Gather", every, own, axis=1)
            best.append(graph.add("ReduceMax", mine, axes=[1], keepdims=1))
        if len(best) == 2:
            return graph.add("Sub", best[1], best[0])
        return graph.add("Concat", *best, axis=1)
