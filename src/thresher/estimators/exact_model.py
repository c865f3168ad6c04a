"""What machines share that compare all rows with each other: from rows to a judged function."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._rows import Rows
from thresher._threads import threads
from thresher.estimators import input
from thresher.estimators.base import SEVERITY, Learner
from thresher.estimators.progress import Held
from thresher.estimators.support_fit import Fitted
from thresher.losses import Loss
from thresher.penalties import L2
from thresher.solvers import Problem, Solver, Status, driver
from thresher.solvers.stream import Stream

__all__ = ["INSTEAD", "ExactModel"]

_FEW_ROWS = 5000  # whose pairs cost about as much as all that is not about pairs
#: of an exact machine, where rows are too many
INSTEAD = (
    "learner='kernel' (landmarks in place of all rows, in a few percent of the time) or "
    "learner='budgeted' (row by row)"
)
_INDEFINITE = (
    "the kernel is not positive definite on these rows: the model is a stationary point of its "
    "objective, maybe not the best one"
)


class ExactModel(Learner):
    """Rows in their units, bounds of the dual variables, the verdict on what was learned."""

    alpha_per_row = False  # C is one row's

    # ------------------------------------------------------------ for subclasses

    def learned_from(
        self, X: Any, y: np.ndarray, bounds: np.ndarray, kept: np.ndarray, tol: float, outputs: int
    ) -> tuple[Any, list[Fitted], Solver]:
        """The function, how each of its problems ended, and the solver.

        ``X`` are the rows that are ``kept`` of all (True), in their units, and ``bounds`` C times
        their weights.
        """
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """C and the tolerance."""
        raise NotImplementedError

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        """Whether the training scores alone say that the model is worth having."""
        return False

    # ------------------------------------------------------------ streams

    def work(self, params: dict[str, Any], rows: int) -> float:
        """Pairs of rows, and what does not grow with them: most of it where rows are few."""
        return float(_FEW_ROWS) ** 2 + float(rows) ** 2

    def _can_stream(self) -> bool:
        raise AttributeError(
            f"{type(self).__name__} compares all rows with each other and has no partial_fit: use "
            "the learner 'budgeted' for streams"
        )

    def streams_files(self) -> bool:
        """An exact machine needs all rows together."""
        return False

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return "the exact kernel machine", INSTEAD

    # ------------------------------------------------------------ units

    @property
    def shift_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = getattr(self.function_, "units", None)
        return None if units is None else units.shift

    @property
    def scale_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = getattr(self.function_, "units", None)
        return None if units is None else units.scale

    # ------------------------------------------------------------ the fit

    @property
    def _jobs(self) -> int:
        return threads(self.n_jobs)

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
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
        C, tol = self._numbers(targets, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            function, fitted, solver = self.learned_from(X, targets, C * weight, kept, tol, outputs)
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
        if not self._is_good(targets, C * weight, fitted, outputs):
            status = self.judged(status, stream, judges, function, front)
        self.keep(function, status, max(f.steps for f in fitted), stream)
        if any(f.negative for f in fitted):
            warnings.warn(f"{type(self).__name__}: {_INDEFINITE}", ConvergenceWarning, stacklevel=4)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)
