r"""Targets of many tasks, as their solvers see them: a matrix with holes, or a task for each row.

Of both kinds a row i has targets for ``width`` tasks from number ``base[i]`` on: all of them, NaN
where a task has none; or the one that it belongs to.  What is minimised is, with Q tasks, row
weights s and task weights c,

.. math:: \frac1m \sum_i s_i \sum_q c_q\,\ell(y_{iq}, W_{\cdot q}\cdot x_i + b_q) + \psi(W),
          \qquad m = \sum_i s_i \text{ of a matrix},\quad m = \tfrac1Q\sum_i s_i \text{ of pairs} .

So the loss of a task is never divided by the number of tasks.  With :math:`c_q` inversely
proportional to the mass of the task's rows (:func:`even_weights`) it is the sum over the tasks of
their mean losses (Yang, King and Lyu, 2011).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.losses import LeastSquares
from thresher.penalties.base import RowLevels
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "TaskTargets", "are_equal", "best_constants", "even_weights", "levels_of",
    "mean_square_slope", "mean_target",
    "targets_of", "task_gradient_at_zero", "task_loss", "task_penalty",
]  # fmt: skip


class TaskTargets(NamedTuple):
    """The targets of rows.

    Parameters
    ----------
    values : array of shape (rows, width)
        NaN: none.
    base : array of int
        Of each row: the task of its first value.
    factors : array of shape (tasks,)
        c.
    share : float
        Rounds that a row makes: 1, or 1 / tasks where it belongs to one task.
    """

    values: np.ndarray
    base: np.ndarray
    factors: np.ndarray
    share: float


def targets_of(problem: Problem, y: np.ndarray) -> TaskTargets:
    """What a chunk's targets are; its numbers of tasks must be below ``problem.outputs``."""
    tasks = problem.outputs
    factors = np.ones(tasks) if problem.task_weight is None else problem.task_weight
    if problem.targets == "matrix":
        if y.ndim != 2 or y.shape[1] != tasks:
            raise ValueError(f"targets of shape {y.shape} are not those of {tasks} tasks")
        return TaskTargets(y, np.zeros(y.shape[0], np.int64), factors, 1.0)
    if y.ndim != 2 or y.shape[1] != 2:
        raise ValueError(f"pairs of a task and a target, got targets of shape {y.shape}")
    base = y[:, 0].astype(np.int64)
    if base.size and not 0 <= base.min() <= base.max() < tasks:
        raise ValueError(f"a row names a task beyond the {tasks} that there are")
    return TaskTargets(np.ascontiguousarray(y[:, 1:]), base, factors, 1.0 / tasks)


