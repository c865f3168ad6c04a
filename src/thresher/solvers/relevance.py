r"""How much each feature should be penalised: precisions for the weighted Pegasos.

``ard``
    Automatic relevance determination by iterative reweighted l1 (Wipf and Nagarajan, 2008): it
    minimises :math:`\log|\Sigma| + y^T \Sigma^{-1} y`, :math:`\Sigma = \gamma I + X \Lambda X^T`,
    over the prior *variances* :math:`\Lambda`.  A penalty weighs by *precision*: their inverse is
    returned.  Only the Gram matrix of the features enters: one pass over the rows and O(d^3).
    Features and targets are standardised for it, and :math:`\gamma` is the residual variance of
    least squares, so that no units matter.  The least relevant feature is penalised at most a
    thousand times as much as the most relevant one, for a change of one standard deviation; and the
    mean squared length of a row in the coordinates of the steps, :math:`\sum_j x_j^2 / \lambda_j`,
    is what it is with equal weights, so that alpha keeps its meaning and steps their length.
``cv``
    Coordinate-wise search: multiply or divide one precision at a time, keep what lowers the
    cross-validated loss by more than a standard error over the folds.  2 d fits of every fold per
    sweep: for tens of features.
``tuned``
    Equal ones: a search over them, from outside, has none of its own to give yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator
from thresher.penalties import WeightedL2
from thresher.solvers.base import Chunk, Problem

__all__ = ["LARGEST", "METHODS", "Sums", "ard_variances", "precisions", "sums_of"]

METHODS = ("ard", "cv", "tuned")
_SPREAD = 1e3  # the largest precision, relative to that of the most relevant feature
LARGEST = 4096  # features of relevance determination, which holds a few square matrices of them


def precisions(method: Any, solver: Any, problem: Problem, chunk: Chunk) -> np.ndarray:
    """One positive number per feature; given and cross-validated ones have geometric mean one."""
    if isinstance(method, Sums):
        return _relevant(_moments(method, problem.fit_intercept))
    if not isinstance(method, str):
        values = np.asarray(method, dtype=np.float64)
        if values.shape != (problem.n_features,) or not np.all(values > 0.0):
            raise ValueError(
                f"precisions must be {problem.n_features} positive numbers, one per feature"
            )
    elif method == "ard":
        return _relevant(_moments(sums_of(chunk), problem.fit_intercept))
    elif method == "tuned":
        values = np.ones(problem.n_features)
    else:
        values = _cross_validated(solver, problem, chunk)
    return np.exp(np.log(values) - np.log(values).mean())


class Sums(NamedTuple):
    """Over rows; those of different rows add up."""

    gram: np.ndarray  # of x x'
    moment: np.ndarray  # of x y
    total: np.ndarray  # of x
    mass: float
    targets: float  # of y
    squares: float  # of y^2

    def plus(self, other: Sums) -> Sums:
        pairs: Any = zip(self, other, strict=True)
        return Sums(*(a + b for a, b in pairs))


class Moments(NamedTuple):
    """Of rows and targets; about the means where an intercept takes those up."""

    gram: np.ndarray  # X'X
    moment: np.ndarray  # X'y
    target: float  # y'y
    lengths: np.ndarray  # mean squares of the features as they are
    mass: float


def _relevant(found: Moments) -> np.ndarray:
    """Precisions by relevance determination, in the units of the features."""
    mass, lengths = found.mass, found.lengths
    spreads = np.maximum(np.diag(found.gram), 0.0) / mass
    varies = spreads > 1e-12 * lengths
    if not (found.target > 0.0 and np.any(varies)):
        return np.ones(lengths.size)
    units = np.sqrt(mass * spreads[varies])
    related = found.moment[varies] / (units * np.sqrt(found.target))
    similar = found.gram[np.ix_(varies, varies)] / np.outer(units, units)
    ridged = similar + 1e-6 * np.eye(related.size)
    noise = min(max(1.0 - float(related @ np.linalg.solve(ridged, related)), 1e-3), 1.0)
    learned = ard_variances(mass * similar, mass * related, noise / mass)
    least = learned.max() / _SPREAD
    if not least > 0.0:
        return np.ones(lengths.size)
    # A column that only shifts scores, or that never occurs, is as irrelevant as one may be.
    variances = least / np.where(lengths > 0.0, lengths, 1.0)
    variances[varies] = np.maximum(learned, least) / spreads[varies]
    return np.sum(lengths * variances) / np.sum(lengths) / variances


@njit(cache=True, nogil=True)
def _accumulate(rows, y, weight, order, gram, moment, total):
    mass, targets, squares = 0.0, 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        mass += weight[i]
        targets += weight[i] * y[i]
        squares += weight[i] * y[i] * y[i]
        rows.add(i, weight[i], total)
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), weight[i] * rows.element(i, k)
            moment[j] += x * y[i]
            rows.add(i, x, gram[j])
    return mass, targets, squares


def sums_of(chunk: Chunk) -> Sums:
    """Those of the rows that a chunk visits."""
    d = chunk.rows.shape[1]
    gram, moment, total = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    return Sums(gram, moment, total, *_accumulate(*chunk, gram, moment, total))


def _moments(sums: Sums, centred: bool) -> Moments:
    gram, moment, total, mass, targets, squares = sums
    lengths = np.diag(gram) / mass
    if centred:
        gram = gram - np.outer(total, total) / mass
        moment = moment - total * (targets / mass)
        squares -= targets * targets / mass
    return Moments(gram, moment, squares, lengths, mass)


def ard_variances(
    gram: np.ndarray, moment: np.ndarray, noise: float = 1e-3, tol: float = 1e-5, sweeps: int = 100
) -> np.ndarray:
    """Prior variances from X'X and X'y; ``noise`` is relative to the mean diagonal of X'X."""
    noise = noise * max(float(np.trace(gram)) / gram.shape[0], 1e-300)
    variances = np.ones(moment.size)
    u = np.zeros(moment.size)
    for _ in range(sweeps):
        root = np.sqrt(variances)
        inner = noise * np.eye(moment.size) + root[:, None] * gram * root
        half = np.linalg.solve(inner, root[:, None] * gram)
        z = np.maximum(
            (np.diag(gram) - np.einsum("ij,ij->j", gram * root[:, None], half)) / noise, 0.0
        )
        u_new = u.copy()
        _lasso(gram, moment, noise * np.sqrt(z), u_new)
        variances = np.abs(u_new) / np.sqrt(np.maximum(z, 1e-300))
        if np.max(np.abs(u_new - u)) <= tol * max(1.0, float(np.max(np.abs(u_new)))):
            break
        u = u_new
    return variances


