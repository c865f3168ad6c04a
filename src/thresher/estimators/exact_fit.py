"""A fit that compares all rows with each other: from rows to a judged function."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._rows import Rows
from thresher.estimators import input
from thresher.estimators.base import SEVERITY, Learner
from thresher.estimators.support_fit import Fitted
from thresher.losses import Hinge, Loss
from thresher.penalties import L2
from thresher.solvers import Problem, Solver, Status, driver
from thresher.solvers.stream import Stream

__all__ = ["INDEFINITE", "ExactFit"]

INDEFINITE = (
    "the kernel is not positive definite on these rows: the model is a stationary point of its "
    "objective, maybe not the best one"
)


class ExactFit(Learner):
    """Rows in their units, bounds of the dual variables, the verdict on what was learned."""

    alpha_per_row = False  # C is one row's

    # ------------------------------------------------------------ for subclasses

    def learned_from(
        self, X: Any, y: np.ndarray, weight: np.ndarray, C: float, kept: np.ndarray, tol: float,
        outputs: int,
    ) -> tuple[Any, list[Fitted], Solver]:  # fmt: skip
        """The function, how each of its problems ended, and the solver.

        ``X`` are the rows that are ``kept`` of all (True), in their units, and ``weight`` their
        weights; C times these are bounds.
        """
        raise NotImplementedError

    def _loss(self) -> Loss:
        return Hinge()

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """C and the tolerance."""
        raise NotImplementedError

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        """Whether the training scores alone say that the model is worth having."""
        return False

    # ------------------------------------------------------------ the fit

    def fit_exactly(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int
    ) -> None:
        """Learn from coded targets: -1 and +1, class numbers if ``outputs`` > 1, or numbers."""
        self._forget()
        judges = driver.whole(rows, targets, weight)
        front = self.learn_front(rows, targets, weight)
        X = input.matrix_of(rows)
        X = X if front.units is None else front.units.matrix(X)
        weight = np.ones(targets.size) if weight is None else weight
        kept = weight > 0.0
        if not np.all(kept):
            X, targets, weight = X[kept], targets[kept], weight[kept]
        input.refuse_far_rows(X)
        targets = targets.astype(np.float64)
        input.refuse_far_targets(targets)
        C, tol = self._numbers(targets, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            function, fitted, solver = self.learned_from(X, targets, weight, C, kept, tol, outputs)
        status = max((f.status for f in fitted), key=SEVERITY.index)
        self.violation_ = max(f.violation for f in fitted)
        function = function.unscaled(front.units)
        if not function.is_finite():
            raise ArithmeticError("the model overflows: scale the features or lower C")
        mass = float(weight.sum())
        problem = Problem(
            self._loss(), L2(1.0 / (C * mass)), X.shape[1], True, rows.dtype, 0, tol, outputs,
        )  # fmt: skip
        stream = Stream(problem, solver, None)
        self.mind_units(getattr(function, "kernel", None), judges, front)
        if not self._is_good(targets, C * weight, fitted, outputs):
            status = self.judged(status, stream, judges, function, front)
        self.keep(function, status, max(f.steps for f in fitted), stream)
        if any(f.negative for f in fitted):
            warnings.warn(f"{type(self).__name__}: {INDEFINITE}", ConvergenceWarning, stacklevel=4)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)
