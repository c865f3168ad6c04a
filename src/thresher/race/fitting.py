"""The fits of a race: on some rows, judged on others, side by side in threads.

The compiled loops do not hold Python's lock.  Fits that keep several threads busy themselves run
alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from sklearn.base import clone

from thresher.race.runner import Attempt, Runner, Trial
from thresher.registry import LEARNERS

__all__ = ["Fitting", "finish", "stop_after"]


class Fitting:
    """Rows, and ``jobs`` threads that fit on parts of them; ``on_trial`` hears of every fit."""

    def __init__(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, regression: bool, jobs: int,
        on_trial: Callable[[Trial], None] | None,
    ):  # fmt: skip
        self.X, self.y, self.weight, self.regression = X, y, weight, regression
        self.classes = np.empty(0) if regression else np.unique(y)
        self.jobs, self.on_trial, self.lock = jobs, on_trial, threading.Lock()

    def __enter__(self) -> Fitting:
        self.pool = ThreadPoolExecutor(self.jobs)
        return self

    def __exit__(self, *problem: Any) -> None:
        self.pool.shutdown()

    def all(self, fits: Sequence[tuple[Runner, Callable[[], None]]]) -> None:
        """Wait for fits of runners; those that are wide come one by one, after the others."""
        finish([self.pool.submit(fit) for runner, fit in fits if not runner.is_wide])
        for runner, fit in fits:
            if runner.is_wide:
                fit()

    def attempt(
        self, runner: Runner, params: dict[str, Any], part: np.ndarray, judges: np.ndarray,
        until: float,
    ) -> Attempt:  # fmt: skip
        """A fit on the rows ``part`` that ends with the first pass after ``until``."""
        started = time.monotonic()
        model, misses, scores, problem = None, np.array([math.inf]), None, ""
        try:
            model = clone(runner.estimator).set_params(**params)
            stop_after(model, until)
            weight = None if self.weight is None else self.weight[part]
            model.fit(self.X[part], self.y[part], sample_weight=weight)
            misses, scores = self.misses(model, judges), self._scores(model, judges)
            stop_after(model, None)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            problem = str(error)[:200]
        seconds, loss = time.monotonic() - started, float(np.mean(misses))
        size = 0 if problem else _size(model)
        trial = Trial(runner.name, params, int(part.size), loss, seconds, size, problem)
        if self.on_trial is not None:
            with self.lock:
                self.on_trial(trial)
        return Attempt(trial, model, misses, scores)

    def misses(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """1 for every row in the wrong class, or its squared miss."""
        predicted, y = model.predict(self.X[rows]), self.y[rows]
        if self.regression:
            return (predicted - y) ** 2
        return (predicted != y).astype(np.float64)

    def _scores(self, model: Any, rows: np.ndarray) -> np.ndarray | None:
        """(rows, outputs) for all classes; None of models that are not ours, or no learners."""
        if LEARNERS.kind_of(type(model)) is None:
            return None
        scores = np.asarray(model.function_.scores(self.X[rows]), dtype=np.float64)
        if self.regression or model.classes_.size == self.classes.size:
            return scores
        known = np.searchsorted(self.classes, model.classes_)
        scores = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
        least = float(scores.min()) - float(np.ptp(scores))  # an absent class is never right
        out = np.full((rows.size, self.classes.size), least)
        out[:, known] = scores
        return out


def finish(running: Iterable[Future[None]]) -> None:
    """Wait for fits, and hear of what went wrong."""
    for future in running:
        future.result()


def _size(model: Any) -> int:
    """Numbers that a model needs to predict; unknown of models that are not ours."""
    return model.function_.size if hasattr(model, "function_") else 0


def stop_after(model: Any, until: float | None) -> None:
    """End a fit with the first pass after ``until``; models that are not ours go on."""
    if "callbacks" in model.get_params(deep=False):
        late = None if until is None else [lambda event: time.monotonic() > until]
        model.set_params(callbacks=late)
    for member in getattr(model.get_params(deep=False).get("map"), "members", None) or ():
        stop_after(member, until)
