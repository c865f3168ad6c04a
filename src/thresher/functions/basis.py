r"""Functions psi(x) of a row whose coefficients are not penalised: the readable part of a model.

Each is a frozen dataclass over places of columns, so that a file holds it:

===============  ===========================================================
``Monomial``     1, a column, a power of it, products of powers
``Applied``      sin, cos, exp, log, ... of a multiple of a column
``BSplines``     a smooth curve of a column: several functions at once
``Registered``   a function of your own, by the name that it was registered with
``Plain``        a function of your own; files cannot hold it
===============  ===========================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.functions.base import check_numbers, require
from thresher.registry import BASIS

__all__ = [
    "APPLIED", "Applied", "BSplines", "BasisFunction", "Monomial", "Plain", "Registered",
    "tabulated",
]  # fmt: skip

#: functions of a column that a basis may name
APPLIED: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs, "cos": np.cos, "exp": np.exp, "log": np.log, "log1p": np.log1p, "sin": np.sin,
    "sqrt": np.sqrt,
}  # fmt: skip
_ONNX = {"abs": "Abs", "cos": "Cos", "exp": "Exp", "log": "Log", "sin": "Sin", "sqrt": "Sqrt"}
_MOST = 100  # highest exponent or degree


class BasisFunction:
    """Base of the functions of a basis: frozen dataclasses of plain values.

    ``of(X)`` gives (rows, functions) of an array or a CSR matrix, ``names(columns)`` what they are
    called, ``check(features)`` refuses what a file must not bring, ``to_onnx(graph, rows)`` writes
    them down; ``least_features`` is how many columns a row must have.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from thresher import SemiparametricRegressor
    >>> from thresher.functions.basis import BasisFunction
    >>> @dataclass(frozen=True)
    ... class Above(BasisFunction):
    ...     limit: float
    ...     least_features = 1
    ...     def names(self, columns):
    ...         return [f"{columns[0]} above {self.limit:g}"]
    ...     def of(self, X):
    ...         return (X[:, :1] > self.limit).astype(float)
    ...     def check(self, features):
    ...         pass
    >>> X = np.linspace(0.0, 1.0, 50)[:, None]
    >>> model = SemiparametricRegressor(["1", Above(0.5)]).fit(X, 3.0 * (X[:, 0] > 0.5))
    >>> model.basis_names_, bool(abs(model.beta_[1] - 3.0) < 0.5)
    (['1', 'x0 above 0.5'], True)
    """

    least_features: int

    def names(self, columns: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def of(self, X: Any) -> np.ndarray:
        raise NotImplementedError

    def check(self, features: int) -> None:
        raise NotImplementedError

    def to_onnx(self, graph: Any, rows: str) -> str:
        raise ValueError(f"the basis function {type(self).__name__} is not known to ONNX")


def tabulated(terms: Sequence[Any], X: Any) -> np.ndarray:
    """The values of all functions at the rows of X, an array or a CSR matrix, in float64."""
    parts = [term.of(X) for term in terms]
    return np.concatenate(parts, axis=1) if parts else np.zeros((X.shape[0], 0))


def _column(X: Any, j: int) -> np.ndarray:
    picked = X[:, [j]]
    picked = picked.toarray() if hasattr(picked, "toarray") else picked
    return np.asarray(picked, dtype=np.float64)[:, 0]


def _check_place(j: Any, features: int) -> None:
    whole = isinstance(j, int) and not isinstance(j, bool)
    require(whole and 0 <= j < features, f"a basis function asks for column {j!r} of {features}")


def _onnx_column(graph: Any, rows: str, j: int) -> str:
    return graph.add("Gather", rows, graph.constant(np.array([j])), axis=1)


@dataclass(frozen=True)
class Monomial(BasisFunction):
    """The product of powers of columns; of none it is the constant 1.

    Parameters
    ----------
    columns : tuple of int
    exponents : tuple of int
        One for each column.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions.basis import Monomial
    >>> term = Monomial((0, 1), (2, 1))
    >>> term.of(np.array([[3.0, 2.0]])).tolist(), term.names(["a", "b"])
    ([[18.0]], ['a^2*b'])
    """

    columns: tuple = ()
    exponents: tuple = ()

    @property
    def least_features(self) -> int:  # type: ignore[override]
        return 1 + max(self.columns, default=-1)

    def names(self, columns: Sequence[str]) -> list[str]:
        powers = zip(self.columns, self.exponents, strict=True)
        words = [columns[j] if e == 1 else f"{columns[j]}^{e}" for j, e in powers]
        return ["*".join(words) or "1"]

    def of(self, X: Any) -> np.ndarray:
        out = np.ones(X.shape[0])
        for j, e in zip(self.columns, self.exponents, strict=True):
            out *= _column(X, j) ** e
        return out[:, None]

    def check(self, features: int) -> None:
        plain = isinstance(self.columns, tuple) and isinstance(self.exponents, tuple)
        require(plain and len(self.columns) == len(self.exponents), "a monomial is damaged")
        for j, e in zip(self.columns, self.exponents, strict=True):
            _check_place(j, features)
            whole = isinstance(e, int) and not isinstance(e, bool) and 1 <= e <= _MOST
            require(whole, f"an exponent of the basis must lie in 1 .. {_MOST}, got {e!r}")

    def to_onnx(self, graph: Any, rows: str) -> str:
        out = _onnx_column(graph, rows, 0)
        out = graph.add("Pow", out, graph.constant(0.0))  # ones
        for j, e in zip(self.columns, self.exponents, strict=True):
            power = graph.add("Pow", _onnx_column(graph, rows, j), graph.constant(float(e)))
            out = graph.add("Mul", out, power)
        return out


@dataclass(frozen=True)
class Applied(BasisFunction):
    """A function of a multiple of a column.

    Parameters
    ----------
    function : {"abs", "cos", "exp", "log", "log1p", "sin", "sqrt"}
    column : int
    rate : float, default=1.0
        Factor of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions.basis import Applied
    >>> term = Applied("exp", 0, 2.0)
    >>> term.of(np.array([[0.0]])).tolist(), term.names(["a"])
    ([[1.0]], ['exp(2*a)'])
    """

    function: str
    column: int
    rate: float = 1.0

    @property
    def least_features(self) -> int:  # type: ignore[override]
        return 1 + self.column

    def names(self, columns: Sequence[str]) -> list[str]:
        factor = "" if self.rate == 1.0 else f"{self.rate:g}*"
        return [f"{self.function}({factor}{columns[self.column]})"]

    def of(self, X: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return APPLIED[self.function](self.rate * _column(X, self.column))[:, None]

    def check(self, features: int) -> None:
        known = isinstance(self.function, str) and self.function in APPLIED
        require(known, f"unknown function {self.function!r:.50} in the basis")
        _check_place(self.column, features)
        require(math.isfinite(self.rate), f"a factor in the basis is {self.rate}")

    def to_onnx(self, graph: Any, rows: str) -> str:
        inner = graph.add(
            "Mul", _onnx_column(graph, rows, self.column), graph.constant(float(self.rate))
        )
        if self.function == "log1p":
            return graph.add("Log", graph.add("Add", inner, graph.constant(1.0)))
        return graph.add(_ONNX[self.function], inner)


@dataclass(frozen=True, eq=False)
class BSplines(BasisFunction):
    """B-splines of a column over given knots, all but the last: a curve beside a constant.

    Beyond the outer knots they go on as constants.  All of them would add up to one.

    Parameters
    ----------
    column : int
    knots : array
        Sorted, the first and the last where the column begins and ends.
    degree : int, default=3

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions.basis import BSplines
    >>> term = BSplines(0, np.array([0.0, 1.0, 2.0]), degree=1)
    >>> term.of(np.array([[0.0], [0.5], [7.0]])).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]
    """

    column: int
    knots: np.ndarray
    degree: int = 3

    @property
    def least_features(self) -> int:  # type: ignore[override]
        return 1 + self.column

    @property
    def width(self) -> int:
        return self.knots.size + self.degree - 2

    @property
    def _padded(self) -> np.ndarray:
        """Knots with as many more on both sides, evenly spaced like the outermost ones."""
        k, reach = self.knots, np.arange(1, self.degree + 1)
        before = k[0] - reach[::-1] * (k[1] - k[0])
        after = k[-1] + reach * (k[-1] - k[-2])
        return np.concatenate([before, k, after])

    def names(self, columns: Sequence[str]) -> list[str]:
        return [f"spline({columns[self.column]})[{k}]" for k in range(self.width)]

    def of(self, X: Any) -> np.ndarray:
        from scipy.interpolate import BSpline  # slow to import

        x = np.clip(_column(X, self.column), self.knots[0], self.knots[-1])
        return BSpline.design_matrix(x, self._padded, self.degree).toarray()[:, :-1]

    def check(self, features: int) -> None:
        _check_place(self.column, features)
        whole = isinstance(self.degree, int) and not isinstance(self.degree, bool)
        require(whole and 0 <= self.degree <= _MOST, "the degree of a spline is damaged")
        check_numbers("knots", self.knots, np.shape(self.knots)[:1])
        grows = self.knots.size > 1 and bool(np.all(np.diff(self.knots) > 0.0))
        require(grows, "the knots of a spline must grow")

    def to_onnx(self, graph: Any, rows: str) -> str:
        """De Boor's recursion over the degrees."""
        t = self._padded
        x = _onnx_column(graph, rows, self.column)
        x = graph.add("Max", x, graph.constant(float(self.knots[0])))
        x = graph.add("Min", x, graph.constant(float(np.nextafter(self.knots[-1], -np.inf))))
        right = graph.add("Less", x, graph.constant(t[1:]))
        left = graph.add("GreaterOrEqual", x, graph.constant(t[:-1]))
        inside = graph.add("Cast", graph.add("And", left, right), to=graph.onnx.TensorProto.DOUBLE)
        values, count = inside, t.size - 1
        for k in range(1, self.degree + 1):
            low, high = t[: count - 1], t[k + 1 : k + count]
            up = graph.add("Sub", x, graph.constant(low))
            up = graph.add("Mul", up, graph.constant(1.0 / (t[k : k + count - 1] - low)))
            down = graph.add("Sub", graph.constant(high), x)
            down = graph.add("Mul", down, graph.constant(1.0 / (high - t[1:count])))
            first = graph.add("Gather", values, graph.constant(np.arange(count - 1)), axis=1)
            second = graph.add("Gather", values, graph.constant(np.arange(1, count)), axis=1)
            values = graph.add("Add", graph.add("Mul", up, first), graph.add("Mul", down, second))
            count -= 1
        return graph.add("Gather", values, graph.constant(np.arange(self.width)), axis=1)


