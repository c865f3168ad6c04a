"""What happens between passes: progress lines, callbacks and early stopping."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from thresher.solvers import Result, Status, driver

__all__ = ["FitEvent", "Held", "Progress"]


class FitEvent(NamedTuple):
    """What a callback is told after each pass; a callback that returns True stops the fit."""

    estimator: Any
    output: int | None  # number of the class being learned, None where there is only one problem
    passes: int
    step: int
    residual: float
    nonzeros: int
    held_out: float | None  # loss on the held-out rows, with early stopping
    seconds: float
    coef: np.ndarray
    intercept: Any


class Held(NamedTuple):
    """Rows kept aside for early stopping."""

    rows: Any
    y: np.ndarray
    weight: np.ndarray | None


@dataclass
class _Best:
    loss: float
    passes: int
    coef: np.ndarray
    intercept: Any


class Progress:
    """The monitor of one run: prints, calls back, and stops when the held-out loss stalls."""

    def __init__(self, estimator: Any, setup: Any, held: Held | None, output: int | None):
        self.estimator, self.problem, self.output = estimator, setup.problem, output
        self.held = held and driver.whole(held.rows, held.y, held.weight)
        self.started = time.perf_counter()
        self._best: _Best | None = None

    def __call__(self, event: driver.Event) -> Status | None:
        held_out = None
        if self.held is not None:
            held_out = driver.mean_loss(self.problem, self.held, event.coef, event.intercept)
        told = FitEvent(
            self.estimator, self.output, event.passes, event.step, event.residual,
            int(np.count_nonzero(event.coef)), held_out, time.perf_counter() - self.started,
            event.coef, event.intercept,
        )  # fmt: skip
        if self.estimator.verbose:
            print(_line(told), flush=True)
        # Every callback is told, also after one asked to stop.
        answers = [callback(told) for callback in self.estimator.callbacks or ()]
        if any(answers):
            return Status.INTERRUPTED
        return self._stalled(event, held_out)

    def _stalled(self, event: driver.Event, held_out: float | None) -> Status | None:
        if held_out is None:
            return None
        if self._best is None or held_out < self._best.loss:
            self._best = _Best(held_out, event.passes, event.coef, event.intercept)
        if event.passes - self._best.passes >= self.estimator.patience:
            return Status.EARLY_STOPPED
        return None

    def best(self, result: Result) -> Result:
        """With early stopping, the model of the best pass instead of the last."""
        if self._best is None or result.status is Status.INTERRUPTED:
            return result
        return replace(result, coef=self._best.coef, intercept=self._best.intercept)


def _line(event: FitEvent) -> str:
    parts = [
        f"class {event.output}" if event.output is not None else "",
        f"pass {event.passes}",
        f"residual {event.residual:.2e}",
        f"non-zeros {event.nonzeros}/{np.size(event.coef)}",
        f"held-out loss {event.held_out:.5f}" if event.held_out is not None else "",
        f"{event.seconds:.1f} s",
    ]
    return "[thresher] " + "  ".join(part for part in parts if part)
