"""Kernel expansions over support vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._rows import as_rows
from thresher.functions.over_vectors import OverVectors
from thresher.functions.units import Units
from thresher.kernels.expansion import scores
from thresher.kernels.functions import Kernel
from thresher.kernels.matrices import canonical

__all__ = ["Expansion"]


class _ExpansionFields(NamedTuple):
    kernel: Kernel
    vectors: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    units: Units | None = None


class Expansion(OverVectors, _ExpansionFields):
    """sum_j coef[c, j] k(z_j, x) + intercept[c], the vectors z and x in ``units`` if given.

    Rows are read in their units as they are visited, one by one: a row's score does not depend on
    its company.

    Parameters
    ----------
    kernel : Kernel
        The k of the sum.
    vectors : array of shape (support vectors, features)
        The z, in ``units``.
    coef : array of shape (outputs, support vectors)
    intercept : array of shape (outputs,)
    units : Units or None, default=None
        Of the vectors; rows are read in them.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Expansion
    >>> from thresher.kernels import Linear
    >>> vectors = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> f = Expansion(Linear(), vectors, np.array([[1.0, -1.0]]), np.array([0.5]))
    >>> f.scores(np.array([[3.0, 1.0]])).tolist(), f.describe()
    ([[1.5]], '2 support vectors')
    """

    __slots__ = ()

    def scores(self, X: Any) -> np.ndarray:
        if hasattr(X, "indptr"):
            shifted = self.units is not None and self.units.shift is not None
            X = X.toarray() if shifted else canonical(X)
        rows = as_rows(X)
        rows = rows if self.units is None else self.units.apply(rows)
        return scores(rows, self.kernel, self.vectors, self.coef, self.intercept)
