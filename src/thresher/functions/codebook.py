"""Clusters of projections: kernel spectral clustering as a function of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, require

__all__ = ["ASSIGNMENTS", "Codebook"]

ASSIGNMENTS = ("cosine", "kmeans", "codebook")
_TINY = 1e-12


class Codebook(NamedTuple):
    """Rows are projected, and belong to the word that is nearest to their projections.

    Parameters
    ----------
    inner : Function
        The k - 1 projections e of a row, then its degree d.
    words : array of shape (k, k - 1)
    assign : {"cosine", "kmeans", "codebook"}, default="cosine"
        What is compared with the words: e / d by its distance, the direction of e, or its signs.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Codebook, LinearFunction
    >>> inner = LinearFunction(np.array([[1.0], [0.0]]), np.array([0.0, 1.0]))
    >>> f = Codebook(inner, np.array([[1.0], [-1.0]]), "codebook")
    >>> f.scores(np.array([[3.0], [-0.5]])).tolist(), f.describe()
    ([[0.0, -1.0], [-1.0, 0.0]], '2 clusters of 1 projections')
    """

    inner: Any
    words: np.ndarray
    assign: str = "cosine"

    def unscaled(self, units: Any) -> Codebook:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(inner=self.inner.unscaled(units))

    def mapped(self, made: Any, features: int, units: Any) -> Codebook:
        """Of rows, if this is a function of what a map makes of them."""
        return self._replace(inner=self.inner.mapped(made, features, units))

    @property
    def coef(self) -> np.ndarray:
        """Of the projections and the degree."""
        return self.inner.coef

    @property
    def intercept(self) -> np.ndarray:
        return self.inner.intercept

    @property
    def features(self) -> int:
        return int(self.inner.features)

    @property
    def outputs(self) -> int:
        return int(self.words.shape[0])

    @property
    def size(self) -> int:
        return int(self.inner.size)

    @property
    def basis(self) -> str:
        return str(self.inner.basis)

    def columns(self, X: Any) -> Any:
        return self.inner.columns(X)

    def projections(self, X: Any) -> np.ndarray:
        """(rows, k): the projections, and the degree."""
        return np.asarray(self.inner.scores(X), dtype=np.float64)

    def scores(self, X: Any) -> np.ndarray:
        """(rows, k), the largest is the best: minus the squared distance, the cosine less one, or
        minus the number of signs that differ."""
        found = self.projections(X)
        e, degrees = found[:, :-1], found[:, -1:]
        if self.assign == "codebook":
            return 0.5 * (np.where(e < 0.0, -1.0, 1.0) @ self.words.T - self.words.shape[1])
        if self.assign == "cosine":
            lengths = np.sqrt(np.sum(e * e, axis=1, keepdims=True))
            return e @ self.words.T / np.where(lengths > 0.0, lengths, 1.0) - 1.0
        e = e / np.maximum(degrees, _TINY)
        squares = np.sum(e * e, axis=1, keepdims=True)
        return np.minimum(2.0 * e @ self.words.T - np.sum(self.words**2, axis=1) - squares, 0.0)

    def distances(self, X: Any) -> np.ndarray:
        """(rows, k): distances to the words."""
        scores = self.scores(X)
        return np.sqrt(-scores) if self.assign == "kmeans" else -scores

    def squares(self, X: Any) -> np.ndarray:
        """(rows, k): minus the scores."""
        return -self.scores(X)

    def describe(self) -> str:
        return f"{self.outputs:,} clusters of {self.words.shape[1]:,} projections"

    def is_finite(self) -> bool:
        return bool(np.all(np.isfinite(self.words)) and self.inner.is_finite())

    def check(self) -> None:
        require(np.ndim(self.words) == 2, "the codebook must have two dimensions")
        k = self.outputs
        require(k >= 1, "there must be a cluster")
        check_numbers("words", self.words, (k, k - 1))
        require(self.assign in ASSIGNMENTS, f"assign must be one of {', '.join(ASSIGNMENTS)}")
        self.inner.check()
        require(self.inner.outputs == k, f"{k} clusters have {k - 1} projections and a degree")

    def to_onnx(self, graph: Any, rows: str) -> str:
        k = self.outputs
        found = self.inner.to_onnx(graph, rows)
        pick = np.eye(k)
        e = graph.add("MatMul", found, graph.constant(np.ascontiguousarray(pick[:, :-1])))
        words = graph.constant(np.ascontiguousarray(self.words.T))
        if self.assign == "codebook":
            below = graph.add("Less", e, graph.constant(np.array(0.0)))
            signs = graph.add("Where", below, graph.constant(np.array(-1.0)),
                              graph.constant(np.array(1.0)))  # fmt: skip
            same = graph.add("MatMul", signs, words)
            less = graph.add("Sub", same, graph.constant(np.array(float(k - 1))))
            return graph.add("Mul", less, graph.constant(np.array(0.5)))
        if self.assign == "cosine":
            lengths = graph.add("ReduceL2", e, axes=[1], keepdims=1)
            cosines = graph.add("Div", graph.add("MatMul", e, words), graph.or_one(lengths))
            return graph.add("Sub", cosines, graph.constant(np.array(1.0)))
        degree = graph.add("MatMul", found, graph.constant(np.ascontiguousarray(pick[:, -1:])))
        e = graph.add("Div", e, graph.add("Max", degree, graph.constant(np.array(_TINY))))
        squares = graph.add("ReduceSumSquare", e, axes=[1], keepdims=1)
        twice = graph.add("Mul", graph.add("MatMul", e, words), graph.constant(np.array(2.0)))
        near = graph.add("Sub", twice, graph.constant(np.sum(self.words**2, axis=1)))
        return graph.add("Sub", near, squares)
