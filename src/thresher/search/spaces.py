"""The search spaces of our estimators, and how others declare theirs.

A space may look at the rows: strengths of penalties are sought around 1/n, widths of kernels around
one over the mean squared distance.  Dimensions carry conditions (``loss__tau`` only for the pinball
loss), so the same declaration serves a fixed loss and a search over losses.

An estimator of yours is tuned without more ado if it has a method ``search_space(X, y) -> Space``,
or after ``declare(MyEstimator, function of (estimator, X, y))``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from thresher.maps.base import FeatureMap
from thresher.search.space import Choice, Float, Int, Space

__all__ = ["context_of", "declare", "space_for"]

Builder = Callable[[Any, Any, Any], Space]
_DECLARED: dict[str, Builder] = {}
_SAMPLE = 2000  # rows that are looked at


def declare(cls: type | str, builder: Builder) -> None:
    """Give a class of estimators a search space.

    Parameters
    ----------
    cls : type or str
        The class, or where it lives: ``"package.module.Class"``.
    builder : callable
        ``builder(estimator, X, y) -> Space``; X and y are None where rows are not known.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from thresher.search import Float, Space, declare, space_for
    >>> class Mine(Ridge):
    ...     pass
    >>> declare(Mine, lambda estimator, X, y: Space(alpha=Float(1e-3, 1e3, log=True)))
    >>> print(space_for(Mine()))
    alpha in [0.001, 1000] (log)
    """
    _DECLARED[cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"] = builder


def space_for(estimator: Any, X: Any = None, y: Any = None) -> Space:
    """The search space of an estimator or of a pipeline of them.

    Parameters
    ----------
    estimator : estimator
        One of ours, one with a method ``search_space(X, y)``, or of a class that was declared.
    X, y : rows and targets, or None, default=None
        The ranges follow from them; without rows, from 10,000 rows of unit size.

    Examples
    --------
    >>> from thresher import LinearClassifier
    >>> from thresher.search import space_for
    >>> space = space_for(LinearClassifier("pinball"))
    >>> print(space.dimensions["alpha"])
    in [1e-08, 1] (log)
    >>> "loss__tau" in space.dimensions
    True
    """
    if hasattr(estimator, "search_space"):
        return estimator.search_space(X, y)
    for cls in type(estimator).__mro__:
        builder = _DECLARED.get(f"{cls.__module__}.{cls.__qualname__}") or (
            _DECLARED.get(cls.__name__) if cls.__module__.startswith("thresher.") else None
        )
        if builder is not None:
            return builder(estimator, X, y)
    if hasattr(estimator, "steps"):
        return _pipeline(estimator, X, y)
    raise ValueError(
        f"{type(estimator).__name__} declares no search space: pass space=Space(...), give it a "
        "method search_space(X, y), or call thresher.search.declare"
    )


def context_of(estimator: Any) -> dict[str, Any]:
    """Its parameters, with objects (``Pinball(0.2)``) under the names of their classes."""
    names = _registered_names()
    params = estimator.get_params(deep=True)
    return {
        k: names.get(type(v), v) if dataclasses.is_dataclass(v) else v for k, v in params.items()
    }


def _registered_names() -> dict[type, str]:
    from thresher import registry

    tables = (registry.LOSSES, registry.PENALTIES, registry.KERNELS, registry.SOLVERS)
    return {cls: name for table in tables for name, cls in table.items()}


def _pipeline(estimator: Any, X: Any, y: Any) -> Space:
    parts: dict[str, Any] = {}
    for name, step in estimator.steps:
        try:
            # What earlier steps do to the rows is unknown before they are fitted.
            inner = space_for(step, X if len(estimator.steps) == 1 else None, y).prefixed(name)
        except ValueError:
            continue
        parts |= {**inner.dimensions, **inner.constants}
    if not parts:
        raise ValueError("no step of the pipeline declares a search space: pass space=Space(...)")
    return Space(parts)


# ------------------------------------------------------------ looking at the rows


def _rows(X: Any) -> int:
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


def _strength(estimator: Any, X: Any, y: Any) -> Float:
    """1/n is LIBLINEAR's C = 1; four decades to both sides."""
    n = _rows(X)
    return Float(1e-4 / n, min(1e4 / n, 10.0), log=True)


