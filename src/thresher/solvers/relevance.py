r"""How much each feature should be penalised: precisions for the weighted Pegasos.

``ard``
    Automatic relevance determination by iterative reweighted l1 (Wipf and Nagarajan, 2008): it
    minimises :math:`\log|\Sigma| + y^T \Sigma^{-1} y`, :math:`\Sigma = \gamma I + X \Lambda X^T`,
    over the prior *variances* :math:`\Lambda`.  A penalty weighs by *precision*: their inverse is
    returned.  Only the Gram matrix of the features enters: one pass over the rows and O(d^3).
``cv``
    Coordinate-wise search: multiply or divide one precision at a time, keep what lowers the
    cross-validated loss.  2 d fits of every fold per sweep: for tens of features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit

from thresher._random import generator
from thresher.penalties import WeightedL2
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["METHODS", "ard_variances", "precisions"]

METHODS = ("ard", "cv")
_SPREAD = 1e3  # the largest precision, relative to that of a typical relevant feature


def precisions(method: Any, solver: Solver, problem: Problem, chunk: Chunk) -> np.ndarray:
    """One positive number per feature, normalised to geometric mean one."""
    if not isinstance(method, str):
        values = np.asarray(method, dtype=np.float64)
        if values.shape != (problem.n_features,) or not np.all(values > 0.0):
            raise ValueError(
                f"precisions must be {problem.n_features} positive numbers, one per feature"
            )
    elif method == "ard":
        variances = ard_variances(*_moments(chunk, problem))
        values = 1.0 / np.maximum(variances, 1e-12 * max(variances.max(), 1e-300))
    else:
        values = _cross_validated(solver, problem, chunk)
    logs = np.log(values)
    # Irrelevant features have precisions without bound: let them not drag the others down.
    logs = np.clip(logs, None, np.median(logs[logs <= np.median(logs)]) + np.log(_SPREAD))
    return np.exp(logs - logs.mean())


@njit(cache=True, nogil=True)
def _accumulate(rows, y, weight, order, gram, moment, total):
    mass, targets = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        mass += weight[i]
        targets += weight[i] * y[i]
        rows.add(i, weight[i], total)
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), weight[i] * rows.element(i, k)
            moment[j] += x * y[i]
            rows.add(i, x, gram[j])
    return mass, targets


def _moments(chunk: Chunk, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """X'X and X'y; about the means where an intercept takes those up."""
    d = problem.n_features
    gram, moment, total = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    mass, targets = _accumulate(*chunk, gram, moment, total)
    if problem.fit_intercept:
        gram -= np.outer(total, total) / mass
        moment -= total * (targets / mass)
    return gram, moment


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
    solver: Solver,
    problem: Problem,
    chunk: Chunk,
    folds: int = 5,
    sweeps: int = 2,
    factor: float = 10.0,
) -> np.ndarray:
    from thresher.solvers import driver

    rows = generator(problem.seed, 4).permutation(chunk.order)
    parts = np.array_split(rows, folds)

    def score(values: np.ndarray) -> float:
        fold_problem = replace(problem, penalty=WeightedL2(values, problem.ridge))
        total = 0.0
        for k in range(folds):
            train = np.concatenate([p for i, p in enumerate(parts) if i != k])
            state = solver.init(fold_problem, chunk)
            for _ in range(max(2, -(-200 * solver.batch // train.size))):  # 200 updates at least
                state = solver.update(fold_problem, state, chunk._replace(order=train))
            coef, bias = solver.finish(fold_problem, state)
            total += driver.mean_loss(fold_problem, chunk._replace(order=parts[k]), coef, bias)
        return total

    values = np.ones(problem.n_features)
    best = score(values)
    for _ in range(sweeps):
        improved = False
        for j in range(values.size):
            for trial in (values[j] * factor, values[j] / factor):
                candidate = values.copy()
                candidate[j] = trial
                loss = score(candidate)
                if loss < best:
                    best, values, improved = loss, candidate, True
        if not improved:
            break
    return values
