r"""Newton on the manifold of many tasks by sums over rows that come in parts.

A feature's weights in all tasks are a unit, and tasks share no row of their Hessians: for the m
features on the manifold there are Q matrices of (m + 1)^2 numbers, each with the intercept of its
task.  Of a row of one task only that task's is touched.  The quadratic model plus the penalty is
minimised feature by feature (``_task_descent.py``), the intercepts eliminated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from thresher.solvers._task_descent import descend_by_matrices
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.tasks import levels_of, targets_of

__all__ = ["added_of_tasks", "target_of_tasks"]

_SWEEPS, _ENOUGH = 300, 1e-12  # of what all sweeps have gained: a gain that ends them
_TRACE = 1e-10  # of a diagonal, for what rounding takes away


@njit(cache=True, nogil=True)
def _add_up(rows, values, base, factors, weight, order, loss, point, place, sums, hessian):
    """Gradients, Hessians of the features with a place and of the intercept; the sum of losses."""
    d, width, last = place.size, values.shape[1], hessian.shape[1] - 1
    p, spots, elements = np.empty(width), np.empty(last + 1, np.int64), np.empty(last + 1)
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        q, count = base[i], 0
        mass += weight[i]
        for c in range(width):
            p[c] = point[d, q + c]
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), rows.element(i, k)
            for c in range(width):
                p[c] += x * point[j, q + c]
            if place[j] >= 0 and x != 0.0:
                spots[count], elements[count] = place[j], x
                count += 1
        spots[count], elements[count] = last, 1.0
        count += 1
        for c in range(width):
            target = values[i, c]
            if target != target:  # a hole
                continue
            own = weight[i] * factors[q + c]
            total += own * loss.value(target, p[c])
            slope, bend = own * loss.deriv(target, p[c]), own * loss.curvature(target, p[c])
            sums[d, q + c] += slope
            for k in range(rows.start(i), rows.stop(i)):
                sums[rows.column(i, k), q + c] += slope * rows.element(i, k)
            whole = hessian[q + c]
            for a in range(count):
                h, line = bend * elements[a], whole[spots[a]]
                for b in range(count):
                    line[spots[b]] += h * elements[b]
    return total, mass


def added_of_tasks(problem: Problem, s: Any, chunk: Chunk) -> dict[str, Any]:
    """The sums of ``ManifoldSums`` with those of some more rows."""
    targets, columns = targets_of(problem, chunk.y), s.coordinates
    place = np.full(problem.n_features, -1)
    place[columns] = np.arange(columns.size)
    sums, hessian = s.sums.copy(), s.hessian.copy()
    value, mass = _add_up(
        chunk.rows, *targets[:3], chunk.weight, chunk.order, problem.loss, s.point, place, sums,
        hessian,
    )  # fmt: skip
    return {
        "value": s.value + float(value), "sums": sums, "hessian": hessian,
        "mass": s.mass + float(mass) * targets.share,
    }  # fmt: skip


def target_of_tasks(problem: Problem, s: Any, gradient: np.ndarray) -> np.ndarray:
    """Where the quadratic model plus the penalty is smallest on the manifold."""
    rows, entries, ridge = levels_of(problem)
    columns, whole = s.coordinates, s.hessian / s.mass
    m = columns.size
    mixed, level = whole[:, :m, m], whole[:, m, m]
    moves = (level > 0.0) & problem.fit_intercept
    mean = np.where(moves[:, None], mixed / np.maximum(level, 1e-300)[:, None], 0.0)
    S = whole[:, :m, :m] - mixed[:, :, None] * mean[:, None, :]
    places = np.arange(m)
    S[:, places, places] += _TRACE * whole[:, places, places]
    slopes = gradient[columns].T - mean * gradient[-1][:, None]
    before = s.point[columns]
    after = before.copy()
    descend_by_matrices(
        S, np.ascontiguousarray(slopes), rows[columns], entries[columns], ridge, after, _SWEEPS,
        _ENOUGH,
    )  # fmt: skip
    out = s.point.copy()
    out[columns] = after
    shift = -gradient[-1] / np.maximum(level, 1e-300) - np.einsum("qa,aq->q", mean, after - before)
    out[-1] += np.where(moves, shift, 0.0)
    return out
