"""A kernel part and a few functions with coefficients of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.basis import BasisFunction, Monomial, tabulated
from thresher.functions.units import Units

__all__ = ["SemiparametricFunction", "trailing"]


class SemiparametricFunction(NamedTuple):
    """part(x) + sum_j beta_j psi_j(x).

    Parameters
    ----------
    part : Function
        Of one output: an expansion, a function of a map's features, or a linear one that is zero.
        It is given the first ``part.features`` columns, and rows in its units; the basis sees rows
        as they are.
    terms : tuple
        The functions psi (``thresher.functions.basis``); one may stand for several.
    beta : array of shape (functions,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import Expansion
    >>> from thresher.functions.basis import Monomial
    >>> from thresher.functions.semiparametric import SemiparametricFunction
    >>> from thresher.kernels import RBF
    >>> bump = Expansion(RBF(1.0), np.array([[0.0]]), np.array([[1.0]]), np.zeros(1))
    >>> f = SemiparametricFunction(bump, (Monomial(), Monomial((0,), (1,))), np.array([5.0, 2.0]))
    >>> f.scores(np.array([[0.0], [10.0]])).tolist(), f.describe()
    ([[6.0], [25.0]], '1 support vectors and 2 functions')
    """

    part: Any
    terms: tuple
    beta: np.ndarray

    @property
    def coef(self) -> np.ndarray:
        return self.beta

    @property
    def intercept(self) -> float:
        return 0.0

    def unscaled(self, units: Units | None) -> SemiparametricFunction:
        """Of rows in their original units, if the part's are in ``units``."""
        return self._replace(part=self.part.unscaled(units))

    @property
    def features(self) -> int:
        return max([self.part.features, *(term.least_features for term in self.terms)])

    @property
    def outputs(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return int(self.part.size) + count_nonzero(self.beta)

    @property
    def basis(self) -> str:
        return self.part.basis

    def columns(self, X: Any) -> Any:
        return None

    def parts(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """What the kernel and what the functions say of each row: (rows,) and (rows, functions)."""
        d = self.part.features
        mine = X if X.shape[1] == d else X[:, :d]
        return self.part.scores(mine)[:, 0], tabulated(self.terms, X) * self.beta

    def scores(self, X: Any) -> np.ndarray:
        kernel, functions = self.parts(X)
        return (kernel + functions.sum(axis=1))[:, None]

    def names(self, columns: Any) -> list[str]:
        """Of the functions, given those of the columns."""
        return [name for term in self.terms for name in term.names(columns)]

    def describe(self) -> str:
        return f"{self.part.describe()} and {self.beta.size} functions"

    def is_finite(self) -> bool:
        return bool(self.part.is_finite() and np.all(np.isfinite(self.beta)))

    def check(self) -> None:
        ours = isinstance(self.part, tuple) and hasattr(self.part, "to_onnx")
        require(ours, "the kernel part is no function")
        self.part.check()
        require(self.part.outputs == 1, f"the kernel part has {self.part.outputs} outputs")
        require(isinstance(self.terms, tuple), "the basis is damaged")
        for term in self.terms:
            require(isinstance(term, BasisFunction), "the basis is damaged")
            term.check(self.part.features)
        width = len(self.names([""] * self.part.features))
        check_numbers("beta_", self.beta, (width,))

    def to_onnx(self, graph: Any, rows: str) -> str:
        out, at = self.part.to_onnx(graph, rows), 0
        for term in self.terms:
            width = len(term.names([""] * self.features))
            beta = self.beta[at : at + width, None].astype(np.float64)
            products = graph.add("MatMul", term.to_onnx(graph, rows), graph.constant(beta))
            out, at = graph.add("Add", out, products), at + width
        return out


def trailing(first: int, count: int) -> tuple[Monomial, ...]:
    """The columns from ``first`` on themselves, ``count`` of them."""
    return tuple(Monomial((first + j,), (1,)) for j in range(count))