def _sparse_strength(estimator: Any, X: Any, y: Any) -> Float:
    """From a model with all features to nearly none: the largest useful l1 strength is at most the
    largest mean of a feature times the slope of the loss at zero."""
    part = _sample(X)
    if part is None or not part.size:
        return Float(1e-7, 1.0, log=True)
    if getattr(estimator, "scale", False):
        deviation = part.std(axis=0)
        part = (part - part.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    slope = 1.0
    if getattr(estimator, "task", "") == "regression" and y is not None:
        slope = float(np.std(np.asarray(y, dtype=float))) or 1.0
    top = float(np.max(np.mean(np.abs(part), axis=0))) * slope or 1.0
    return Float(1e-5 * top, top, log=True)


def _width(estimator: Any, X: Any, y: Any) -> Float:
    """Two decades to both sides of one over the mean squared distance, 2 * sum of variances."""
    part = _sample(X)
    if part is None or part.shape[0] < 2:
        centre = 1.0
    else:
        spread = part.var(axis=0)
        total = np.count_nonzero(spread) if getattr(estimator, "scale", False) else spread.sum()
        centre = 0.5 / float(total) if total > 0 else 1.0
    if hasattr(estimator, "make_map"):
        centre *= estimator.make_map().closer
    return Float(1e-2 * centre, 1e2 * centre, log=True)


# ------------------------------------------------------------ our estimators

_SPARSE_SOLVERS = ("proximal_newton", "fobos", "truncated_gradient", "rda", "adaptive_rda",
                   "rw_l1_rda", "rw_l2_rda")  # fmt: skip
_TERMS: dict[str, Any] = {
    "loss__tau": Float(0.0, 1.0, when={"loss": "pinball"}),
    "loss__delta": Float(0.1, 10.0, log=True, when={"loss": "huber"}),
    "loss__epsilon": Float(
        1e-3, 1.0, log=True,
        when={"loss": ("epsilon_insensitive", "squared_epsilon_insensitive")},
    ),
    "penalty__l1_ratio": Float(0.0, 1.0, when={"penalty": "elastic_net"}),
    "solver__gamma": Float(
        0.01, 100.0, log=True, when={"solver": ("rda", "adaptive_rda", "rw_l1_rda")}
    ),
    "solver__rho": Float(1e-3, 10.0, log=True, when={"solver": ("adaptive_rda",)}),
    "solver__epsilon": Float(1e-3, 10.0, log=True, when={"solver": ("rw_l1_rda", "rw_l2_rda")}),
    "solver__truncate": Float(1e-6, 1e-1, log=True, when={"solver": "rw_l2_rda"}),
}  # fmt: skip


def _linear(estimator: Any, X: Any, y: Any) -> Space:
    context = context_of(estimator)
    parts: dict[str, Any] = {}
    sparse = context["penalty"] in ("l1", "elastic_net") or (
        context["penalty"] is None and context["solver"] in _SPARSE_SOLVERS
    )
    if context["penalty"] != "box":
        parts["alpha"] = (_sparse_strength if sparse else _strength)(estimator, X, y)
    if not hasattr(X, "indptr") and not context["scale"]:
        parts["scale"] = Choice(False, True)
    return Space(parts | _terms(estimator))


def _kernel(estimator: Any, X: Any, y: Any) -> Space:
    made = estimator.map
    if isinstance(made, FeatureMap) and not made.learns_weights:
        return Space(made.space(estimator, X))
    parts: dict[str, Any] = {"alpha": _strength(estimator, X, y)}
    if isinstance(made, FeatureMap):
        return Space(parts | made.space(estimator, X) | _terms(estimator))
    if estimator.make_map().uses_kernel:
        parts |= _kernel_parts(estimator, X, y)
    return Space(parts | _terms(estimator))


def _kernel_parts(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    """The width of a kernel that is given by name, and its degree."""
    parts: dict[str, Any] = {}
    if isinstance(estimator.kernel, str):
        parts["gamma"] = dataclasses.replace(
            _width(estimator, X, y),
            when={"kernel": ("rbf", "exponential", "polynomial", "sigmoid")},
        )
        parts["kernel__degree"] = Int(2, 5, when={"kernel": "polynomial"})
    return parts


def _budgeted(estimator: Any, X: Any, y: Any) -> Space:
    parts = {"alpha": _strength(estimator, X, y), **_kernel_parts(estimator, X, y)}
    parts.pop("kernel__degree", None)  # a kernel object then, and gamma is for kernels by name
    return Space(parts | _terms(estimator))


def _hyperplanes(estimator: Any, X: Any, y: Any) -> Space:
    return Space(
        alpha=Float(1e-3 / _rows(X), min(1e4 / _rows(X), 10.0), log=True),
        max_weights=Int(2, 100, log=True, when={"algorithm": "amm"}),
        clone_rate=Float(0.02, 0.5, log=True, when={"algorithm": "gamm"}),
    )


def _terms(estimator: Any) -> dict[str, Any]:
    """The conditional parameters of the estimator's loss, penalty and solver."""
    known = estimator.get_params(deep=False)
    return {name: d for name, d in _TERMS.items() if name.partition("__")[0] in known}


declare("LinearModel", _linear)
declare("KernelModel", _kernel)
declare("BudgetedModel", _budgeted)
declare("MultiHyperplaneClassifier", _hyperplanes)
