"""One linear function of the features per output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, dense, require
from thresher.functions.units import Units

__all__ = ["LinearFunction"]

_BLOCK = 8192  # rows whose own weights are looked up at a time
_HUGE = 1e30  # no data in sane units needs weights beyond it: they are on their way to overflow


class LinearFunction(NamedTuple):
    """x . coef' + intercept.

    Solvers give one of one output with ``coef`` of shape (features,) and a float as the intercept;
    estimators and files have the shapes below.

    Parameters
    ----------
    coef : array or CSR matrix of shape (outputs, features)
    intercept : array of shape (outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import LinearFunction
    >>> f = LinearFunction(np.array([[1.0, -2.0]]), np.array([0.5]))
    >>> f.scores(np.array([[3.0, 1.0]])).tolist(), f.describe()
    ([[1.5]], '2 non-zero weights')
    """

    coef: Any
    intercept: Any

    @classmethod
    def stacked(cls, parts: Sequence[LinearFunction]) -> LinearFunction:
        """One function with the outputs of all parts."""
        if len(parts) == 1 and parts[0].coef.ndim == 2:
            return cls(parts[0].coef, np.asarray(parts[0].intercept, dtype=np.float64))
        coef = np.concatenate([np.atleast_2d(part.coef) for part in parts])
        intercept = np.concatenate([np.atleast_1d(part.intercept) for part in parts])
        return cls(coef, intercept.astype(np.float64))

    def unscaled(self, units: Units | None) -> LinearFunction:
        """Of rows in their original units, if this is one of rows in ``units``; with one row of
        coef per output."""
        whole = LinearFunction.stacked([self])
        if units is None:
            return whole
        coef, intercept = units.undo(*whole)
        return LinearFunction(coef.astype(self.coef.dtype, copy=False), intercept)

    def mapped(self, made: Any, features: int, units: Units | None) -> Any:
        """Of rows, if this is a function of what the map ``made`` makes of so many features."""
        from thresher.functions.mapped import MappedFunction

        return MappedFunction.folded(made, self, features, units)

    @property
    def features(self) -> int:
        return int(self.coef.shape[-1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0]) if self.coef.ndim == 2 else 1

    @property
    def size(self) -> int:
        return count_nonzero(self.coef)

    @property
    def basis(self) -> str:
        return ""

    def columns(self, X: Any) -> Any:
        return X

    def scores(self, X: Any) -> np.ndarray:
        scores = X @ (self.coef.T if self.coef.ndim == 2 else self.coef[:, None])
        return (scores.toarray() if hasattr(scores, "toarray") else scores) + self.intercept

    def own_scores(self, X: Any, outputs: np.ndarray) -> np.ndarray:
        """(rows,): of each row the score of one output, by its number; -1 stands for the mean of
        all outputs.  Costs the elements of the rows, however many outputs there are."""
        outputs = np.asarray(outputs)
        shown = np.empty(X.shape[0])
        for start in range(0, X.shape[0], _BLOCK):
            part = slice(start, start + _BLOCK)
            shown[part] = self._own_block(X[part], outputs[part])
        new = np.flatnonzero(outputs < 0)
        if new.size:
            mean = np.asarray(self.coef.mean(axis=0)).reshape(-1)
            shown[new] = X[new] @ mean + float(np.mean(self.intercept))
        return shown

    def _own_block(self, X: Any, outputs: np.ndarray) -> np.ndarray:
        bias = np.asarray(self.intercept)[outputs]
        if not hasattr(X, "indptr"):
            return np.einsum("ij,ij->i", X, dense(self.coef[outputs])) + bias
        counts = np.diff(X.indptr)
        rows = np.repeat(np.arange(X.shape[0]), counts)
        weights = np.asarray(self.coef[np.repeat(outputs, counts), X.indices]).reshape(-1)
        return np.bincount(rows, X.data * weights, X.shape[0]) + bias

    def describe(self) -> str:
        return f"{self.size:,} non-zero weights"

    def is_finite(self) -> bool:
        with np.errstate(invalid="ignore"):
            values = self.coef.data if hasattr(self.coef, "indptr") else self.coef
            return bool(np.all(np.abs(values) < _HUGE) and np.all(np.abs(self.intercept) < _HUGE))

    def check(self) -> None:
        require(np.ndim(self.coef) == 2, "coef_ must have two dimensions")
        check_numbers("coef_", self.coef, self.coef.shape)
        check_numbers("intercept_", self.intercept, (self.outputs,))

    def to_onnx(self, graph: Any, rows: str) -> str:
        products = graph.add("MatMul", rows, graph.constant(dense(self.coef).T))
        return graph.add("Add", products, graph.constant(dense(self.intercept)))