def _called(function: Any, name: str, X: Any) -> np.ndarray:
    """The values of a user's function, as a table of one or more columns."""
    dense = X.toarray() if hasattr(X, "toarray") else X
    found = np.asarray(function(np.asarray(dense, dtype=np.float64)), dtype=np.float64)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or found.shape[0] != X.shape[0]:
        raise ValueError(
            f"basis function {name!r} gave an array of shape {found.shape} for {X.shape[0]} rows: "
            "it must give one number, or one line of numbers, for each row"
        )
    return found


def _numbered(name: str, width: int) -> list[str]:
    return [name] if width == 1 else [f"{name}[{k}]" for k in range(width)]


@dataclass(frozen=True)
class Registered(BasisFunction):
    """A function that ``thresher.register(name, function)`` knows; it is given rows as an array.

    Parameters
    ----------
    name : str
    width : int, default=1
        Numbers that it gives for each row.
    """

    name: str
    width: int = 1
    least_features = 0

    def names(self, columns: Sequence[str]) -> list[str]:
        return _numbered(self.name, self.width)

    def of(self, X: Any) -> np.ndarray:
        if self.name not in BASIS:
            raise ValueError(
                f"the basis function {self.name[:100]!r} is not registered here: call "
                f"thresher.register({self.name[:100]!r}, function) first"
            )
        return _called(BASIS[self.name], self.name, X)

    def check(self, features: int) -> None:
        plain = isinstance(self.name, str) and isinstance(self.width, int) and self.width > 0
        require(plain, "a registered basis function is damaged")
        self.of(np.zeros((0, features)))

    def to_onnx(self, graph: Any, rows: str) -> str:
        raise ValueError(f"the basis function {self.name!r} is Python code, which ONNX cannot hold")


@dataclass(frozen=True)
class Plain(BasisFunction):
    """A function of rows as an array, which nobody has registered.

    Parameters
    ----------
    name : str
    function : callable
    width : int, default=1
    """

    name: str
    function: Any
    width: int = 1
    least_features = 0

    def names(self, columns: Sequence[str]) -> list[str]:
        return _numbered(self.name, self.width)

    def of(self, X: Any) -> np.ndarray:
        return _called(self.function, self.name, X)

    def check(self, features: int) -> None:
        raise ValueError(
            f"the basis function {self.name!r} is Python code, which a file cannot hold: give it a "
            f"name with thresher.register({self.name!r}, ...) and use that name in the basis"
        )

    def to_onnx(self, graph: Any, rows: str) -> str:
        raise ValueError(f"the basis function {self.name!r} is Python code, which ONNX cannot hold")
