"""The fits of a race: on some rows, judged on others, side by side in threads.

The compiled loops do not hold Python's lock.  Fits that keep several threads busy themselves run
alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from thresher._clock import ending
from thresher._threads import LEAVABLE
from thresher.race.runner import WIDE_ROWS, Attempt, Runner, Trial, misses_of
from thresher.registry import LEARNERS

__all__ = ["Fit", "Fitting", "Stopped"]

_LOOK = 0.1  # seconds between looks at whether to stop


class Stopped(Exception):
    """Somebody asked the race to end."""


class Fit(NamedTuple):
    """A model, losses and scores of the rows that judged it, what went wrong, and the seconds
    that it took without judging."""

    model: Any
    misses: np.ndarray
    scores: np.ndarray | None
    problem: str
    seconds: float


def _never() -> bool:
    return False


class Fitting:
    """Rows, and ``jobs`` threads that fit on parts of them; ``on_trial`` hears of every fit.

    Where ``stop`` says so, or the user interrupts, nobody waits for fits any more: they end with
    their next pass, unheard of.
    """

    def __init__(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, regression: bool, jobs: int,
        on_trial: Callable[[Trial], None] | None, stop: Callable[[], bool] = _never,
    ):  # fmt: skip
        self.X, self.y, self.weight, self.regression = X, y, weight, regression
        self.classes = np.empty(0) if regression else np.unique(y)
        self.jobs, self.on_trial, self.lock = jobs, on_trial, threading.Lock()
        self.stop, self.over = stop, threading.Event()

    def __enter__(self) -> Fitting:
        self.pool = ThreadPoolExecutor(self.jobs, LEAVABLE)
        return self

    def __exit__(self, problem: Any, *_: Any) -> None:
        if problem is not None:
            self.over.set()
        self.pool.shutdown(wait=problem is None, cancel_futures=True)

    def all(self, fits: Sequence[tuple[Runner, Callable[[], None]]], rows: int) -> None:
        """Wait for fits of runners on so many rows; those that are wide come one by one, before the
        others."""
        for runner, fit in fits:
            if runner.is_wide(rows):
                self.alone(fit)
        self.finish([self.pool.submit(fit) for runner, fit in fits if not runner.is_wide(rows)])

    def alone(self, fit: Callable[..., None], *given: Any) -> None:
        """One fit, while no other runs; in a thread too, so that one can leave it."""
        self.finish([self.pool.submit(fit, *given)])

    def finish(self, running: Collection[Future[None]]) -> None:
        """Wait for fits, and hear of what went wrong."""
        while running:
            running = self.some(running)

    def some(self, running: Collection[Future[None]]) -> set[Future[None]]:
        """Wait for one of these fits at least; those that go on."""
        done: set[Future[None]] = set()
        while not done:
            if self.stop():
                raise Stopped
            done, rest = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        return rest

    def attempt(
        self, runner: Runner, params: dict[str, Any], part: np.ndarray, judges: np.ndarray,
        until: float,
    ) -> Attempt:  # fmt: skip
        """A fit on the rows ``part`` that ends with the first pass after ``until``."""
        started = time.monotonic()
        fit = self.fit(runner.estimator, params, part, judges, until)
        seconds, loss = time.monotonic() - started, float(np.mean(fit.misses))
        size = 0 if fit.problem else _size(fit.model)
        trial = Trial(
            runner.name, params, int(part.size), loss, seconds, size, fit.problem,
            learning=fit.seconds,
        )  # fmt: skip
        if self.on_trial is not None and not self.over.is_set():
            with self.lock:
                self.on_trial(trial)
        return Attempt(trial, fit.model, fit.misses, fit.scores)

    def fit(
        self, estimator: Any, params: dict[str, Any], part: np.ndarray, judges: np.ndarray,
        until: float,
    ) -> Fit:  # fmt: skip
        """Fit and judge, or say why not."""
        started = time.monotonic()
        try:
            model = clone(estimator).set_params(**params)
            if part.size < WIDE_ROWS and "map__n_jobs" in model.get_params():
                model.set_params(map__n_jobs=None)
            weight = None if self.weight is None else self.weight[part]
            with ending(lambda: self.over.is_set() or time.monotonic() > until):
                model.fit(self.X[part], self.y[part], sample_weight=weight)
            seconds, scores = time.monotonic() - started, self._scores(model, judges)
            return Fit(model, self._judged(model, judges, scores), scores, "", seconds)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            problem, seconds = str(error)[:200], time.monotonic() - started
            return Fit(None, np.array([math.inf]), None, problem, seconds)

    def misses(self, model: Any, rows: np.ndarray) -> np.ndarray:
        """1 for every row in the wrong class, or its squared miss."""
        return self._judged(model, rows, self._scores(model, rows))

    def decisions(self, model: Any, rows: np.ndarray) -> np.ndarray | None:
        """(rows, outputs) by any model's ``decision_function``; None where it has none."""
        if not hasattr(model, "decision_function"):
            return None
        return np.reshape(model.decision_function(self.X[rows]), (rows.size, -1))

    def _judged(self, model: Any, rows: np.ndarray, scores: np.ndarray | None) -> np.ndarray:
        y = self.y[rows]
        if scores is not None:
            y = y if self.regression else np.searchsorted(self.classes, y)
            return misses_of(scores, y, self.classes)
        predicted = model.predict(self.X[rows])
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


def _size(model: Any) -> int:
    """Numbers that a model needs to predict; unknown of models that are not ours."""
    return model.function_.size if hasattr(model, "function_") else 0
