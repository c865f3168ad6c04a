"""What the budgeted classifier and regressor share: everything but targets and predictions."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from thresher._rows import Rows, scaled
from thresher._seed import seed_from
from thresher.data.moments import Moments
from thresher.estimators import _input
from thresher.estimators._nested import NestedParameters
from thresher.estimators._progress import FitEvent
from thresher.estimators._relevance import weighed
from thresher.estimators._stream import stream_chunk
from thresher.kernels import RBF, Kernel
from thresher.kernels.expansion import packed, scores
from thresher.losses import Hinge
from thresher.registry import resolve
from thresher.solvers import Chunk, Status, driver
from thresher.solvers.budgeted import Budgeted, OneOutput

__all__ = ["BudgetedModel"]

_STREAM_ALPHA = 1e-5


class BudgetedModel(NestedParameters):
    """Base of the budgeted estimators."""

    _task: str
    _scales = ("relevance",)

    def __init__(
        self, kernel: Any, gamma: float | None, alpha: float | None, budget: int, maintenance: str,
        max_iter: int, order: str, fit_intercept: bool, eta0: float | None, average: bool,
        scale: Any, random_state: Any, verbose: int, callbacks: Any,
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.budget = budget
        self.maintenance = maintenance
        self.max_iter = max_iter
        self.order = order
        self.fit_intercept = fit_intercept
        self.eta0 = eta0
        self.average = average
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ from parameters to a learner

    def _check_options(self) -> None:
        for name in ("alpha", "gamma"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be positive and finite (or None), got {value}")
        if self.eta0 is not None and not self.eta0 > 0.0:
            raise ValueError(f"eta0 must be positive (or None), got {self.eta0}")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}")
        if self.order not in ("shuffle", "sequential"):
            raise ValueError(f"order={self.order!r} is unknown: use shuffle or sequential")
        if self.gamma is not None and isinstance(self.kernel, Kernel):
            raise ValueError(
                f"gamma={self.gamma} is for kernels given by name; "
                f"{type(self.kernel).__name__} has its own parameters"
            )
        kernel = resolve(self.kernel, Kernel, "kernel")
        Budgeted(OneOutput(Hinge()), kernel, 1, 1.0, self.budget, self.maintenance).check()

    def _learner(
        self, rule: Any, outputs: int, chunk: Chunk, weight: np.ndarray | None, mass: float | None
    ) -> Budgeted:
        """``mass`` is the total weight of all rows, None in a stream."""
        rows = chunk.rows
        moments = Moments.empty(rows.shape[1]).updated(rows, weight)
        mean, deviation = moments.mean_and_deviation()
        with np.errstate(over="ignore"):
            variance, square = float(np.sum(deviation**2)), float(np.sum(mean**2 + deviation**2))
        gamma = self.gamma
        if gamma is None:
            gamma = 1.0 / variance if 0.0 < variance < math.inf else 1.0
        kernel = resolve(self.kernel, Kernel, "kernel", gamma=gamma)
        # Distances from inner products cancel: single precision while that leaves four digits.
        short = isinstance(kernel, RBF) and kernel.gamma * square < 200.0 and square < 1e30
        alpha = self.alpha or (_STREAM_ALPHA if mass is None else 1.0 / mass)
        budget = self.budget if mass is None else min(self.budget, chunk.size)
        return Budgeted(
            rule, kernel, rows.shape[1], float(alpha), int(budget), self.maintenance, outputs,
            1.0 if self.fit_intercept else 0.0, self.eta0 or self._first_step(rule, kernel, chunk),
            16.0 if self.average else None, np.float32 if short else np.float64,
            seed_from(self.random_state),
        )  # fmt: skip

    def _first_step(self, rule: Any, kernel: Any, chunk: Chunk) -> float:
        """1 / mean k(x, x) of some rows, times the spread of numbers that are to be predicted."""
        block, part = next(packed(chunk.rows, chunk.order[:200], np.float64))
        sizes = [abs(float(kernel.of(s, s, s))) for s in block.squares[: part.size].tolist()]
        step = 1.0 / max(float(np.mean(sizes)), 1e-12)
        if self._task == "regression" and math.isinf(rule.loss.smoothness):
            step *= float(np.std(chunk.y)) or 1.0
        return step

    # ------------------------------------------------------------ the fit

    def _fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, rule: Any, outputs: int
    ) -> None:
        self._forget()
        rows = self._in_units(rows, targets, weight)
        chunk = driver.whole(rows, targets, weight)
        mass = float(rows.shape[0] if weight is None else weight.sum())
        learner = self._learner(rule, outputs, chunk, weight, mass)
        state, status, passes = learner.init(), Status.COMPLETED, 0
        started = time.perf_counter()
        for passes in range(1, self.max_iter + 1):
            order = driver.pass_order(chunk.order, self.order, learner.seed, passes - 1)
            state = learner.update(state, chunk._replace(order=order))
            if self._told(learner, state, passes, time.perf_counter() - started):
                status = Status.INTERRUPTED
                break
        self._store(learner, state, chunk, passes, status)

    def _partial_fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, rule: Any, outputs: int
    ) -> None:
        first = not hasattr(self, "_stream")
        if first:
            rows = self._in_units(rows, targets, weight)
        elif self.scale_ is not None:
            rows = scaled(rows, self.shift_, self.scale_)
        chunk = stream_chunk(rows, targets, weight)
        if first:
            learner = self._learner(rule, outputs, chunk, weight, None)
            self._stream = learner, learner.init()
        learner, state = self._stream
        self._stream = learner, learner.update(state, chunk)
        self._store(*self._stream, chunk, 1, Status.COMPLETED)

    def _forget(self) -> None:
        for name in ("_stream", "calibrator_"):
            if hasattr(self, name):
                delattr(self, name)

    def _in_units(self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None) -> Rows:
        self.shift_, self.scale_ = None, None
        if not _input.wants_units(self.scale, self._scales):
            return rows
        weight = np.ones(rows.shape[0]) if weight is None else weight
        units = _input.learn_units(rows, weight, centre=hasattr(rows, "X"))
        if self.scale == "relevance":
            y = targets if self._task == "regression" else targets.astype(np.int64)
            units = weighed(units, rows, y, weight, seed_from(self.random_state))
        self.shift_, self.scale_ = units
        return units.apply(rows)

    def _told(self, learner: Budgeted, state: Any, passes: int, seconds: float) -> bool:
        """Report the pass; True if a callback asks to stop."""
        if self.verbose:
            print(
                f"[thresher] pass {passes}  support vectors {state.size}/{learner.budget}  "
                f"{seconds:.1f} s",
                flush=True,
            )
        if not self.callbacks:
            return False
        _, coef, intercept = learner.finish(state)
        event = FitEvent(
            self, None, passes, int(state.step), math.nan, int(state.size), None, seconds, coef,
            intercept,
        )  # fmt: skip
        answers = [callback(event) for callback in self.callbacks]
        return any(answers)

    def _store(
        self, learner: Budgeted, state: Any, chunk: Chunk, passes: int, status: Status
    ) -> None:
        vectors, coef, intercept = learner.finish(state)
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(vectors))):
            _input.refuse_huge(chunk)
            warnings.warn(
                f"{type(self).__name__}: {Status.DIVERGED}", ConvergenceWarning, stacklevel=4
            )
            coef, vectors, status = np.zeros_like(coef), np.zeros_like(vectors), Status.DIVERGED
            intercept = np.zeros_like(intercept)
        self.support_vectors_, self.dual_coef_ = vectors, coef
        self.intercept_ = intercept
        self.kernel_, self.alpha_ = learner.kernel, learner.lam
        self.n_iter_, self.status_ = passes, status

    # ------------------------------------------------------------ use

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = _input.to_rows(_input.checked_X(self, X))
        if self.scale_ is not None:
            rows = scaled(rows, self.shift_, self.scale_)
        return scores(rows, self.kernel_, self.support_vectors_, self.dual_coef_, self.intercept_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dual_coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
