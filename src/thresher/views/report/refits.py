"""Learning again from parts of the rows: learning curve, stability of weights, sparsity path.

Each refit works on a sample of at most 20,000 rows and stops when its time is over: what is done by
then is shown.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from thresher.views.report.evidence import Evidence

__all__ = ["Curves", "Fits", "learning_curve", "sparsity_path", "weights_over_folds"]

_FEWEST_ROWS = 60
_STRENGTHS = np.geomspace(0.7, 0.002, 9)  # as shares of the strength that leaves an empty model


@dataclass
class Curves:
    """x against errors of rows learned from and rows that were not."""

    x: list[float]
    seen: list[float]
    unseen: list[float]


class Fits:
    """Fits copies of the model's estimator on parts of the sample, until the time is over."""

    def __init__(self, found: Evidence, seconds: float, on_line: Callable[[str], None]):
        self.X, self.y, self.weight = found.matrix()
        self.estimator, self.on_line = found.model.estimator, on_line
        self.classifies = found.model.is_classifier
        self.end = time.perf_counter() + seconds
        self.seed = int(found.model.training.get("seed", 0))
        rng = np.random.default_rng(self.seed)
        self.order = rng.permutation(self.y.size)

    @property
    def late(self) -> bool:
        return time.perf_counter() > self.end

    def fitted(self, rows: np.ndarray, **params: Any) -> Any | None:
        """A new fit on these rows; None if there was no time, or too few rows of some class."""
        if self.late or (self.classifies and np.unique(self.y[rows]).size < 2):
            return None
        learner = clone(self.estimator)
        known = learner.get_params(deep=False)
        quiet: dict[str, Any] = {
            "calibrate": None, "callbacks": [lambda event: self.late], "verbose": 0,
            "trace": False, "early_stopping": False, "random_state": self.seed,
        }  # fmt: skip
        learner.set_params(**{k: v for k, v in quiet.items() if k in known}, **params)
        weight = None if self.weight is None else self.weight[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                learner.fit(self.X[rows], self.y[rows], sample_weight=weight)
            except ValueError as error:  # a report leaves out what cannot be had
                self.on_line(f"left out: {error}")
                return None
        return None if self.late else learner

    def error(self, learner: Any, rows: np.ndarray) -> float:
        """Share of wrong labels, or root mean squared error."""
        guess, y = learner.predict(self.X[rows]), self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        if self.classifies:
            return float(np.average(guess != y, weights=weight))
        return float(np.sqrt(np.average((guess - y) ** 2, weights=weight)))

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to learn from, and a quarter to measure on."""
        cut = self.order.size // 4
        return self.order[cut:], self.order[:cut]


def learning_curve(fits: Fits) -> Curves | None:
    """Error against the number of rows learned from."""
    rows, unseen = fits.split()
    out = Curves([], [], [])
    if rows.size < _FEWEST_ROWS:
        return None
    sizes = np.unique(np.geomspace(max(30, rows.size / 64), rows.size, 7).astype(int))
    for number, size in enumerate(sizes, start=1):
        fits.on_line(f"learning curve  {number}/{sizes.size}: {size:,} rows")
        learner = fits.fitted(rows[:size])
        if learner is not None:
            out.x.append(float(size))
            out.seen.append(fits.error(learner, rows[:size]))
            out.unseen.append(fits.error(learner, unseen))
    return out if len(out.x) > 1 else None


def weights_over_folds(fits: Fits, features: np.ndarray, folds: int = 5) -> np.ndarray | None:
    """(folds, outputs, features): the weights of these features, each fold left out in turn."""
    if fits.order.size < _FEWEST_ROWS:
        return None
    parts = np.array_split(fits.order, folds)
    found = []
    for left_out in range(folds):
        fits.on_line(f"stability of the weights  {left_out + 1}/{folds}")
        rows = np.concatenate([p for k, p in enumerate(parts) if k != left_out])
        learner = fits.fitted(rows)
        if learner is not None:
            found.append(np.atleast_2d(learner.coef_)[:, features])
    same = [w for w in found if w.shape == found[0].shape]
    return np.stack(same) if len(same) > 1 else None


def sparsity_path(fits: Fits) -> Curves | None:
    """Error against non-zero weights: an l1 penalty of falling strength."""
    rows, unseen = fits.split()
    if rows.size < _FEWEST_ROWS or not {"penalty", "alpha"} <= set(fits.estimator.get_params()):
        return None
    l1 = {"penalty": "l1", "solver": "auto"}
    first = fits.fitted(rows, alpha=None, max_iter=1, **l1)  # only to learn its strength
    if first is None:
        return None
    largest = 100.0 * first.penalty_.strength  # the default is a hundredth of it
    out = Curves([], [], [])
    for number, share in enumerate(_STRENGTHS, start=1):
        fits.on_line(f"sparsity path  {number}/{len(_STRENGTHS)}")
        learner = fits.fitted(rows, alpha=float(largest * share), **l1)
        if learner is not None:
            out.x.append(float(np.count_nonzero(learner.coef_)))
            out.seen.append(fits.error(learner, rows))
            out.unseen.append(fits.error(learner, unseen))
    return out if len(out.x) > 1 else None
