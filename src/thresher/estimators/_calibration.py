"""Probabilities from scores: sigmoid (softmax for several classes) or isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax

from thresher._rows import Dense
from thresher.losses import Logistic
from thresher.penalties import L2
from thresher.solvers import Newton, Problem, driver

__all__ = ["METHODS", "calibrate", "normalised"]

METHODS = ("sigmoid", "isotonic")


@dataclass
class Sigmoid:
    """1 / (1 + exp(-(slope * score + offset))) for two classes."""

    slope: float
    offset: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return normalised(expit(self.slope * scores + self.offset))


@dataclass
class Softmax:
    """Softmax of slope * scores: one slope for all classes, so the best class stays the best."""

    slope: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self.slope * scores, axis=1)


@dataclass
class Isotonic:
    """A monotone step function per class."""

    regressions: list[Any]

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        columns = [r.predict(scores[:, c]) for c, r in enumerate(self.regressions)]
        return normalised(np.column_stack(columns))


def normalised(table: np.ndarray) -> np.ndarray:
    """One-vs-rest probabilities to a distribution; one column is that of the second class."""
    if table.shape[1] == 1:
        return np.hstack([1.0 - table, table])
    total = table.sum(axis=1, keepdims=True)
    uniform = np.full_like(table, 1.0 / table.shape[1])
    return np.divide(table, total, out=uniform, where=total > 0.0)


def calibrate(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, method: str) -> Any:
    """A function from (n, outputs) scores to class probabilities, learned from held-out scores."""
    weight = np.ones(codes.size) if weight is None else weight
    if method == "isotonic":
        return _isotonic(scores, codes, weight)
    if scores.shape[1] == 1:
        return _platt(scores[:, 0], codes == 1, weight)
    return _temperature(scores, codes, weight)


def _isotonic(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> Isotonic:
    from sklearn.isotonic import IsotonicRegression

    regressions = []
    for c in range(scores.shape[1]):
        positive = codes == (c if scores.shape[1] > 1 else 1)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        regressions.append(regression.fit(scores[:, c], positive.astype(float), weight))
    return Isotonic(regressions)


def _temperature(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> Softmax:
    """Guo et al. (2017): the slope with the smallest log loss, found on a logarithmic scale."""
    unit = 1.0 / (float(np.std(scores)) or 1.0)
    chosen = np.arange(codes.size), codes

    def log_loss(log_slope: float) -> float:
        return -float(weight @ log_softmax(unit * np.exp(log_slope) * scores, axis=1)[chosen])

    best = minimize_scalar(log_loss, bounds=(-7.0, 7.0), method="bounded")
    return Softmax(unit * float(np.exp(best.x)))


def _platt(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> Sigmoid:
    """Logistic regression on the score with Platt's (1999) softened targets.

    A target t in (0, 1) is a positive of weight t beside a negative of weight 1 - t.
    """
    ups, downs = float(weight[positive].sum()), float(weight[~positive].sum())
    target = np.where(positive, (ups + 1.0) / (ups + 2.0), 1.0 / (downs + 2.0))
    spread = float(np.std(scores)) or 1.0
    X = np.ascontiguousarray(np.concatenate([scores, scores])[:, None] / spread)
    y = np.repeat([1.0, -1.0], scores.size)
    both = np.concatenate([weight * target, weight * (1.0 - target)])
    problem = Problem(Logistic(), L2(1e-10), 1, tol=1e-10)
    chunk = driver.whole(Dense(X), y, both)
    result = driver.run(Newton(), problem, chunk, driver.Plan(passes=100))
    return Sigmoid(float(result.coef[0]) / spread, float(result.intercept))
