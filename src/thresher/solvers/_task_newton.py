r"""Proximal Newton for many tasks: the batch optimum of iMTFS, aMTFS and MTFTS.

As in ``proximal_newton.py``, with features in place of coordinates: the working set holds those
with a non-zero weight in some task, and the likeliest newcomers.  ``_task_descent.py`` minimises
the quadratic model over it.  For least squares the model is the objective.

Least squares with few features does without rows (``_task_gram.py``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csc_array, issparse

from thresher.functions import LinearFunction
from thresher.losses import LeastSquares
from thresher.penalties.base import RowLevels
from thresher.solvers._task_descent import (
    column_sums,
    descend_by_columns,
    descend_by_lines,
    descend_by_matrix,
    move_rows,
)
from thresher.solvers._task_gram import gram_of
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.tasks import TaskTargets, levels_of, targets_of

__all__ = [
    "TaskData", "TaskNewtonState", "data_of_tasks", "gradients_of_tasks", "predictions_of_tasks",
    "rows_in_use", "start_tasks", "step_on", "step_tasks", "weights_of_tasks",
]  # fmt: skip

_SWEEPS, _ROUGH = 300, 10
_LEAST = 1e-12  # of the largest curvature of a feature: what it has in a task at least
_ROUNDING = 1e-10
_INNER = 0.1  # of what a step may gain at the end: what a sweep within it may


class TaskNewtonState(NamedTuple):
    w: np.ndarray  # (features, tasks)
    bias: np.ndarray
    p: np.ndarray  # predictions (rows in use, tasks of a row)
    columns: Any  # the rows in use: an array (rows, features), or a CSC matrix
    gram: Any  # least squares of few features: ``_task_gram.Gram``, else None
    step: int
    residual_: float
    floor: float  # the objective counts as at least this


class TaskData(NamedTuple):
    """The rows in use, their targets, and the factor of each loss."""

    columns: Any
    targets: TaskTargets
    scale: np.ndarray  # (rows, 1): of the losses of each row

    @property
    def layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _layout(self.columns)


def _layout(columns: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compressed columns: starts, rows (none where all rows have every element), elements."""
    if issparse(columns):
        return columns.indptr, columns.indices, columns.data
    n, d = columns.shape
    return np.arange(d + 1) * n, np.zeros(0, np.int64), np.ascontiguousarray(columns.T).reshape(-1)


def data_of_tasks(problem: Problem, chunk: Chunk, columns: Any) -> TaskData:
    """The rows in use with some of their columns."""
    targets, order = targets_of(problem, chunk.y), chunk.order
    weight = chunk.weight[order]
    mass = max(float(weight.sum()) * targets.share, 1e-300)
    own = targets._replace(
        values=np.take(targets.values, order, axis=0).astype(np.float64, copy=False),
        base=targets.base[order],
    )
    return TaskData(columns, own, (weight / mass)[:, None])


@njit(cache=True, nogil=True)
def _derivatives(values, base, factors, scale, loss, p, slopes, curvatures, bends):
    """Slopes, and curvatures if it ``bends``, of all losses; their sum."""
    total = 0.0
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            target, weight = values[i, c], scale[i, 0] * factors[base[i] + c]
            slopes[i, c] = 0.0
            if target == target:  # a hole is not
                total += weight * loss.value(target, p[i, c])
                slopes[i, c] = weight * loss.deriv(target, p[i, c])
                if bends:
                    curvatures[i, c] = weight * loss.curvature(target, p[i, c])
    return total


@njit(cache=True, nogil=True)
def _losses(values, base, factors, scale, loss, p, along, t):
    total = 0.0
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            target = values[i, c]
            if target == target:
                weight = scale[i, 0] * factors[base[i] + c]
                total += weight * loss.value(target, p[i, c] + t * along[i, c])
    return total


def rows_in_use(chunk: Chunk) -> Any:
    """An array, or a CSC matrix."""
    taken = chunk.rows.seen(chunk.order)
    return csc_array(taken) if issparse(taken) else taken


