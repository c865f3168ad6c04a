"""From what users write to the functions of a basis: words, names of columns, callables.

=====================  =========================================================================
``"1"``                the constant
``"linear"``           the constant and every column
``"temp"``             a column by its name (``x0``, ``x1``, ... where columns have none)
``"temp^2"``           a power of it
``"temp*SO2"``         a product
``"sin(2*temp)"``      abs, cos, exp, log, log1p, sin or sqrt of a (multiple of a) column
``"spline(temp)"``     cubic B-splines, 5 knots at quantiles; ``"spline(temp, 8, 2)"``: 8, degree 2
a registered name      ``thresher.register("hat", function)``
a callable             an array of rows to a number (or several) for each row
=====================  =========================================================================

Several are a list, or one text with commas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher.functions.basis import (
    APPLIED,
    Applied,
    BasisFunction,
    BSplines,
    Monomial,
    Plain,
    Registered,
)
from thresher.registry import BASIS

__all__ = ["basis_terms", "column_names", "refuse_useless"]

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*")
_RATE = re.compile(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*\*\s*(.+)")
_DEPENDENT = 1e-7


def column_names(given: Any, features: int) -> list[str]:
    """Those that the columns have, or x0, x1, ..."""
    return [f"x{j}" for j in range(features)] if given is None else [str(name) for name in given]


def basis_terms(basis: Any, names: Sequence[str], X: Any) -> tuple[Any, ...]:
    """The functions of a basis; knots of splines are quantiles of the rows X."""
    terms: list[Any] = []
    for item in _items(basis):
        if item == "linear":
            terms.append(Monomial())
            terms.extend(Monomial((j,), (1,)) for j in range(len(names)))
        elif isinstance(item, str):
            terms.append(_parsed(item, names, X))
        else:
            terms.append(_own(item, X))
    return tuple(terms)


def _items(basis: Any) -> list[Any]:
    if isinstance(basis, str):
        return [word.strip() for word in re.split(r",(?![^()]*\))", basis) if word.strip()]
    if basis is None:
        return []
    listed = list(basis) if isinstance(basis, list | tuple) else [basis]
    return [str(item) if type(item) is int and item == 1 else item for item in listed]


def _own(item: Any, X: Any) -> Any:
    """A callable, or a term that is ready."""
    if isinstance(item, BasisFunction):
        return item
    if not callable(item):
        raise TypeError(
            f"basis: {item!r} is none of a word such as 'temp^2', the number 1 or a function of "
            "rows; columns go by their names, x0, x1, ... where they have none"
        )
    name = getattr(item, "__name__", type(item).__name__)
    return Plain(name, item, Plain(name, item).of(X[:1]).shape[1])


def _parsed(word: str, names: Sequence[str], X: Any) -> Any:
    if word in names:  # first of all: a name may look like anything
        return Monomial((names.index(word),), (1,))
    if word in BASIS:
        return Registered(word, Registered(word).of(X[:1]).shape[1])
    if word == "1":
        return Monomial()
    call = _CALL.fullmatch(word)
    if call is not None and call[1] == "spline":
        return _spline(word, call[2], names, X)
    if call is not None and call[1] in APPLIED:
        rate = _RATE.fullmatch(call[2])
        column = call[2] if rate is None else rate[2]
        return Applied(
            call[1], _place(column, names, word), 1.0 if rate is None else float(rate[1])
        )
    columns, exponents = [], []
    for factor in word.split("*"):
        column, caret, power = factor.partition("^")
        if caret and not power.strip().isdecimal():
            raise ValueError(f"basis {word!r}: an exponent is a whole number, got {power!r}")
        columns.append(_place(column, names, word))
        exponents.append(int(power) if caret else 1)
    term = Monomial(tuple(columns), tuple(exponents))
    term.check(len(names))
    return term


def _place(column: str, names: Sequence[str], word: str) -> int:
    column = column.strip()
    if column not in names:
        some = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
        raise ValueError(
            f"basis {word!r}: there is no column or function {column!r}; columns are {some}, "
            f"functions {', '.join(APPLIED)} and spline"
        )
    return names.index(column)


def _spline(word: str, inside: str, names: Sequence[str], X: Any) -> BSplines:
    column, *numbers = (part.strip() for part in inside.split(","))
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"basis {word!r}: write spline(column), spline(column, knots) or "
                         "spline(column, knots, degree)")  # fmt: skip
    count, degree = int(numbers[0]) if numbers else 5, int(numbers[1]) if len(numbers) > 1 else 3
    if not 2 <= count <= 1000 or not 0 <= degree <= 10:
        raise ValueError(f"basis {word!r}: 2 to 1000 knots and a degree of 0 to 10 are possible")
    place = _place(column, names, word)
    values = X[:, [place]]
    values = np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)
    knots = np.unique(np.quantile(values, np.linspace(0.0, 1.0, count)))
    if knots.size < 2:
        raise ValueError(f"basis {word!r}: the column {column!r} has one value only")
    return BSplines(place, knots, degree)


def refuse_useless(table: np.ndarray, names: Sequence[str], kept: np.ndarray) -> None:
    """ValueError for functions that are not finite, zero everywhere or dependent on others.

    ``kept`` are the numbers of the rows of ``table`` in the data.
    """
    bad = np.argwhere(~np.isfinite(table))
    if bad.size:
        i, j = bad[0]
        raise ValueError(f"basis function {names[j]!r} is {table[i, j]} in row {kept[i]}")
    n, count = table.shape
    if count > n:
        raise ValueError(f"{count} basis functions on {n} rows: leave {count - n} of them out")
    with np.errstate(over="ignore"):
        size = np.sqrt(np.mean(table**2, axis=0))
    if not np.all(np.isfinite(size)):
        j = int(np.argmin(np.isfinite(size)))
        raise ValueError(f"basis function {names[j]!r} has values too large to square: scale it")
    if count and not np.all(size > 0.0):
        raise ValueError(f"basis function {names[int(np.argmin(size))]!r} is zero on every row")
    scaled = table / size
    left = np.abs(np.diag(np.linalg.qr(scaled, mode="r"))) / np.sqrt(n)
    if np.all(left > _DEPENDENT):
        return
    j = int(np.argmax(left <= _DEPENDENT))
    weights = np.linalg.lstsq(scaled[:, :j], scaled[:, j], rcond=None)[0]
    others = [repr(names[k]) for k in np.flatnonzero(np.abs(weights) > 1e-5).tolist()][:5]
    raise ValueError(
        f"basis function {names[j]!r} depends on {', '.join(others)} on these {n} rows, so that "
        "their coefficients mean nothing: leave one of them out"
    )
