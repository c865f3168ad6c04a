"""What exact kernel machines share: options, the kernel, memory, what becomes of solutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._allowed import FLAG, POSITIVE, number
from thresher._seed import seed_from
from thresher.dimensions import Float
from thresher.estimators.base import Learner
from thresher.estimators.exact_model import INSTEAD, ExactModel
from thresher.estimators.spaces import kernel_dimensions, term_dimensions
from thresher.estimators.support_fit import (
    Fitted,
    Watch,
    advised,
    duels,
    support_function,
    together,
)
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.estimators.views import view
from thresher.kernels import Kernel, Linear
from thresher.kernels.width import GAMMA, resolve_kernel
from thresher.registry import resolve
from thresher.solvers import Status
from thresher.solvers.kernel_least_squares import kernel_least_squares
from thresher.solvers.machines import KernelDual

__all__ = ["SupportVectorModel"]


class SupportVectorModel(ExactModel):
    """What they share: options, the kernel, memory, and what becomes of the solutions."""

    allowed = {
        "C": POSITIVE, "nu": number(0.0, 1.0, "(]") | None, "gamma": GAMMA, "tol": POSITIVE,
        "scale": FLAG | "relevance",
    }  # fmt: skip
    optional_record = (*Learner.optional_record, "loo_error_", "violation_")
    support_vectors_ = view("vectors", "In the units of ``shift_`` and ``scale_``.")
    dual_coef_ = view("coef", "Coefficients of the support vectors.")
    intercept_ = view("intercept", "One per function.")
    kernel_ = view("kernel", "With its width filled in.")
    loss: Any
    C: Any
    nu: float | None
    kernel: Any
    gamma: Any
    tol: Any
    memory: float
    multiclass = "ovr"
    variables = 1  # of the dual problem, for every row

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        resolve(self.kernel, Kernel, "kernel")
        if self.nu is not None and self.loss == "least_squares":
            raise ValueError("nu is for the loss with a margin or a tube, not for 'least_squares'")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts: dict[str, Any] = {"C": Float(1e-2, 1e4, log=True)}
        if self.nu is not None:
            parts = {"nu": Float(0.01, 0.5, log=True)}
        parts |= kernel_dimensions(self, X)
        parts.pop("kernel__degree", None)  # a kernel object then, and gamma is for kernels by name
        return parts | term_dimensions(self)

    # ------------------------------------------------------------ the fit

    def solves_problems(self) -> bool:
        """Least squares is one linear system; all others can be interrupted."""
        return bool(self.loss != "least_squares")

    def learned_from(
        self, X: Any, y: np.ndarray, weight: np.ndarray, C: float, kept: np.ndarray, tol: float,
        outputs: int,
    ) -> tuple[Any, list[Fitted], KernelDual]:  # fmt: skip
        kernel = resolve_kernel(self.kernel, self.gamma, X, seed_from(self.random_state))
        solver = KernelDual(tol, float(self.memory), self.max_iter, self._jobs)
        given = KernelRows(kernel, X, y, C * weight)
        return *self._learned_from(given, solver, outputs), solver

    def _learned_from(
        self, given: KernelRows, solver: KernelDual, outputs: int
    ) -> tuple[Any, list[Fitted]]:
        """The function, and how each of its problems ended."""
        watch = Watch(self, is_kept=True)
        if self.loss == "least_squares" and (outputs == 1 or self.multiclass == "ovr"):
            return self._by_least_squares(given, outputs)

        def learn(part: KernelRows, output: int | None, own: KernelDual, cache: Any) -> Fitted:
            if watch.is_over():
                return Fitted.nothing(part.y.size, 0.0, watch.stopped or Status.OUT_OF_TIME)
            if self.loss == "least_squares":
                return self._least_squares(part, part.y[:, None])[0][0]
            columns = part.columns(solver.tol) if cache is None else cache.source
            start, own, steps = watch.standing(output, part.y.size * self.variables, own)
            monitor = watch.monitor(output, steps)
            if isinstance(part.kernel, Linear) and self.nu is None:
                monitor = advised(monitor, self._linear(1.0 / float(part.weight.sum())))
            found = self._solve(own, columns, part, start=start, monitor=monitor, cache=cache)
            return found._replace(steps=found.steps + steps)

        if outputs > 1 and self.multiclass == "ovo":
            by_columns = self.loss != "least_squares"
            at_once = by_columns and self.nu is None
            return duels(learn, given, outputs, solver, watch, by_columns, at_once)
        fitted = together(learn, given, outputs, solver, watch)
        return support_function(given, fitted), fitted

    def _solve(self, solver: KernelDual, columns: Any, part: KernelRows, **how: Any) -> Fitted:
        """One problem; ``how`` has its start, its monitor and a cache of columns."""
        raise NotImplementedError

    def _linear(self, alpha: float) -> str:
        """The linear machine that solves the same problem."""
        raise NotImplementedError

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """C and the tolerance."""
        return float(self.C), float(self.tol)

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
                f"raise memory to that, or use {INSTEAD}"
            )
        found = kernel_least_squares(part.gram(), y, part.weight)
        fitted = [
            Fitted(coef, float(b), scores, Status.CONVERGED, 1, 0.0)
            for coef, b, scores in zip(found.coef.T, found.intercept, found.scores.T, strict=True)
        ]
        return fitted, found.left_out

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        raise NotImplementedError