def start_tasks(problem: Problem, chunk: Chunk, largest: int) -> TaskNewtonState:
    """Nothing but intercepts: at the means of the tasks' targets, if these are numbers."""
    columns = rows_in_use(chunk)
    data = data_of_tasks(problem, chunk, columns)
    values, base = data.targets.values, data.targets.base
    tasks, d, n = problem.outputs, problem.n_features, values.shape[0]
    w, none = np.zeros((d, tasks)), np.zeros((0, 0))
    if d <= min(largest, 2 * n) and _shares_matrix(problem, data.targets):
        gram = gram_of(columns, values, data.scale[:, 0], problem.fit_intercept)
        floor = max(_ROUNDING * (gram.half + 0.5 * float(np.sum(gram.targets**2))), 1e-300)
        return TaskNewtonState(w, gram.bias(w), none, None, gram, 0, math.inf, floor)
    p = np.zeros(values.shape)
    value = _derivatives(*data.targets[:3], data.scale, problem.loss, p, p.copy(), none, False)
    bias = np.zeros(tasks)
    if problem.fit_intercept and "regression" in problem.loss.tasks:
        known = ~np.isnan(values) * data.scale
        mass = _by_task(base, known, tasks)
        bias = _by_task(base, np.nan_to_num(values) * known, tasks) / np.maximum(mass, 1e-300)
        p = p + _of_rows(base, bias, values.shape[1])
    floor = max(_ROUNDING * float(value), 1e-300)
    return TaskNewtonState(w, bias, p, columns, None, 0, math.inf, floor)


def _by_task(base: np.ndarray, table: np.ndarray, tasks: int) -> np.ndarray:
    """Sums over the rows of (rows, tasks of a row)."""
    if table.shape[1] == tasks:
        return table.sum(axis=0)
    return np.bincount(base, table[:, 0], tasks)


def _of_rows(base: np.ndarray, of_tasks: np.ndarray, width: int) -> np.ndarray:
    """What each row has of numbers for each task."""
    return of_tasks[None, :] if width == of_tasks.size else of_tasks[base][:, None]


def step_tasks(
    problem: Problem, chunk: Chunk, s: TaskNewtonState, first: int, largest: int
) -> TaskNewtonState:
    """One step; the residual is infinite while features outside the working set want to move."""
    if s.gram is not None:
        return _step_by_gram(problem, s, first)
    data = data_of_tasks(problem, chunk, s.columns)
    return step_on(problem, data, levels_of(problem), s, first, largest)


def step_on(
    problem: Problem, data: TaskData, levels: RowLevels, s: TaskNewtonState, first: int,
    largest: int,
) -> TaskNewtonState:  # fmt: skip
    """One step with these columns, whose penalty is ``levels``."""
    targets, base, tasks = data.targets, data.targets.base, problem.outputs
    rows, entries, ridge = levels
    slopes = np.zeros(targets.values.shape)
    shared = _shares_matrix(problem, targets)
    curvatures = np.zeros((0, 0) if shared else slopes.shape)
    value = _derivatives(
        *targets[:3], data.scale, problem.loss, s.p, slopes, curvatures, not shared
    )
    gradient = _gradient(data, slopes, tasks)
    slope_b = _by_task(base, slopes, tasks)
    value += _penalty(s.w, rows, entries, ridge)
    chosen, complete = _working_set(s.w, gradient + ridge * s.w, rows, entries, first)
    part = s.columns[:, chosen]
    target = s.w[chosen].copy()
    bound = (rows[chosen], entries[chosen], ridge)
    ends = _ends(problem, value, s.floor, complete)
    few = chosen.size <= largest or not issparse(part)
    if shared and few:
        mean, level = _descend_shared(
            problem, data, part, gradient[chosen], slope_b, bound, target, ends
        )
    else:
        if shared:
            curvatures = np.broadcast_to(data.scale, slopes.shape).copy()
        mean, level = _descend_own(
            problem, data, part, curvatures, slope_b, slopes, bound, target, ends
        )
    delta = target - s.w[chosen]
    shift = np.zeros(tasks)
    if problem.fit_intercept:
        shift = -slope_b / np.maximum(level, 1e-300) - np.einsum("jq,jq->q", mean, delta)
        shift[level <= 0.0] = 0.0
    along = _along(base, part, delta, s.p.shape[1]) + _of_rows(base, shift, s.p.shape[1])
    before = _penalty(s.w[chosen], *bound)
    change = float(np.sum(gradient[chosen] * delta) + slope_b @ shift)
    predicted = -(change + _penalty(target, *bound) - before)
    t = 1.0
    if not _is_quadratic(problem):  # else the model is the objective
        at = (*targets[:3], data.scale, problem.loss, s.p, along)
        start = _losses(*at, 0.0)
        while t > 0.0:
            new = _losses(*at, t) - start - before
            new += _penalty(s.w[chosen] + t * delta if t < 1.0 else target, *bound)
            if new <= -1e-3 * t * predicted + 1e-14 * value:
                break
            t = 0.5 * t if t > 1e-25 else 0.0
    w = s.w.copy()
    w[chosen] = target if t == 1.0 else s.w[chosen] + t * delta
    residual = predicted / max(value, s.floor) if complete else math.inf
    return s._replace(
        w=w, bias=s.bias + t * shift, p=s.p + t * along, step=s.step + 1, residual_=residual
    )


