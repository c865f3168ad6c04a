"""Learning probabilities from scores: sigmoid (softmax for several classes) or isotonic."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from thresher._rows import Dense
from thresher.functions import Isotonic, Sigmoid, Softmax
from thresher.losses import Logistic
from thresher.penalties import L2
from thresher.solvers import Newton, Problem, driver

__all__ = ["KINDS", "METHODS", "calibrate"]

METHODS = ("sigmoid", "isotonic")


#: what a calibrator may be
KINDS = (Sigmoid, Softmax, Isotonic)


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

    steps = []
    for c in range(scores.shape[1]):
        positive = codes == (c if scores.shape[1] > 1 else 1)
        found = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        found.fit(scores[:, c], positive.astype(float), weight)
        steps.append((found.X_thresholds_, found.y_thresholds_))
    return Isotonic(steps)


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
    result = driver.learn(Newton(), problem, chunk, driver.Plan(passes=100))
    return Sigmoid(float(result.coef[0]) / spread, float(result.intercept))
