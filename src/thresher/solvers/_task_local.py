r"""The local phase of many tasks: proximal Newton on the features of a manifold, rows in memory.

As ``_local.py`` for one output: steps see the columns of the manifold only.  When they have
converged the gradient of all features is taken, features that the manifold missed join it, and the
phase goes on until delta is small over all of them.  The steps are those of ``_task_newton.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thresher.penalties.base import RowLevels
from thresher.solvers._manifold import Units, distance, tempted
from thresher.solvers._task_newton import (
    TaskData,
    TaskNewtonState,
    data_of_tasks,
    gradients_of_tasks,
    predictions_of_tasks,
    rows_in_use,
    step_on,
)
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.tasks import best_constants, levels_of, task_loss, task_penalty

__all__ = ["FinishedTasks", "finish_tasks_on"]

_INNER, _OUTER = 30, 40  # steps before the next look at all features; such looks
_ROUGH, _FINER, _FINEST = 1e-6, 1e-3, 1e-16  # a relative decrease that ends steps, look by look


class FinishedTasks(NamedTuple):
    """Where the phase ended: weights (features, tasks), intercepts, delta and the manifold."""

    w: np.ndarray
    bias: np.ndarray
    delta: float
    inside: np.ndarray


def finish_tasks_on(
    problem: Problem, chunk: Chunk, inside: np.ndarray, w: np.ndarray, bias: np.ndarray,
    most: int, tol: float,
) -> FinishedTasks:  # fmt: skip
    """From weights to delta <= tol over all features, on a manifold that grows where it must.

    Weights that are worse than none are dropped.  ``most``: features whose matrix is formed.
    """
    data = data_of_tasks(problem, chunk, rows_in_use(chunk))
    units, delta, enough = Units.of(problem.penalty, problem.n_features), math.inf, _ROUGH
    w, bias = _better(problem, chunk, w, bias)
    for look in range(_OUTER):
        p = predictions_of_tasks(data, w, bias)
        _, gradient, slope = gradients_of_tasks(problem, data, p)
        before, delta = delta, distance(problem.penalty, w, gradient, slope)
        if delta <= tol:
            break
        missed = tempted(problem.penalty, units, w, gradient) & ~inside
        inside = inside | missed
        if not missed.any() and look > 1:
            if enough <= _FINEST and not delta < 0.9 * before:
                break  # as close as rounding allows
            enough = max(_FINER * enough, _FINEST)
        features = np.sort(units.coordinates(np.flatnonzero(inside)))
        w, bias = _minimised(problem, data, features, w, bias, most, enough)
    return FinishedTasks(w, bias, delta, inside)


def _better(
    problem: Problem, chunk: Chunk, w: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """These weights, or none with the best intercepts, whose objective is lower."""
    zero, constants = np.zeros_like(w), best_constants(problem, chunk)
    own = task_loss(problem, chunk, w.T, bias) + task_penalty(problem, w.T)
    none = task_loss(problem, chunk, zero.T, constants)
    return (w, bias) if own <= none else (zero, constants)


def _minimised(
    problem: Problem, data: TaskData, features: np.ndarray, w: np.ndarray, bias: np.ndarray,
    most: int, enough: float,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Steps on some features, until one gains no more than this share of the objective."""
    part = data._replace(columns=data.columns[:, features])
    rows, entries, ridge = levels_of(problem)
    problem = replace(problem, tol=enough)
    levels = RowLevels(rows[features], entries[features], ridge)
    own = w[features]
    p = predictions_of_tasks(part, own, bias)
    s = TaskNewtonState(own, bias, p, part.columns, None, 0, math.inf, 1e-300)
    for _ in range(_INNER):
        s = step_on(problem, part, levels, s, max(features.size, 1), most)
        if s.residual_ <= enough:
            break
    out = np.zeros_like(w)
    out[features] = s.w
    return out, s.bias
