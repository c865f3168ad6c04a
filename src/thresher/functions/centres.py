"""Centres of clusters: a row belongs to the nearest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.units import Units

__all__ = ["METRICS", "Centres"]

METRICS = ("euclidean", "cosine")
_BLOCK = 1 << 22  # numbers held at a time


class Centres(NamedTuple):
    """Minus the squared distance to each centre, or the cosine less one: the best is largest.

    Parameters
    ----------
    centers : array of shape (clusters, features)
        In ``units``; of length one for "cosine".
    metric : {"euclidean", "cosine"}, default="euclidean"
    units : Units or None, default=None
        Of the centres; rows are read in them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Centres
    >>> f = Centres(np.array([[0.0, 0.0], [3.0, 4.0]]))
    >>> f.scores(np.array([[3.0, 3.0]])).tolist(), f.describe()
    ([[-18.0, -1.0]], '2 centres, 2 non-zero numbers')
    """

    centers: np.ndarray
    metric: str = "euclidean"
    units: Units | None = None

    def unscaled(self, units: Units | None) -> Centres:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(units=units)

    @property
    def coef(self) -> np.ndarray:
        """The centres: what weights are to other functions."""
        return self.centers

    @property
    def features(self) -> int:
        return int(self.centers.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.centers.shape[0])

    @property
    def size(self) -> int:
        return count_nonzero(self.centers)

    @property
    def basis(self) -> str:
        return ""

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        out = np.empty((X.shape[0], self.outputs))
        block = max(1, _BLOCK // max(self.features, self.outputs))
        for a in range(0, X.shape[0], block):
            part = X[a : a + block]
            part = part if self.units is None else self.units.matrix(part)
            out[a : a + block] = self._scores(part)
        return out

    def _scores(self, X: Any) -> np.ndarray:
        centers = self.centers.astype(np.float64)
        sparse = hasattr(X, "indptr")
        if self.metric == "euclidean" and not sparse:  # about a point amid the centres: no digits
            origin = centers.mean(axis=0)  # are lost where they all lie far from zero
            X, centers = X - origin, centers - origin
        X = X.astype(np.float64)
        squares = np.asarray((X.multiply(X) if sparse else X * X).sum(axis=1)).reshape(-1, 1)
        inner = np.asarray(X @ centers.T)
        if self.metric == "cosine":
            return inner / np.sqrt(np.where(squares > 0.0, squares, 1.0)) - 1.0
        return np.minimum(2.0 * inner - np.sum(centers**2, axis=1) - squares, 0.0)

    def distances(self, X: Any) -> np.ndarray:
        """(rows, clusters): Euclidean distances, or one less the cosine."""
        scores = self.scores(X)
        return -scores if self.metric == "cosine" else np.sqrt(-scores)

    def squares(self, X: Any) -> np.ndarray:
        """(rows, clusters): squared distances, for "cosine" between rows and centres of length
        one."""
        return (-2.0 if self.metric == "cosine" else -1.0) * self.scores(X)

    def original(self) -> np.ndarray:
        """The centres in the units of the data."""
        if self.units is None:
            return self.centers
        centers = self.centers / self.units.scale
        centers = centers if self.units.shift is None else centers + self.units.shift
        return centers.astype(self.centers.dtype, copy=False)

    def describe(self) -> str:
        return f"{self.outputs:,} centres, {self.size:,} non-zero numbers"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.centers)))

    def check(self) -> None:
        require(np.ndim(self.centers) == 2, "cluster_centers_ must have two dimensions")
        require(self.outputs >= 1, "there must be a cluster")
        check_numbers("cluster_centers_", self.centers, self.centers.shape)
        require(self.metric in METRICS, f"metric must be one of {', '.join(METRICS)}")
        if self.units is not None:
            self.units.check(self.features)

    def to_onnx(self, graph: Any, rows: str) -> str:
        rows = rows if self.units is None else self.units.to_onnx(graph, rows)
        centers = self.centers.astype(np.float64)
        if self.metric == "euclidean":
            origin = centers.mean(axis=0)
            rows, centers = graph.add("Sub", rows, graph.constant(origin)), centers - origin
        products = graph.add("MatMul", rows, graph.constant(np.ascontiguousarray(centers.T)))
        if self.metric == "cosine":
            lengths = graph.add("ReduceL2", rows, axes=[1], keepdims=1)
            cosines = graph.add("Div", products, graph.or_one(lengths))
            return graph.add("Sub", cosines, graph.constant(np.array(1.0)))
        squares = graph.add("ReduceSumSquare", rows, axes=[1], keepdims=1)
        twice = graph.add("Mul", products, graph.constant(np.array(2.0)))
        near = graph.add("Sub", twice, graph.constant(np.sum(centers**2, axis=1)))
        return graph.add("Sub", near, squares)
