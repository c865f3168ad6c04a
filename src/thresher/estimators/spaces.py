"""What estimators let a search try, around what the rows call for.

Strengths of penalties are sought around 1/n, widths of kernels around one over the mean squared
distance.  Dimensions carry conditions (``loss__tau`` only for the pinball loss), so that the same
declaration serves a fixed loss and a search over losses.  Terms and solvers declare their own
dimensions by the class attribute ``space``; registered ones are found like ours.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from thresher.dimensions import Float, Int
from thresher.registry import KERNELS, LOSSES, PENALTIES, SOLVERS, TASKS, resolve
from thresher.solvers import Solver

__all__ = [
    "context_of", "feature_dimensions", "kernel_dimensions", "row_count", "sparse_strength",
    "strength", "term_dimensions",
]  # fmt: skip

_SAMPLE = 2000  # rows that are looked at


def context_of(estimator: Any) -> dict[str, Any]:
    """Its parameters, with objects (``Pinball(0.2)``) under the names of their classes."""
    tables = (LOSSES, PENALTIES, KERNELS, SOLVERS)
    names = {cls: name for table in tables for name, cls in table.items()}
    params = estimator.get_params(deep=True)
    return {
        k: names.get(type(v), v) if dataclasses.is_dataclass(v) else v for k, v in params.items()
    }


def term_dimensions(estimator: Any) -> dict[str, Any]:
    """Of the estimator's loss, penalty and solver, each where that term is chosen."""
    known = estimator.get_params(deep=False)
    out: dict[str, Any] = {}
    for table in (LOSSES, PENALTIES, SOLVERS):
        if table.role not in known:
            continue
        for name, cls in table.items():
            for field, dimension in cls.space.items():
                key = f"{table.role}__{field}"
                before = out[key].when[table.role] if key in out else ()
                when = {table.role: (*before, name)}
                out[key] = dataclasses.replace(dimension, when=when)
    return out


def feature_dimensions(estimator: Any, X: Any) -> dict[str, Any]:
    """Of what the estimator's solver has for each feature of ``X``, none where rows are unknown."""
    solver = context_of(estimator)["solver"]
    if X is None or solver == "auto":
        return {}
    declared = resolve(estimator.solver, Solver, "solver").feature_space(X.shape[1])
    return {
        f"solver__{field}": dataclasses.replace(dimension, when={"solver": solver})
        for field, dimension in declared.items()
    }


def row_count(X: Any) -> int:
    return int(X.shape[0]) if X is not None else 10_000


def _sample(X: Any) -> np.ndarray | None:
    """Some rows as a dense float array, or None if that would be large or impossible."""
    if X is None or not hasattr(X, "shape") or X.shape[1] > 20_000:
        return None
    step = max(1, X.shape[0] // _SAMPLE)
    part = X[::step]
    part = part.toarray() if hasattr(part, "toarray") else part
    try:
        return np.asarray(part, dtype=float)
    except (TypeError, ValueError):
        return None


def strength(X: Any) -> Float:
    """1/n is LIBLINEAR's C = 1; four decades to both sides."""
    n = row_count(X)
    return Float(1e-4 / n, min(1e4 / n, 10.0), log=True)


def sparse_strength(estimator: Any, X: Any, y: Any) -> Float:
    """From a model with all features to nearly none: the largest useful l1 strength is at most the
    largest mean of a feature times the slope of the loss at zero."""
    part = _sample(X)
    if part is None or not part.size:
        return Float(1e-7, 1.0, log=True)
    if estimator.scale:
        deviation = part.std(axis=0)
        part = (part - part.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    slope = 1.0
    if not TASKS[estimator.task].has_classes and y is not None:
        slope = float(np.std(np.asarray(y, dtype=float))) or 1.0
    top = float(np.max(np.mean(np.abs(part), axis=0))) * slope or 1.0
    return Float(1e-5 * top, top, log=True)


def _width(estimator: Any, X: Any, closer: float) -> Float:
    """Two decades to both sides of one over the mean squared distance, 2 * sum of variances."""
    part = _sample(X)
    if part is None or part.shape[0] < 2:
        centre = 1.0
    else:
        spread = part.var(axis=0)
        total = np.count_nonzero(spread) if estimator.scale else spread.sum()
        centre = 0.5 / float(total) if total > 0 else 1.0
    centre *= closer
    return Float(1e-2 * centre, 1e2 * centre, log=True)


def kernel_dimensions(estimator: Any, X: Any, closer: float = 1.0) -> dict[str, Any]:
    """The width of a kernel that is given by name, and its degree; widths are sought ``closer``."""
    parts: dict[str, Any] = {}
    if isinstance(estimator.kernel, str):
        parts["gamma"] = dataclasses.replace(
            _width(estimator, X, closer),
            when={"kernel": ("rbf", "exponential", "polynomial", "sigmoid")},
        )
        parts["kernel__degree"] = Int(2, 5, when={"kernel": "polynomial"})
    return parts