def _step_by_gram(problem: Problem, s: TaskNewtonState, first: int) -> TaskNewtonState:
    """Sweeps over the working set; the residual is what they have gained."""
    rows, entries, ridge = levels_of(problem)
    w = s.w.copy()
    slopes = s.gram.gradient + ridge * w if ridge else s.gram.gradient
    chosen, complete = _working_set(w, slopes, rows, entries, first)
    value = s.gram.loss(w) + _penalty(w[chosen], rows[chosen], entries[chosen], ridge)
    ends = _ends(problem, value, s.floor, complete)
    gram = s.gram.descended(w, chosen, (rows, entries, ridge), ends)
    gained = value - gram.loss(w) - _penalty(w[chosen], rows[chosen], entries[chosen], ridge)
    residual = gained / max(value, s.floor) if complete else math.inf
    return s._replace(w=w, bias=gram.bias(w), gram=gram, step=s.step + 1, residual_=residual)


def _ends(problem: Problem, value: float, floor: float, complete: bool) -> Any:
    """Most sweeps within a step, and the gain of one that is little enough to end them."""
    tol = 1e-9 if problem.tol is None else problem.tol
    return _SWEEPS if complete else _ROUGH, _INNER * tol * max(value, floor)


def _is_quadratic(problem: Problem) -> bool:
    return type(problem.loss) is LeastSquares


def _shares_matrix(problem: Problem, targets: TaskTargets) -> bool:
    """Whether all tasks have the same Hessian."""
    whole = problem.targets == "matrix" and not np.isnan(targets.values).any()
    return _is_quadratic(problem) and whole and bool(np.allclose(targets.factors, 1.0, rtol=1e-12))