def even_weights(problem: Problem, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """c with which the objective is the sum of the tasks' mean losses; of a task without rows 1."""
    values, base, factors, share = targets_of(problem, y)
    full = np.ones(y.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    if problem.targets == "matrix":
        mass = full @ ~np.isnan(values)
    else:
        mass = np.bincount(base, full * ~np.isnan(values[:, 0]), factors.size)
    total = float(full.sum()) * share
    return np.where(mass > 0.0, total / np.where(mass > 0.0, mass, 1.0), 1.0)


def levels_of(problem: Problem) -> RowLevels:
    """The penalty on rows and entries of the weights; ValueError for one that is neither."""
    found = problem.penalty.row_levels(problem.n_features)
    if found is None:
        name = type(problem.penalty).__name__
        more = ""
        if "grouped" in problem.penalty.traits:
            more = " with groups of several features (here one feature in all tasks is a group)"
        raise ValueError(
            f"penalty {name}{more} is not for many tasks: use 'group' (features that all tasks "
            "share), 'sparse_group' (and fewer of them for each task), 'l1' or 'elastic_net' (each "
            "task its own), or 'l2'"
        )
    return found


def task_penalty(problem: Problem, coef: np.ndarray) -> float:
    """psi of weights (tasks, features)."""
    rows, entries, ridge = levels_of(problem)
    W = np.asarray(coef, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # of weights that have gone astray
        squares = np.einsum("qj,qj->j", W, W)
        lengths = np.abs(W).sum(axis=0)
        return float(rows @ np.sqrt(squares) + entries @ lengths + 0.5 * ridge * squares.sum())


@njit(cache=True, nogil=True)
def _loss(rows, values, base, factors, weight, order, loss, coef, bias):
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        mass += weight[i]
        for c in range(values.shape[1]):
            target, q = values[i, c], base[i] + c
            if target == target:  # a hole is not
                p = rows.dot(i, coef[q]) + bias[q]
                total += weight[i] * factors[q] * loss.value(target, p)
    return total, mass


def task_loss(problem: Problem, chunk: Chunk, coef: np.ndarray, intercept: Any) -> float:
    """The first term of the objective, for weights (tasks, features)."""
    values, base, factors, share = targets_of(problem, chunk.y)
    coef = np.ascontiguousarray(np.atleast_2d(coef))
    bias = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (problem.outputs,))
    total, mass = _loss(
        chunk.rows, values, base, factors, chunk.weight, chunk.order, problem.loss, coef,
        np.ascontiguousarray(bias),
    )  # fmt: skip
    return float(total / max(mass * share, 1e-300))


def mean_target(problem: Problem, chunk: Chunk) -> float:
    """Of all tasks together, weighted; 0 without any."""
    values = targets_of(problem, chunk.y).values[chunk.order].astype(np.float64)
    weight = chunk.weight[chunk.order][:, None] * ~np.isnan(values)
    return float(np.nansum(values * weight) / max(float(weight.sum()), 1e-300))


def are_equal(problem: Problem, chunk: Chunk) -> bool:
    """Whether no task has two different targets, so that intercepts are all there is to say."""
    values, base, factors, _ = targets_of(problem, chunk.y)
    low, high = np.full(factors.size, np.inf), np.full(factors.size, -np.inf)
    seen = values[chunk.order].astype(np.float64)
    if problem.targets == "matrix":
        known = ~np.isnan(seen)
        low = np.min(seen, axis=0, where=known, initial=np.inf)
        high = np.max(seen, axis=0, where=known, initial=-np.inf)
    else:
        np.fmin.at(low, base[chunk.order], seen[:, 0])
        np.fmax.at(high, base[chunk.order], seen[:, 0])
    return not bool(np.any(high > low))


@njit(cache=True, nogil=True)
def _gradient(rows, values, base, factors, weight, order, loss, bias, out):
    mass = 0.0
    for r in range(order.size):
        i = order[r]
        mass += weight[i]
        for c in range(values.shape[1]):
            target, q = values[i, c], base[i] + c
            if target == target:
                rows.add(i, weight[i] * factors[q] * loss.deriv(target, bias[q]), out[q])
    return mass


def mean_square_slope(problem: Problem, chunk: Chunk, constant: float) -> float:
    """Of the weighted losses of all targets, where every task says ``constant``."""
    targets = targets_of(problem, chunk.y)
    total, count = _square_slopes(
        *targets[:3], chunk.weight, chunk.order, problem.loss, constant
    )  # fmt: skip
    return float(total / max(count, 1))


@njit(cache=True, nogil=True)
def _square_slopes(values, base, factors, weight, order, loss, constant):
    total, count = 0.0, 0
    for r in range(order.size):
        i = order[r]
        for c in range(values.shape[1]):
            target = values[i, c]
            if target == target:
                slope = weight[i] * factors[base[i] + c] * loss.deriv(target, constant)
                total += slope * slope
                count += 1
    return total, count


@njit(cache=True, nogil=True)
def _slopes_of_constants(values, base, factors, weight, order, loss, bias, out):
    """Sums of the slopes of each task's losses where it says ``bias``."""
    out[:] = 0.0
    for r in range(order.size):
        i = order[r]
        for c in range(values.shape[1]):
            target, q = values[i, c], base[i] + c
            if target == target:
                out[q] += weight[i] * factors[q] * loss.deriv(target, bias[q])


def best_constants(problem: Problem, chunk: Chunk) -> np.ndarray:
    """The intercepts of the best model without weights, by halving; 0 where there are none."""
    targets = targets_of(problem, chunk.y)
    bias = np.zeros(problem.outputs)
    if not (problem.fit_intercept and chunk.order.size):
        return bias
    if type(problem.loss) is LeastSquares:
        return _means(targets, chunk)
    about = (*targets[:3], chunk.weight, chunk.order, problem.loss)
    largest = np.abs(targets.values[chunk.order])
    reach = max(float(np.max(largest, where=largest == largest, initial=1.0)), 30.0)
    low, high, slopes = np.full_like(bias, -reach), np.full_like(bias, reach), np.empty_like(bias)
    for _ in range(48):
        bias = 0.5 * (low + high)
        _slopes_of_constants(*about, bias, slopes)
        low, high = np.where(slopes < 0.0, bias, low), np.where(slopes < 0.0, high, bias)
    return bias


def _means(targets: TaskTargets, chunk: Chunk) -> np.ndarray:
    """Of the targets of each task."""
    values, base, factors, _ = targets
    seen = values[chunk.order].astype(np.float64)
    mass = ~np.isnan(seen) * chunk.weight[chunk.order][:, None]
    sums = np.where(mass > 0.0, seen, 0.0) * mass
    if values.shape[1] == factors.size:
        total, weight = sums.sum(axis=0), mass.sum(axis=0)
    else:
        total, weight = (
            np.bincount(base[chunk.order], part[:, 0], factors.size) for part in (sums, mass)
        )
    return total / np.maximum(weight, 1e-300)


def task_gradient_at_zero(problem: Problem, chunk: Chunk) -> np.ndarray:
    """(tasks, features): the gradient at W = 0, with the best intercepts."""
    targets = targets_of(problem, chunk.y)
    about = (*targets[:3], chunk.weight, chunk.order, problem.loss)
    out = np.zeros((problem.outputs, problem.n_features))
    mass = _gradient(chunk.rows, *about, best_constants(problem, chunk), out)
    return out / max(mass * targets.share, 1e-300)
