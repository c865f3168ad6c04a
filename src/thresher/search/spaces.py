"""The search space of an estimator: what it says itself, or what was declared for its class.

Ours say it by their method ``dimensions(X, y)`` (``estimators/spaces.py``), terms and feature maps
by their ``space``.  An estimator of yours is tuned without more ado if it has a method
``search_space(X, y)`` that gives a Space or a dictionary of dimensions, or after
``declare(MyEstimator, function of (estimator, X, y))``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thresher.estimators.spaces import context_of
from thresher.search.space import Space

__all__ = ["context_of", "declare", "space_for"]

Builder = Callable[[Any, Any, Any], Space]
_DECLARED: dict[str, Builder] = {}


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
        space = estimator.search_space(X, y)
        return space if isinstance(space, Space) else Space(space)
    for cls in type(estimator).__mro__:
        builder = _DECLARED.get(f"{cls.__module__}.{cls.__qualname__}")
        if builder is not None:
            return builder(estimator, X, y)
    if hasattr(estimator, "dimensions"):  # one of ours
        return Space(estimator.dimensions(X, y))
    if hasattr(estimator, "steps"):
        return _pipeline(estimator, X, y)
    raise ValueError(
        f"{type(estimator).__name__} declares no search space: pass space=Space(...), give it a "
        "method search_space(X, y), or call thresher.search.declare"
    )


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
