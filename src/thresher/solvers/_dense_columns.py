r"""The quadratic model of proximal Newton on a large working set of dense rows.

Columns are centred and weighted, :math:`z_a = \sqrt{h/n}\,(x_a - m_a)`, so that :math:`S = ZZ'` and
a step along a coordinate is two passes over contiguous memory.  With about as many features as rows
sweeps converge slowly; every few of them Anderson's extrapolation takes the affine combination of
the last points whose own step would be shortest (Bertrand and Massias, 2021).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from thresher.solvers._sweeps import after_sweep, sweeps_of
from thresher.solvers._working_set import Model, weighted_rows
from thresher.solvers.base import Chunk, Problem

__all__ = ["dense_columns", "dot", "step_by_dense_columns"]

_STRIP = 256  # rows that are turned into columns at a time
_PAST = 5  # steps that are extrapolated


def step_by_dense_columns(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, w: np.ndarray, rough: bool
) -> np.ndarray:
    """Where the model is smallest; the chosen weights there."""
    columns = dense_columns(problem, chunk, p, model)
    target, q = w.copy(), np.zeros(columns.shape[1])
    awake, everyone = np.ones(w.size, np.bool_), True
    past: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(sweeps_of(rough)):
        largest, scale = _sweep(
            columns, model.gradient, model.diagonal, w, model.chosen, problem.penalty, awake,
            everyone, target, q,
        )  # fmt: skip
        over, everyone = after_sweep(largest <= 1e-6 * scale, everyone)
        if over:
            break
        past.append((target.copy(), q.copy()))
        if len(past) > _PAST:
            target, q = _extrapolated(problem, model, past)
            past.clear()
    return target


def dense_columns(problem: Problem, chunk: Chunk, p: np.ndarray, model: Model) -> np.ndarray:
    """Z with S = Z Z', a line for each chosen feature, in single precision as S is."""
    weight, order = chunk.weight, chunk.order
    columns = np.empty((model.chosen.size, order.size), np.float32)
    scale = np.float32(1.0 / math.sqrt(float(np.sum(weight[order]))))
    for start in range(0, order.size, _STRIP):
        part = order[start : start + _STRIP]
        block = np.empty((part.size, model.chosen.size), np.float32)
        weighted_rows(problem, chunk._replace(order=part), p, model, block)
        np.multiply(block.T, scale, out=columns[:, start : start + _STRIP])
    return columns


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def dot(column, q):
    total = 0.0
    for i in range(q.size):
        total += column[i] * q[i]
    return total


@njit(cache=True, nogil=True)
def _sweep(columns, gradient, diagonal, w, chosen, penalty, awake, everyone, target, q):
    """Once along each coordinate that is awake, or everyone; q is the sum of delta_a times line a.

    The largest change, and what there is to compare it with.
    """
    largest, scale = 0.0, 0.0
    for a in range(chosen.size):
        curvature = diagonal[a]
        if curvature <= 0.0 or not (everyone or awake[a]):
            continue
        old, column = target[a], columns[a]
        slope = gradient[a] + dot(column, q)
        new = penalty.prox(old - slope / curvature, 1.0 / curvature, chosen[a])
        change = new - old
        if change != 0.0:
            target[a] = new
            for i in range(q.size):
                q[i] += change * column[i]
            largest = max(largest, change * change * curvature)
        awake[a] = new != 0.0 or change != 0.0
        scale = max(scale, (new - w[a]) ** 2 * curvature)
    return largest, scale


def _extrapolated(
    problem: Problem, model: Model, past: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """The affine combination of the last points whose own step would be shortest, and its q; or the
    last of them, where the model is no lower there."""
    points = np.stack([point for point, _ in past])
    steps = np.diff(points, axis=0)
    inner = steps @ steps.T
    inner[np.diag_indices_from(inner)] += 1e-12 * np.trace(inner)
    try:
        shares = np.linalg.solve(inner, np.ones(len(steps)))
    except np.linalg.LinAlgError:
        return past[-1]
    shares /= shares.sum()
    target, q = shares @ points[1:], shares @ np.stack([q for _, q in past[1:]])
    last, last_q = past[-1]
    penalties = _penalty_of(problem.penalty, model.chosen, target, last)
    change = model.gradient @ (target - last) + 0.5 * (q @ q - last_q @ last_q) + penalties
    return (target, q) if change < 0.0 else past[-1]


@njit(cache=True, nogil=True)
def _penalty_of(penalty, chosen, new, old):
    """The penalty of ``new`` less that of ``old``."""
    total = 0.0
    for a in range(chosen.size):
        total += penalty.value(new[a], chosen[a]) - penalty.value(old[a], chosen[a])
    return total
