"""What more time can buy: larger models of the same kind, and what they cost.

Kernel machines come closer to the exact one the more landmarks or support vectors they have, and
the kernel of a forest becomes smoother with every tree.  No cross-validation finds a best number,
the most that can be afforded is best, so that this is no part of a search space; a race under a
clock tries how far it gets.
"""

from __future__ import annotations

from typing import Any

from thresher.estimators._budgeted import BudgetedModel
from thresher.estimators._kernel import KernelModel
from thresher.maps.forest import ForestFeatures, is_forest, usual_trees
from thresher.maps.landmarks import subset_size
from thresher.maps.local import rows_per_cell
from thresher.maps.terms import is_terms
from thresher.search.space import Int

__all__ = ["FEW_TREES", "capacity", "has_trees", "larger", "modest", "rescaled", "smaller", "work"]

_MOST_LANDMARKS, _MOST_VECTORS, _MOST_TREES = 4000, 2000, 200
_LEAST, _LEAST_TREES = 50, 8
FEW_TREES = 24  # tell how good a forest is
_WHITENING = 2000  # landmarks for which whitening costs as much as all else
_ROUTING = 0.1  # what a row costs a tree that was not grown on it, to what it costs one that was


def capacity(estimator: Any, rows: int) -> dict[str, Int]:
    """The number that sets the size of the model, in the range that so many rows can fill."""
    if has_trees(estimator):
        return {_trees_name(estimator): Int(FEW_TREES, _MOST_TREES, log=True)}
    if _has_landmarks(estimator):
        most = min(_MOST_LANDMARKS, max(_members(estimator, rows) // 2, 100))
        return {"n_components": Int(_LEAST, most, log=True)}
    if isinstance(estimator, BudgetedModel):
        return {"budget": Int(_LEAST, min(_MOST_VECTORS, max(rows // 4, 100)), log=True)}
    return {}


def larger(
    estimator: Any, params: dict[str, Any], rows: int, factor: float = 2.0
) -> dict[str, Any]:
    """The same settings with a model of twice the size, as far as so many rows can fill it."""
    more = round(factor * _size(estimator, params, rows))
    return params | {n: min(more, d.high) for n, d in capacity(estimator, rows).items()}


def smaller(estimator: Any, params: dict[str, Any], rows: int) -> dict[str, Any] | None:
    """The same settings with a model of half the size; None where it is the smallest already."""
    least = _LEAST_TREES if has_trees(estimator) else _LEAST
    for name in capacity(estimator, rows):
        half = _size(estimator, params, rows) // 2
        return {**params, name: half} if half >= least else None
    return None


def modest(estimator: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The same settings with the trees that it takes to judge a forest; more rows come first."""
    return params | {_trees_name(estimator): FEW_TREES} if has_trees(estimator) else params


def rescaled(params: dict[str, Any], before: int, after: int) -> dict[str, Any]:
    """Settings for another number of rows: alpha n is what carries over."""
    if params.get("alpha") is None:
        return params
    return {**params, "alpha": params["alpha"] * before / after}


def work(estimator: Any, params: dict[str, Any], rows: int) -> float:
    """What a fit costs, up to a factor of the learner's own.

    Features of m landmarks take O(m) operations a row for the kernel and the learning, and O(m^2)
    fast ones for the whitening.  Trees are grown on some of the rows, if there are many.
    """
    size = _size(estimator, params, rows)
    if has_trees(estimator):
        sample = getattr(estimator.map, "sample", ForestFeatures().sample)
        return size * (min(rows, sample) + _ROUTING * rows)
    slower = 1.0 + size / _WHITENING if _has_landmarks(estimator) else 1.0
    return rows * size * slower


def _size(estimator: Any, params: dict[str, Any], rows: int) -> int:
    if has_trees(estimator):
        name = _trees_name(estimator)
        return usual_trees(params.get(name, estimator.get_params()[name]))
    if _has_landmarks(estimator):
        wanted = params.get("n_components", estimator.n_components)
        return subset_size(wanted, _members(estimator, rows))
    if isinstance(estimator, BudgetedModel):
        return int(params.get("budget", estimator.budget))
    return 1


def has_trees(estimator: Any) -> bool:
    return isinstance(estimator, KernelModel) and is_forest(estimator.map)


def _has_landmarks(estimator: Any) -> bool:
    """Or frequencies, which cost the same."""
    kernel = isinstance(estimator, KernelModel)
    return kernel and not is_forest(estimator.map) and not is_terms(estimator.map)


def _trees_name(estimator: KernelModel) -> str:
    return "n_components" if isinstance(estimator.map, str) else "map__n_components"


def _members(estimator: KernelModel, rows: int) -> int:
    """Rows that share their landmarks."""
    return rows_per_cell(rows) if estimator.map == "local" else rows