def predictions_of_tasks(data: TaskData, W: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(rows in use, tasks of a row) of weights (features, tasks)."""
    base, width = data.targets.base, data.targets.values.shape[1]
    used = np.flatnonzero(np.any(W != 0.0, axis=1))
    along = _along(base, data.columns[:, used], W[used], width)
    return along + _of_rows(base, bias, width)


def gradients_of_tasks(
    problem: Problem, data: TaskData, p: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The mean loss, its gradient (features, tasks), and its slopes along the intercepts."""
    slopes = np.zeros(p.shape)
    value = _derivatives(
        *data.targets[:3], data.scale, problem.loss, p, slopes, np.zeros((0, 0)), False
    )
    along_bias = _by_task(data.targets.base, slopes, problem.outputs)
    if not problem.fit_intercept:
        along_bias[:] = 0.0
    return float(value), _gradient(data, slopes, problem.outputs), along_bias


def _gradient(data: TaskData, slopes: np.ndarray, tasks: int) -> np.ndarray:
    """(features, tasks)."""
    if slopes.shape[1] == tasks:  # every row is of every task
        return np.ascontiguousarray(data.columns.T @ slopes)
    starts, index, values = data.layout
    out, none = np.zeros((starts.size - 1, tasks)), np.zeros((0, 0))
    column_sums(starts, index, values, data.targets.base, slopes, none, out, none, none)
    return out


def _along(base: np.ndarray, part: Any, delta: np.ndarray, width: int) -> np.ndarray:
    if width == delta.shape[1]:
        return np.asarray(part @ delta)
    out = np.zeros((part.shape[0], width))
    move_rows(*_layout(part), base, delta, out)
    return out


def _penalty(W: np.ndarray, rows: np.ndarray, entries: np.ndarray, ridge: float) -> float:
    squares = np.einsum("jq,jq->j", W, W)
    lengths = np.abs(W).sum(axis=1)
    return float(rows @ np.sqrt(squares) + entries @ lengths + 0.5 * ridge * squares.sum())


def _working_set(
    W: np.ndarray, gradient: np.ndarray, rows: np.ndarray, entries: np.ndarray, first: int
) -> tuple[np.ndarray, bool]:
    """Features in use and the likeliest newcomers; whether nobody else wants to move."""
    left = np.maximum(np.abs(gradient) - entries[:, None], 0.0)
    wish = np.sqrt(np.einsum("jq,jq->j", left, left)) - rows
    used = np.any(W != 0.0, axis=1)
    wish[used] = 0.0
    wanted = np.flatnonzero(wish > 1e-9 * max(float(np.max(np.abs(gradient), initial=0.0)), 1e-300))
    room = max(first, 2 * int(used.sum()))
    taken = wanted
    if wanted.size > room:
        taken = wanted[np.argpartition(wish[wanted], -room)[-room:]]
    return np.sort(np.concatenate([np.flatnonzero(used), taken])), taken.size == wanted.size


def _descend_shared(
    problem: Problem, data: TaskData, part: Any, gradient: np.ndarray, slope_b: np.ndarray,
    bound: Any, target: np.ndarray, ends: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """By the matrix that all tasks share; means of the features and the curvature of intercepts."""
    scale = data.scale[:, 0]
    level, size = float(scale.sum()), target.shape[0]
    mean = np.zeros(size)
    if problem.fit_intercept:
        mean = np.asarray(scale @ part) / level
    about = np.ascontiguousarray(gradient - mean[:, None] * slope_b)
    rest = (*bound, target, *ends)
    if issparse(part):
        S = (part.T @ (part.multiply(scale[:, None]))).toarray() - level * np.outer(mean, mean)
        descend_by_matrix(np.ascontiguousarray(S), about, *rest)
    else:
        centred = (part - mean) * np.sqrt(scale)[:, None]
        if size > part.shape[0]:
            descend_by_lines(np.ascontiguousarray(centred.T), about, *rest)
        else:
            descend_by_matrix(centred.T @ centred, about, *rest)
    tasks = target.shape[1]
    return np.broadcast_to(mean[:, None], (size, tasks)), np.full(tasks, level)


def _descend_own(
    problem: Problem, data: TaskData, part: Any, curvatures: np.ndarray, slope_b: np.ndarray,
    slopes: np.ndarray, bound: Any, target: np.ndarray, ends: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """By columns, each task with curvatures of its own."""
    size, tasks = target.shape
    base = data.targets.base
    level = _by_task(base, curvatures, tasks)
    gradient, first, second = (np.zeros((size, tasks)) for _ in range(3))
    layout = _layout(part)
    column_sums(*layout, base, slopes, curvatures, gradient, first, second)
    mean = np.zeros((size, tasks))
    if problem.fit_intercept:
        mean = first / np.maximum(level, 1e-300)
        gradient -= mean * slope_b
    diagonal = second - mean * first
    least = _LEAST * np.max(second, axis=1, initial=0.0)[:, None]
    diagonal = np.where(second > 0.0, np.maximum(diagonal, least), 0.0)
    # The ridge's slope is in the row's own step; ``gradient`` is that of the losses.
    rest = (base, curvatures, gradient, first, mean, diagonal, *bound, target, *ends)
    descend_by_columns(*(*layout, *rest))
    return mean, level


def weights_of_tasks(problem: Problem, state: TaskNewtonState) -> LinearFunction:
    coef = np.ascontiguousarray(state.w.T.astype(problem.dtype))
    return LinearFunction(coef + 0.0, state.bias.copy())
