"""The fits of a race by workers: rows are written once, a task is a setting and its rows.

A fit is a function of its setting and rows alone, so that its losses are those that it has here.
Which fits there are is up to the clock, here as there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from thresher.engines import Engine
from thresher.engines.handed import Handed
from thresher.race.fitting import Fit, Fitting
from thresher.race.runner import Trial

__all__ = ["FittingElsewhere"]


class Bout(NamedTuple):
    """One fit; ``seconds`` after its start it ends with the next pass."""

    estimator: Any
    params: dict[str, Any]
    part: np.ndarray
    judges: np.ndarray
    seconds: float


class FittingElsewhere(Fitting):
    """As many fits at a time as the engine has workers; the threads of this process only wait."""

    def __init__(
        self, engine: Engine, X: Any, y: np.ndarray, weight: np.ndarray | None, regression: bool,
        on_trial: Callable[[Trial], None] | None, stop: Callable[[], bool],
    ):  # fmt: skip
        super().__init__(X, y, weight, regression, engine.width, on_trial, stop)
        self.engine = engine
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Fitting:
        self._folder = TemporaryDirectory(prefix="thresher-", ignore_cleanup_errors=True)
        rows = self.X, self.y, self.weight, self.regression
        self._rows = Handed.over(rows, self._folder.name)
        return super().__enter__()

    def __exit__(self, problem: Any, *rest: Any) -> None:
        super().__exit__(problem, *rest)
        assert self._folder is not None
        self._folder.cleanup()

    def fit(
        self, estimator: Any, params: dict[str, Any], part: np.ndarray, judges: np.ndarray,
        until: float,
    ) -> Fit:  # fmt: skip
        bout = Bout(estimator, params, part, judges, until - time.monotonic())
        ((_, fit),) = self.engine.run(_fit, [bout], self._rows)
        return fit


def _fit(bout: Bout, rows: Handed) -> Fit:
    estimator, params, part, judges, seconds = bout
    fitting = rows.made(_fitting)
    return fitting.fit(estimator, params, part, judges, time.monotonic() + seconds)


def _fitting(X: Any, y: np.ndarray, weight: np.ndarray | None, regression: bool) -> Fitting:
    return Fitting(X, y, weight, regression, 1, None)
