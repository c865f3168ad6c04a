"""What exact kernel machines share: options, the kernel, memory, what becomes of solutions."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.base import SEVERITY, Learner
from thresher.estimators.progress import Held
from thresher.estimators.spaces import kernel_dimensions, term_dimensions
from thresher.estimators.support_fit import Fitted, Watch, duels, support_function, together
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.estimators.views import view
from thresher.kernels import Kernel
from thresher.kernels.width import resolve_kernel
from thresher.losses import Loss
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Problem, Status, driver
from thresher.solvers.kernel_least_squares import kernel_least_squares
from thresher.solvers.machines import KernelDual
from thresher.solvers.stream import Stream

__all__ = ["SupportVectorModel"]

_INSTEAD = (
    "learner='kernel' (landmarks in place of all rows, in a few percent of the time) or "
    "learner='budgeted' (row by row)"
)
_INDEFINITE = (
    "the kernel is not positive definite on these rows: the model is a stationary point of its "
    "objective, maybe not the best one"
)


class SupportVectorModel(Learner):
    """What they share: options, the kernel, memory, and what becomes of the solutions."""

    scales: tuple[str, ...] = ("relevance",)
    alpha_per_row = False  # C is one row's
    optional_record = (*Learner.optional_record, "loo_error_", "violation_")
    support_vectors_ = view("vectors", "In the units of ``shift_`` and ``scale_``.")
    dual_coef_ = view("coef", "Coefficients of the support vectors.")
    intercept_ = view("intercept", "One per function.")
    kernel_ = view("kernel", "With its width filled in.")
    losses: tuple[str, ...]
    loss: Any
    C: Any
    nu: float | None
    kernel: Any
    gamma: Any
    tol: Any
    memory: float
    multiclass = "ovr"

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        usual = inspect.signature(type(self)).parameters
        for name in ("C", "tol", "memory"):
            value = getattr(self, name)
            if value is None and name in usual and usual[name].default is None:
                continue
            if not (isinstance(value, int | float | np.number) and 0.0 < value < math.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.nu is not None and not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu must lie in (0, 1], or be None for C alone; got {self.nu!r}")
        if self.max_iter is not None and self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1 (or None), got {self.max_iter}")
        resolve(self.kernel, Kernel, "kernel")
        if self.loss not in self.losses:
            known = " or ".join(map(repr, self.losses))
            raise ValueError(f"loss must be {known}, got {self.loss!r}")
        if self.nu is not None and self.loss == "least_squares":
            raise ValueError("nu is for the loss with a margin or a tube, not for 'least_squares'")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts: dict[str, Any] = {"C": Float(1e-2, 1e4, log=True)}
        if self.nu is not None:
            parts = {"nu": Float(0.01, 0.5, log=True)}
        parts |= kernel_dimensions(self, X)
        parts.pop("kernel__degree", None)  # a kernel object then, and gamma is for kernels by name
        return parts | term_dimensions(self)

    def work(self, params: dict[str, Any], rows: int) -> float:
        return float(rows) ** 2

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
        return "the exact kernel machine", _INSTEAD

    @property
    def shift_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = self.function_.units
        return None if units is None else units.shift

    @property
    def scale_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = self.function_.units
        return None if units is None else units.scale

    # ------------------------------------------------------------ the fit

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
        kept = np.flatnonzero(weight > 0.0)
        if kept.size < weight.size:
            X, targets, weight = X[kept], targets[kept], weight[kept]
        input.refuse_far_rows(X)
        kernel = resolve_kernel(self.kernel, self.gamma, X, seed_from(self.random_state))
        targets = targets.astype(np.float64)
        C, tol = self._numbers(targets, weight)
        given = KernelRows(kernel, X, targets, C * weight)
        solver = KernelDual(tol, float(self.memory), self.max_iter, self._jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            function, fitted = self._learned_from(given, solver, outputs)
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
        if not self._is_good(given, fitted, outputs):
            status = self.judged(status, stream, judges, function, front)
        self.keep(function, status, max(f.steps for f in fitted), stream)
        if any(f.negative for f in fitted):
            warnings.warn(f"{type(self).__name__}: {_INDEFINITE}", ConvergenceWarning, stacklevel=4)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)

    def _learned_from(
        self, given: KernelRows, solver: KernelDual, outputs: int
    ) -> tuple[Any, list[Fitted]]:
        """The function, and how each of its problems ended."""
        watch = Watch(self)
        if self.loss == "least_squares" and (outputs == 1 or self.multiclass == "ovr"):
            return self._by_least_squares(given, outputs)

        def learn(part: KernelRows, output: int | None, own: KernelDual, cache: Any) -> Fitted:
            if watch.is_over():
                return Fitted.nothing(part.y.size, 0.0, watch.stopped or Status.OUT_OF_TIME)
            if self.loss == "least_squares":
                return self._least_squares(part, part.y[:, None])[0][0]
            columns = part.columns(solver.tol) if cache is None else cache.source
            return self._solve(own, columns, part, watch.monitor(output), cache)

        if outputs > 1 and self.multiclass == "ovo":
            return duels(learn, given, outputs, solver, watch, self.loss != "least_squares")
        fitted = together(learn, given, outputs, solver)
        return support_function(given, fitted), fitted

    @property
    def _jobs(self) -> int:
        return threads(self.n_jobs)

    def _solve(
        self, solver: KernelDual, columns: Any, part: KernelRows, monitor: Any, cache: Any
    ) -> Fitted:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """C and the tolerance."""
        return float(self.C), float(self.tol)

    def _is_good(self, given: KernelRows, fitted: list[Fitted], outputs: int) -> bool:
        """Whether the training scores alone say that the model is worth having."""
        return False

    # ------------------------------------------------------------ least squares

    def _by_least_squares(self, given: KernelRows, outputs: int) -> tuple[Any, list[Fitted]]:
        y = given.y[:, None]
        if outputs > 1:
            y = np.where(y == np.arange(outputs), 1.0, -1.0)
        fitted, left_out = self._least_squares(given, y)
        self.loo_error_ = self._left_out(given, left_out)
        return support_function(given, fitted), fitted

    def _least_squares(self, part: KernelRows, y: np.ndarray) -> tuple[list[Fitted], np.ndarray]:
        n = y.shape[0]
        if 8 * n * n > max(self.memory, 2e9):
            raise ValueError(
                f"least squares over {n:,} rows needs {8 * n * n:,} bytes for the kernel matrix: "
                f"raise memory to that, or use {_INSTEAD}"
            )
        found = kernel_least_squares(part.gram(), y, part.weight)
        fitted = [
            Fitted(coef, float(b), scores, Status.CONVERGED, 1, 0.0)
            for coef, b, scores in zip(found.coef.T, found.intercept, found.scores.T, strict=True)
        ]
        return fitted, found.left_out

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        raise NotImplementedError
