"""What happens between passes: progress lines, callbacks and early stopping."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thresher._clock import is_over
from thresher.solvers import Problem, Result, Status, driver

__all__ = ["FitEvent", "Held", "Progress", "progress_line"]


class FitEvent(NamedTuple):
    """What a callback is told after each pass; a callback that returns True stops the fit.

    Parameters
    ----------
    estimator : the estimator that is fitted
    output : int or None
        Number of the class being learned, None where there is only one problem.
    passes, step : int
        Passes and updates so far.
    residual : float
        Distance from convergence, in the solver's own measure.
    nonzeros : int
        Weights that are not zero.
    held_out : float or None
        Loss on the held-out rows, with early stopping.
    seconds : float
        Since the fit began.
    function : what was learned so far, of the rows as the solver sees them

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from thresher import LinearClassifier
    >>> seen = []
    >>> model = LinearClassifier(callbacks=[lambda event: seen.append(event.passes)])
    >>> model = model.fit(*load_iris(return_X_y=True))
    >>> bool(seen)
    True
    """

    estimator: Any
    output: int | None
    passes: int
    step: int
    residual: float
    nonzeros: int
    held_out: float | None
    seconds: float
    function: Any

    @property
    def coef(self) -> np.ndarray:
        return self.function.coef

    @property
    def intercept(self) -> Any:
        return self.function.intercept


class Held(NamedTuple):
    """Rows kept aside for early stopping."""

    rows: Any
    y: np.ndarray
    weight: np.ndarray | None


class Progress:
    """The monitor of one run: prints, calls back, and stops when the held-out loss stalls."""

    def __init__(self, estimator: Any, problem: Problem, held: Held | None, output: int | None):
        self.estimator, self.problem, self.output = estimator, problem, output
        self.held = held and driver.whole(held.rows, held.y, held.weight)
        self.patience = driver.Patience(estimator.patience) if held else None
        self.started = time.perf_counter()

    def __call__(self, event: driver.Event) -> Status | None:
        held_out = None
        if self.held is not None:
            held_out = driver.mean_loss(self.problem, self.held, *event.function)
        told = FitEvent(
            self.estimator, self.output, event.passes, event.step, event.residual,
            int(np.count_nonzero(event.function.coef)), held_out,
            time.perf_counter() - self.started, event.function,
        )  # fmt: skip
        if self.estimator.verbose:
            print(progress_line(told), flush=True)
        # Every callback is told, also after one asked to stop.
        answers = [callback(told) for callback in self.estimator.callbacks or ()]
        if any(answers):
            return Status.INTERRUPTED
        if is_over():
            return Status.OUT_OF_TIME
        if self.patience is None or held_out is None:
            return None
        ended = self.patience.has_run_out(held_out, event.passes, event.function)
        return Status.EARLY_STOPPED if ended else None

    def best(self, result: Result) -> Result:
        """With early stopping, the model of the best pass instead of the last."""
        kept = self.patience is not None and self.patience.best is not None
        if not kept or result.status in (Status.INTERRUPTED, Status.OUT_OF_TIME):
            return result
        assert self.patience is not None
        return replace(result, function=self.patience.best)


def progress_line(event: FitEvent) -> str:
    parts = [
        f"class {event.output}" if event.output is not None else "",
        f"pass {event.passes}",
        "" if np.isnan(event.residual) else f"residual {event.residual:.2e}",
        event.function.describe(),
        f"held-out loss {event.held_out:.5f}" if event.held_out is not None else "",
        f"{event.seconds:.1f} s",
    ]
    return "[thresher] " + "  ".join(part for part in parts if part)
