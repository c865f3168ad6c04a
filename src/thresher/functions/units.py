"""Changes of units: folded into linear weights, or made before a function that cannot fold them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from thresher._rows import Rows, scaled
from thresher.functions.base import check_numbers, require

__all__ = ["Units"]

_FINEST = 1e300  # columns may be as small as they can be told apart


class Units(NamedTuple):
    """A change of units (x - shift) * scale, learned from the data.

    Parameters
    ----------
    shift : array of shape (features,) or None
        None keeps zeros zero.
    scale : array of shape (features,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import LinearFunction, Units
    >>> units = Units(np.array([10.0]), np.array([0.5]))
    >>> units.matrix(np.array([[12.0]])).tolist()
    [[1.0]]
    >>> f = LinearFunction(np.array([[4.0]]), np.array([0.0]))  # of rows in these units
    >>> f.unscaled(units).scores(np.array([[12.0]])).tolist()
    [[4.0]]
    """

    shift: np.ndarray | None
    scale: np.ndarray

    def apply(self, rows: Rows) -> Rows:
        return scaled(rows, self.shift, self.scale)

    def matrix(self, X: Any) -> Any:
        """The array or CSR matrix X in these units, in its own precision."""
        scale = self.scale.astype(X.dtype)
        if hasattr(X, "indptr") and self.shift is not None:  # its zeros become other numbers
            X = X.toarray()
        if hasattr(X, "indptr"):
            return csr_matrix((X.data * scale[X.indices], X.indices, X.indptr), shape=X.shape)
        return X * scale if self.shift is None else (X - self.shift.astype(X.dtype)) * scale

    def undo(self, coef: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """The same linear function in the original units."""
        coef = coef * self.scale
        if self.shift is not None:
            intercept = intercept - coef @ self.shift
        return coef, intercept

    def check(self, features: int) -> None:
        """ValueError unless these are units of so many features."""
        for name, value in (("shift", self.shift), ("scale", self.scale)):
            if value is None and name == "shift":
                continue
            whole = isinstance(value, np.ndarray) and value.shape == (features,)
            require(whole, f"the units of the rows are damaged: {name}")
            check_numbers(name, value, (features,), most=_FINEST)

    def to_onnx(self, graph: Any, rows: str) -> str:
        if self.shift is not None:
            rows = graph.add("Sub", rows, graph.constant(self.shift.astype(np.float64)))
        return graph.add("Mul", rows, graph.constant(self.scale.astype(np.float64)))
