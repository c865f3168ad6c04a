"""Scores of classes, and of "none of them"."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import require

__all__ = ["Rejecting"]


class Rejecting(NamedTuple):
    """The outputs of a function, and one more for rows of no class: minus the largest of them.

    So it wins where no class scores above zero, and the higher it is the less a row looks like any
    class.

    Parameters
    ----------
    function : Function
        One output for each class.
    place : int
        Where the output of no class stands among the others.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import LinearFunction, Rejecting
    >>> two = LinearFunction(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([-1.0, -1.0]))
    >>> Rejecting(two, 2).scores(np.array([[3.0, 0.0], [0.5, 0.0]])).tolist()
    [[2.0, -1.0, -2.0], [-0.5, -1.0, 0.5]]
    """

    function: Any
    place: int

    def unscaled(self, units: Any) -> Rejecting:
        """Of rows in their original units, if this is one of rows in ``units``."""
        return self._replace(function=self.function.unscaled(units))

    @property
    def features(self) -> int:
        return int(self.function.features)

    @property
    def outputs(self) -> int:
        return int(self.function.outputs) + 1

    @property
    def size(self) -> int:
        return int(self.function.size)

    @property
    def basis(self) -> str:
        return str(self.function.basis)

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        known = self.function.scores(X)
        return np.insert(known, self.place, -known.max(axis=1), axis=1)

    def describe(self) -> str:
        return str(self.function.describe())

    def is_finite(self) -> bool:
        return bool(self.function.is_finite())

    def check(self) -> None:
        ours = isinstance(self.function, tuple) and hasattr(self.function, "to_onnx")
        require(ours, "the file holds no function of classes")
        self.function.check()
        inside = type(self.place) is int and 0 <= self.place < self.outputs
        require(inside, "the place of rows of no class is not among the others")

    def to_onnx(self, graph: Any, rows: str) -> str:
        known = self.function.to_onnx(graph, rows)
        best = graph.add("ReduceMax", known, axes=[1], keepdims=1)
        none = graph.add("Neg", best)
        first, last = self.place, self.outputs - 1
        parts = [self._part(graph, known, 0, first)] if first else []
        parts.append(none)
        parts += [self._part(graph, known, first, last)] if first < last else []
        return graph.add("Concat", *parts, axis=1)

    @staticmethod
    def _part(graph: Any, table: str, start: int, stop: int) -> str:
        """Some columns."""
        ends = (graph.constant(np.array([at], dtype=np.int64)) for at in (start, stop, 1))
        return graph.add("Slice", table, *ends)
