"""Learning probabilities from scores: sigmoid (also for several classes) or isotonic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from thresher._rows import Dense
from thresher.functions import Isotonic, Sigmoid, Sigmoids, Softmax, VectorSoftmax
from thresher.losses import Logistic
from thresher.penalties import L2
from thresher.solvers import Newton, Problem, driver

__all__ = ["KINDS", "METHODS", "calibrate"]

METHODS = ("sigmoid", "isotonic")
_SAME = 1e-12  # of the largest score: a spread of rounding errors


#: what a calibrator may be
KINDS = (Sigmoid, Sigmoids, Softmax, VectorSoftmax, Isotonic)


def calibrate(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, method: str) -> Any:
    """A function from (n, outputs) scores to class probabilities, learned from held-out scores."""
    weight = np.ones(codes.size) if weight is None else weight
    if method == "isotonic":
        return _isotonic(scores, codes, weight)
    if scores.shape[1] == 1:
        return _platt(scores[:, 0], codes == 1, weight)
    return _several(scores, codes, weight)


def _several(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> VectorSoftmax | Sigmoids:
    """Vector scaling, or a sigmoid for each class where that has the smaller log loss.

    Vector scaling starts at the best temperature and is never worse than it on these rows.
    """
    soft = _vector(scores, codes, weight)
    each = [_platt(column, codes == c, weight) for c, column in enumerate(scores.T)]
    apart = Sigmoids(np.array([s.slope for s in each]), np.array([s.offset for s in each]))
    chosen = np.arange(codes.size), codes
    with np.errstate(divide="ignore"):
        losses = [-float(weight @ np.log(kind(scores)[chosen])) for kind in (soft, apart)]
    return apart if losses[1] < losses[0] else soft


def _vector(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> VectorSoftmax:
    r"""Guo et al. (2017): softmax of a slope and an offset for each class, by the log loss.

    .. math:: -\sum_i w_i \log\operatorname{softmax}(\tau a \circ s_i + b)_{y_i}
              + \tfrac12\|a - 1\|^2 + \tfrac12\|b\|^2

    around the best temperature tau: a unit normal prior of the log-odds, which the rows of a class
    outweigh as soon as there are some.
    """
    from scipy.optimize import minimize  # slow to import

    weight = weight * (codes.size / float(weight.sum()))  # only their ratios matter
    tau, k = _temperature(scores, codes, weight).slope, scores.shape[1]
    chosen, steep = (np.arange(codes.size), codes), tau * scores

    def cost(v: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = v[:k], v[k:]
        odds = steep * a + b
        value = -float(weight @ log_softmax(odds, axis=1)[chosen])
        slopes = softmax(odds, axis=1)
        slopes[chosen] -= 1.0
        slopes *= weight[:, None]
        own = np.append(a - 1.0, b)
        gradient = np.append(np.sum(slopes * steep, axis=0), np.sum(slopes, axis=0)) + own
        return value + 0.5 * float(own @ own), gradient

    start = np.append(np.ones(k), np.zeros(k))
    options = {"maxiter": 500, "ftol": 1e-12, "gtol": 1e-8}
    best = minimize(cost, start, jac=True, method="L-BFGS-B", options=options).x
    return VectorSoftmax(tau * best[:k], best[k:])


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
    from scipy.optimize import minimize_scalar  # slow to import

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
    centre, spread = float(np.mean(scores)), float(np.std(scores))
    if spread <= _SAME * float(np.max(np.abs(scores))):
        spread = math.inf  # all rows have one score: it says nothing
    own = (scores - centre) / spread
    X = np.concatenate([own, own])[:, None]
    y = np.repeat([1.0, -1.0], scores.size)
    both = np.concatenate([weight * target, weight * (1.0 - target)])
    problem = Problem(Logistic(), L2(1e-10), 1, tol=1e-10)
    chunk = driver.whole(Dense(X), y, both)
    result = driver.learn(Newton(), problem, chunk, driver.Plan(passes=100))
    slope = float(result.coef[0]) / spread
    return Sigmoid(slope, float(result.intercept) - slope * centre)