@njit(cache=True, nogil=True)
def _lasso(gram, moment, threshold, u):
    """Coordinate descent on ||y - Xu||^2 / 2 + sum_j threshold_j |u_j|, from the Gram matrix."""
    for _ in range(1000):
        largest, size = 0.0, 0.0
        for j in range(u.size):
            if gram[j, j] <= 0.0:
                continue
            z = moment[j] + gram[j, j] * u[j]
            for k in range(u.size):
                z -= gram[j, k] * u[k]
            shrunk = max(abs(z) - threshold[j], 0.0) / gram[j, j]
            new = shrunk if z > 0.0 else -shrunk
            largest = max(largest, abs(new - u[j]))
            size = max(size, abs(new))
            u[j] = new
        if largest <= 1e-9 * max(size, 1.0):
            break


def _cross_validated(
    solver: Any,
    problem: Problem,
    chunk: Chunk,
    folds: int = 5,
    sweeps: int = 2,
    factor: float = 10.0,
) -> np.ndarray:
    from thresher.solvers import driver

    # The last iterate of single-row steps is too rough to tell one weight from another.
    smooth = replace(solver, average=True)
    parts = np.array_split(generator(problem.seed, 4).permutation(chunk.order), folds)

    def losses(values: np.ndarray) -> np.ndarray:
        fold_problem = replace(problem, penalty=WeightedL2(values, problem.ridge))
        found = np.empty(folds)
        for k in range(folds):
            train = np.concatenate([p for i, p in enumerate(parts) if i != k])
            part = chunk._replace(order=train)
            stepper, ready = smooth.prepare(fold_problem, part)
            state = stepper.init(ready, part)
            for _ in range(max(2, -(-200 * stepper.batch // train.size))):  # 200 updates at least
                state = stepper.update(ready, state, part)
            held = chunk._replace(order=parts[k])
            found[k] = driver.mean_loss(ready, held, *stepper.finish(ready, state))
        return found

    values = np.ones(problem.n_features)
    best = losses(values)
    for _ in range(sweeps):
        improved = False
        for j in range(values.size):
            for trial in (values[j] * factor, values[j] / factor):
                candidate = values.copy()
                candidate[j] = trial
                gains = best - (found := losses(candidate))
                if gains.mean() > gains.std(ddof=1) / np.sqrt(folds):
                    best, values, improved = found, candidate, True
        if not improved:
            break
    return values
