r"""Least squares on shared features: one pass over the rows for all folds and strengths.

The normal equations of a fold's training rows are those of all rows less those of its test rows,

.. math:: \tilde X_{-k}'\tilde X_{-k} = \tilde X'\tilde X - \tilde X_k'\tilde X_k,

so k folds and any number of alphas cost one pass over the rows, O(n d^2), and one solve each,
O(d^3): fast cross-validation of the fixed-size LS-SVM (De Brabanter et al., 2010).

With ``cv="loo"`` not even the solves are needed: the leave-one-out predictions are known in closed
form (:class:`DirectLeastSquares`), here with the ridge that n - 1 rows ask for, so that the scores
are those of n models fitted without their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thresher._rows import Dense
from thresher._scores import best_class
from thresher._terms import capabilities
from thresher.estimators.kernel import KernelModel
from thresher.losses import LeastSquares, Loss
from thresher.penalties import L2, Penalty
from thresher.registry import resolve
from thresher.search.cache import Cache
from thresher.search.criteria import Criterion
from thresher.search.validation import Fold
from thresher.solvers import Chunk, DirectLeastSquares, Problem, Solver, driver
from thresher.solvers.least_squares import NormalEquations

__all__ = ["DirectFits"]

_SOLVER = DirectLeastSquares()
#: what one left-out row contributes to a criterion, from its target and its prediction
_BY_ROW: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "error": lambda y, p: (y != p).astype(np.float64),
    "mse": lambda y, p: (y - p) ** 2,
    "mae": lambda y, p: np.abs(y - p),
}


@dataclass(frozen=True)
class Prepared(Solver):
    """Direct least squares whose sums over the rows are known already."""

    equations: NormalEquations
    loss_needs = DirectLeastSquares.loss_needs
    penalty_needs = DirectLeastSquares.penalty_needs
    default_passes = 1
    joint = True

    def init(self, problem: Problem, chunk: Chunk | None = None) -> NormalEquations:
        return self.equations

    def update(self, problem: Problem, state: NormalEquations, chunk: Chunk) -> NormalEquations:
        return state

    def finish(self, problem: Problem, state: NormalEquations) -> Any:
        return _SOLVER.finish(problem, state)


class DirectFits:
    """Least squares on the folds from sums over the rows that are kept in ``cache``.

    Parameters
    ----------
    y, weight : targets (numbers, or labels where ``labels``) and weights of all rows
    """

    def __init__(
        self, y: np.ndarray, weight: np.ndarray | None, folds: Sequence[Fold], labels: bool,
        cache: Cache,
    ):  # fmt: skip
        self.y, self.weight, self.folds, self.cache = y, weight, folds, cache
        trained = np.zeros(y.size, dtype=bool)
        for fold in folds:
            trained[fold.train] = True
        self.trained = np.flatnonzero(trained)
        self.classes = np.unique(y) if labels else None
        self.leaves_one_out = weight is None and all(
            fold.test.size == 1 and fold.train.size == y.size - 1 for fold in folds
        )

    def can_prepare(self, model: KernelModel, width: int, fold: int) -> bool:
        """Whether the sums serve ``model`` on this fold, and all folds' fit in memory."""
        if not _is_direct(model) or 8 * len(self.folds) * width**2 > self.cache.limit:
            return False
        labels = self.y[self.folds[fold].train]
        return self.classes is None or np.unique(labels).size == self.classes.size

    def solver(self, key: Hashable, Z: np.ndarray, fold: int) -> Prepared:
        """The solver for the fold's training rows; ``key`` stands for the features Z."""
        return Prepared(self.cache.get(("sums", key, fold), lambda: self._sums(key, Z, fold)))

    def left_out(
        self, key: Hashable, Z: np.ndarray, model: KernelModel, criterion: Criterion
    ) -> np.ndarray | None:
        """The criterion for each row by the model without it; None if that is no closed form."""
        if criterion.name not in _BY_ROW or not _is_direct(model):
            return None
        model.check_options()
        chunk, problem = self._rows(Z)
        fewer = float(self.y.size - 1)
        problem = replace(
            problem, fit_intercept=model.fit_intercept,
            penalty=model.penalty_for(problem, chunk, fewer, model.make_map().usual_strength),
        )  # fmt: skip
        sums = self._total(key, Z)._replace(mass=fewer)
        predictions = _SOLVER.leave_one_out(problem, sums, chunk)[1]
        return _BY_ROW[criterion.name](self.y, self._predicted(predictions))

    def _predicted(self, scores: np.ndarray) -> np.ndarray:
        if self.classes is None:
            return scores[:, 0]
        return self.classes[best_class(scores)]

    def _sums(self, key: Hashable, Z: np.ndarray, fold: int) -> NormalEquations:
        """Over the fold's training rows: directly, or over all less the others if those are few."""
        train = self.folds[fold].train
        if 2 * train.size < self.trained.size:
            return self._over(Z, train)
        a, b = self._total(key, Z), self._over(Z, np.setdiff1d(self.trained, train))
        return NormalEquations(
            a.gram - b.gram, a.moments - b.moments, a.mass - b.mass, a.step - b.step
        )

    def _total(self, key: Hashable, Z: np.ndarray) -> NormalEquations:
        return self.cache.get(("sums", key, None), lambda: self._over(Z, self.trained))

    def _over(self, Z: np.ndarray, rows: np.ndarray) -> NormalEquations:
        chunk, problem = self._rows(Z)
        chunk = chunk._replace(order=rows.astype(np.uint32))
        return _SOLVER.update(problem, _SOLVER.init(problem), chunk)

    def _rows(self, Z: np.ndarray) -> tuple[Chunk, Problem]:
        """All rows, and the problem without its penalty."""
        targets, outputs = self.y, 1
        if self.classes is not None:
            targets, outputs = np.searchsorted(self.classes, self.y), self.classes.size
            if outputs == 2:
                targets, outputs = 2 * targets - 1, 1
        problem = Problem(LeastSquares(), L2(0.0), Z.shape[1], dtype=Z.dtype, outputs=outputs)
        return driver.whole(Dense(Z), targets, self.weight), problem


def _is_direct(model: KernelModel) -> bool:
    """Whether ``model`` solves least squares directly, with the same targets and all its rows."""
    if model.early_stopping or model.steps or model.trace or model.callbacks or model.verbose:
        return False
    if getattr(model, "class_weight", None) is not None or getattr(model, "calibrate", None):
        return False
    if model.solver != "auto" and resolve(model.solver, Solver, "solver") != _SOLVER:
        return False
    penalty = resolve(model.named("penalty"), Penalty, "penalty", strength=1.0)
    return _SOLVER.loss_needs <= capabilities(
        resolve(model.loss, Loss, "loss")
    ) and _SOLVER.penalty_needs <= capabilities(penalty)
