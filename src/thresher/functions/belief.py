"""A Gaussian belief over linear functions: scores with variances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, require
from thresher.functions.linear import LinearFunction
from thresher.functions.units import Units

__all__ = ["BeliefFunction", "DiagonalSpread", "FullSpread", "LowRankSpread"]

_BLOCK = 1 << 22  # numbers held at a time


class DiagonalSpread(NamedTuple):
    """Variances of scores whose weights are not correlated.

    Parameters
    ----------
    variance : array of shape (outputs, features + 1)
        Of the weights; the intercept comes last.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import DiagonalSpread
    >>> DiagonalSpread(np.array([[1.0, 2.0, 0.5]])).of(np.array([[1.0, 3.0]])).tolist()
    [[19.5]]
    """

    variance: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        """(outputs, features + 1)"""
        return self.variance

    def of(self, X: Any) -> np.ndarray:
        """(rows, outputs)"""
        squares = X.multiply(X) if hasattr(X, "indptr") else X * X
        return np.asarray(squares @ self.variance[:, :-1].T) + self.variance[:, -1]

    def rescaled(self, scale: np.ndarray) -> DiagonalSpread:
        """Of weights times ``scale``."""
        return DiagonalSpread(self.variance * scale**2)

    def check(self, outputs: int, features: int) -> None:
        check_numbers("variance", self.variance, (outputs, features + 1))
        require(np.all(self.variance >= 0.0), "variances must not be negative")


class FullSpread(NamedTuple):
    """Variances of scores whose weights are correlated.

    Parameters
    ----------
    covariance : array of shape (outputs, features + 1, features + 1)
        Of the weights; the intercept comes last.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import FullSpread
    >>> FullSpread(np.array([[[1.0, 0.5], [0.5, 1.0]]])).of(np.array([[2.0]])).tolist()
    [[7.0]]
    """

    covariance: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        """(outputs, features + 1)"""
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    def of(self, X: Any) -> np.ndarray:
        """(rows, outputs)"""
        out = np.empty((X.shape[0], self.covariance.shape[0]))
        for rows, Z in _with_constant(X):
            for c, covariance in enumerate(self.covariance):
                out[rows, c] = np.einsum("ij,ij->i", Z @ covariance, Z)
        return np.maximum(out, 0.0)

    def rescaled(self, scale: np.ndarray) -> FullSpread:
        """Of weights times ``scale``."""
        return FullSpread(self.covariance * scale[:, None] * scale)

    def check(self, outputs: int, features: int) -> None:
        shape = (outputs, features + 1, features + 1)
        check_numbers("covariance", self.covariance, shape)
        require(np.all(self.diagonal >= 0.0), "variances must not be negative")


class LowRankSpread(NamedTuple):
    """Variances of scores with a covariance of diag(variance) - directions' directions.

    Parameters
    ----------
    variance : array of shape (outputs, features + 1)
        The intercept comes last.
    directions : array of shape (outputs, directions, features + 1)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import LowRankSpread
    >>> spread = LowRankSpread(np.array([[1.0, 1.0]]), np.array([[[0.5, 0.5]]]))
    >>> spread.of(np.array([[1.0], [-1.0]])).tolist()
    [[1.0], [2.0]]
    """

    variance: np.ndarray
    directions: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        """(outputs, features + 1)"""
        return np.maximum(self.variance - np.sum(self.directions**2, axis=1), 0.0)

    def of(self, X: Any) -> np.ndarray:
        """(rows, outputs)"""
        out = DiagonalSpread(self.variance).of(X)
        for c, lines in enumerate(self.directions):
            known = np.asarray(X @ lines[:, :-1].T) + lines[:, -1]
            out[:, c] -= np.einsum("ij,ij->i", known, known)
        return np.maximum(out, 0.0)

    def rescaled(self, scale: np.ndarray) -> LowRankSpread:
        """Of weights times ``scale``."""
        return LowRankSpread(self.variance * scale**2, self.directions * scale)

    def check(self, outputs: int, features: int) -> None:
        check_numbers("variance", self.variance, (outputs, features + 1))
        require(np.ndim(self.directions) == 3, "directions must have three dimensions")
        lines = self.directions.shape[1]
        check_numbers("directions", self.directions, (outputs, lines, features + 1))


class BeliefFunction(NamedTuple):
    """x . coef' + intercept, of weights that are known with these variances.

    Parameters
    ----------
    coef : array of shape (outputs, features)
    intercept : array of shape (outputs,)
    spread : DiagonalSpread, FullSpread or LowRankSpread
        Variances of scores of rows less ``centre``.
    noise : float
        Mean squared error of rows just before they were learned from.
    centre : array of shape (features,) or None
        None: zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import BeliefFunction, DiagonalSpread
    >>> spread = DiagonalSpread(np.array([[0.25, 0.0]]))
    >>> f = BeliefFunction(np.array([[1.0]]), np.array([0.0]), spread, 1.0, None)
    >>> X = np.array([[2.0]])
    >>> f.scores(X).tolist(), f.variances(X).tolist(), f.deviations().tolist()
    ([[2.0]], [[1.0]], [[0.5]])
    """

    coef: np.ndarray
    intercept: np.ndarray
    spread: Any
    noise: float
    centre: np.ndarray | None

    def unscaled(self, units: Units | None) -> BeliefFunction:
        """Of rows in their original units, if this is one of rows in ``units``."""
        if units is None:
            return self
        coef, intercept = units.undo(self.coef, self.intercept)
        spread = self.spread.rescaled(np.append(units.scale, 1.0))
        coef = coef.astype(self.coef.dtype, copy=False)
        return BeliefFunction(coef, intercept, spread, self.noise, units.shift)

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    @property
    def size(self) -> int:
        return int(np.count_nonzero(self.coef))

    @property
    def basis(self) -> str:
        return ""

    @property
    def linear(self) -> LinearFunction:
        """The mean, without variances."""
        return LinearFunction(self.coef, self.intercept)

    def columns(self, X: Any) -> Any:
        return X

    def scores(self, X: Any) -> np.ndarray:
        return self.linear.scores(X)

    def variances(self, X: Any) -> np.ndarray:
        """Of the scores, as far as the weights are unknown: (rows, outputs)."""
        out = np.empty((X.shape[0], self.outputs))
        for rows, part in _less(X, self.centre):
            out[rows] = self.spread.of(part)
        return out

    def deviations(self) -> np.ndarray:
        """Standard deviations of the weights, (outputs, features)."""
        return np.sqrt(self.spread.diagonal[:, :-1])

    def describe(self) -> str:
        return f"{self.size:,} non-zero weights with their variances"

    def is_finite(self) -> bool:
        return self.linear.is_finite() and bool(np.all(np.isfinite(self.spread.diagonal)))

    def check(self) -> None:
        self.linear.check()
        known = isinstance(self.spread, DiagonalSpread | FullSpread | LowRankSpread)
        require(known, "the function has no variances")
        self.spread.check(self.outputs, self.features)
        plain = type(self.noise) is float and 0.0 <= self.noise < np.inf
        require(plain, "the noise must be a number of at least 0")
        if self.centre is not None:
            check_numbers("centre", self.centre, (self.features,))

    def to_onnx(self, graph: Any, rows: str) -> str:
        return self.linear.to_onnx(graph, rows)


def _less(X: Any, centre: np.ndarray | None) -> Any:
    """Rows less the centre, some at a time where that makes them dense."""
    if centre is None:
        yield slice(0, X.shape[0]), X
        return
    block = max(_BLOCK // max(X.shape[1], 1), 1)
    for start in range(0, X.shape[0], block):
        part = X[start : start + block]
        part = part.toarray() if hasattr(part, "toarray") else part
        yield slice(start, start + part.shape[0]), part - centre


def _with_constant(X: Any) -> Any:
    """Dense rows with a last column of ones, some at a time."""
    block = max(_BLOCK // (X.shape[1] + 1), 1)
    for start in range(0, X.shape[0], block):
        part = X[start : start + block]
        part = part.toarray() if hasattr(part, "toarray") else part
        yield slice(start, start + part.shape[0]), np.hstack([part, np.ones((part.shape[0], 1))])
