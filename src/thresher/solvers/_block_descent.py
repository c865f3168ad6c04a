r"""The quadratic model of proximal Newton on a working set of groups, minimised group by group.

What is left to minimise (``_working_set.py``) is

.. math:: g_m\cdot\delta + \tfrac12\,\delta' S\,\delta + \sum_g \psi_g(v_g + \delta_g).

A visit of a group (``_block_visits.py``) minimises over it, and then the slopes of all others hear
of its move.  Small working sets have S formed, large ones go through copies of their columns,
sparse (one proximal gradient step a visit) or dense.

Coordinates are copies of features: two groups that share a feature share its line of S.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.solvers._block_visits import (
    EXACT,
    axes_of,
    largest_eigenvalue,
    minimise,
    norms_of,
    settle,
)
from thresher.solvers._dense_columns import dense_columns, dot
from thresher.solvers._sweeps import SWEEPS, after_sweep, sweeps_of
from thresher.solvers._working_set import Model, columns_of, is_dense, matrix_of
from thresher.solvers.base import Chunk, Problem

__all__ = ["Blocks", "blocks_by_columns", "blocks_by_matrix", "descend_blocks", "widest"]

_POWERS, _SAFE = 20, 1.1
_ENOUGH = 1e-4  # of the way come: moves below it end the sweeps


class Blocks(NamedTuple):
    """A working set of groups.

    Parameters
    ----------
    groups : array of int
        Its groups.
    bounds : array of int
        Where the coordinates of each begin and end.
    at : array of int
        Of each coordinate: the place of its feature among those of the working set.
    """

    groups: np.ndarray
    bounds: np.ndarray
    at: np.ndarray


@njit(cache=True, nogil=True)
def widest(bounds):
    """The size of the largest group."""
    most = 0
    for g in range(bounds.size - 1):
        most = max(most, bounds[g + 1] - bounds[g])
    return most


@njit(cache=True, nogil=True)
def _compared(point, before, origin):
    """Squared, how far a group is from where it was and from its origin; is there life in it."""
    change, far, alive = 0.0, 0.0, False
    for a in range(point.size):
        change += (point[a] - before[a]) ** 2
        far += (point[a] - origin[a]) ** 2
        alive = alive or point[a] != 0.0
    return change, far, alive or change > 0.0


# ---------------------------------------------------------------- with the matrix


def blocks_by_matrix(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, blocks: Blocks, v: np.ndarray,
    sample: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Where the model is smallest, by S of a ``sample`` of the rows; the copies' weights there."""
    S, penalty = matrix_of(problem, chunk, p, model, sample), problem.penalty
    return descend_blocks(S, model.gradient, *blocks, penalty, norms_of(penalty, blocks.groups), v)


@njit(cache=True, nogil=True)
def descend_blocks(S, gradient, groups, bounds, at, penalty, norms, v):
    """Block descent from v with S at hand; the copies' weights at the minimum."""
    target, size = v.copy(), S.shape[0]
    weights, ridge = norms
    curves, rest = np.empty(v.size), np.empty((3, widest(bounds)))
    axes = np.empty(np.sum(np.diff(bounds) ** 2) if weights.size else 0)
    product, room = np.zeros(size), widest(bounds)
    before, slope, trial = np.empty(room), np.empty(room), np.empty(room)
    limits = np.empty(groups.size)
    own = np.empty((room, room))
    awake, everyone = np.ones(groups.size, np.bool_), True
    for sweep in range(SWEEPS):
        largest, scale, spot = 0.0, 0.0, 0
        for g in range(groups.size):
            start, stop = bounds[g], bounds[g + 1]
            width = stop - start
            exact = weights.size > 0 and 1 < width <= EXACT
            frame = axes[spot : spot + width * width if exact else spot]
            spot += frame.size
            if not (everyone or awake[g]):
                continue
            point = target[start:stop]
            for a in range(width):
                slope[a] = gradient[at[start + a]] + product[at[start + a]]
                before[a] = point[a]
            block = own[:width, :width]
            if sweep == 0 or not exact:
                for a in range(width):
                    line = S[at[start + a]]
                    for b in range(width):
                        block[a, b] = line[at[start + b]]
            if sweep == 0 and exact:
                square = frame.reshape(width, width)
                square[:] = block
                axes_of(square, S.itemsize == 4, curves[start:stop])
                limits[g] = curves[stop - 1]
            elif sweep == 0:
                limits[g] = largest_eigenvalue(np.ascontiguousarray(block))
            if limits[g] <= 0.0:
                continue
            if exact:
                square, long = frame.reshape(width, width), curves[start:stop]
                minimise(square, long, weights[g], ridge, point, slope[:width], rest)
            else:
                settle(block, limits[g], penalty, groups[g], point, slope[:width], trial)
            for a in range(width):
                move = point[a] - before[a]
                if move != 0.0:
                    line = S[at[start + a]]
                    for b in range(size):
                        product[b] += move * line[b]
            change, far, awake[g] = _compared(point, before, v[start:stop])
            largest, scale = max(largest, change * limits[g]), max(scale, far * limits[g])
        over, everyone = after_sweep(largest <= _ENOUGH * scale, everyone)
        if over:
            break
    return target


# ---------------------------------------------------------------- with columns


def blocks_by_columns(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, blocks: Blocks, v: np.ndarray,
    rough: bool,
) -> np.ndarray:  # fmt: skip
    """Where the model is smallest, without its matrix; the copies' weights there."""
    target, sweeps = v.copy(), sweeps_of(rough)
    penalty: Any = problem.penalty
    if is_dense(chunk.rows):
        lines = dense_columns(problem, chunk, p, model)
        norms = norms_of(penalty, blocks.groups)
        _descend_dense(lines, model.gradient, *blocks, penalty, norms, v, sweeps, target)
        return target
    columns = columns_of(problem, chunk, p, model)
    _descend_sparse(
        *columns, model.mean * model.level, model.mean, model.gradient, *blocks, penalty, v, sweeps,
        target,
    )  # fmt: skip
    return target


@njit(cache=True, nogil=True)
def _descend_dense(lines, gradient, groups, bounds, at, penalty, norms, v, sweeps, target):
    """Through lines z_a with S = Z Z'; q is the sum of delta_a times line a."""
    weights, ridge = norms
    curves, rest = np.empty(v.size), np.empty((3, widest(bounds)))
    q = np.zeros(lines.shape[1])
    room = widest(bounds)
    before, slope, trial = np.empty(room), np.empty(room), np.empty(room)
    limits = np.empty(groups.size)
    squares = np.zeros(np.sum(np.diff(bounds) ** 2))
    awake, everyone = np.ones(groups.size, np.bool_), True
    for sweep in range(sweeps):
        largest, scale, spot = 0.0, 0.0, 0
        for g in range(groups.size):
            start, stop = bounds[g], bounds[g + 1]
            width = stop - start
            exact = weights.size > 0 and 1 < width <= EXACT
            block = squares[spot : spot + width * width].reshape(width, width)
            spot += width * width
            if not (everyone or awake[g]):
                continue
            if sweep == 0:
                for a in range(width):
                    for b in range(a + 1):
                        block[a, b] = dot(lines[at[start + a]], lines[at[start + b]])
                        block[b, a] = block[a, b]
                if exact:
                    axes_of(block, lines.itemsize == 4, curves[start:stop])
                limits[g] = curves[stop - 1] if exact else largest_eigenvalue(block)
            if limits[g] <= 0.0:
                continue
            point = target[start:stop]
            for a in range(width):
                slope[a] = gradient[at[start + a]] + dot(lines[at[start + a]], q)
                before[a] = point[a]
            if exact:
                own = curves[start:stop]
                minimise(block, own, weights[g], ridge, point, slope[:width], rest)
            else:
                settle(block, limits[g], penalty, groups[g], point, slope[:width], trial)
            for a in range(width):
                move = point[a] - before[a]
                if move != 0.0:
                    line = lines[at[start + a]]
                    for i in range(q.size):
                        q[i] += move * line[i]
            change, far, awake[g] = _compared(point, before, v[start:stop])
            largest, scale = max(largest, change * limits[g]), max(scale, far * limits[g])
        over, everyone = after_sweep(largest <= _ENOUGH * scale, everyone)
        if over:
            break


@njit(cache=True, nogil=True)
def _column_norm(starts, index, values, h, first, mean, at, start, stop, q):
    """About the largest eigenvalue of a group's block of S, by powers; q is room, zero again."""
    width = stop - start
    x, image = np.ones(width), np.empty(width)
    norm = 0.0
    for _ in range(1 if width == 1 else _POWERS):
        length, offset = 0.0, 0.0
        for a in range(width):
            length += x[a] * x[a]
        if length == 0.0:
            return 0.0
        length = math.sqrt(length)
        for a in range(width):
            x[a] /= length
            offset += x[a] * mean[at[start + a]]
            for k in range(starts[at[start + a]], starts[at[start + a] + 1]):
                q[index[k]] += x[a] * values[k]
        norm = 0.0
        for a in range(width):
            f = at[start + a]
            image[a] = -offset * first[f]
            for k in range(starts[f], starts[f + 1]):
                image[a] += h[index[k]] * values[k] * q[index[k]]
            norm += image[a] * x[a]
        for a in range(width):
            for k in range(starts[at[start + a]], starts[at[start + a] + 1]):
                q[index[k]] = 0.0
            x[a] = image[a]
    return norm if width == 1 else _SAFE * norm


@njit(cache=True, nogil=True)
def _descend_sparse(
    starts, index, values, h, first, mean, gradient, groups, bounds, at, penalty, v, sweeps,
    target,
):  # fmt: skip
    """Through compressed columns; the move of the predictions is q - offset."""
    q, offset = np.zeros(h.size), 0.0
    room, limits = np.empty(widest(bounds)), np.empty(groups.size)
    for g in range(groups.size):
        limits[g] = _column_norm(
            starts, index, values, h, first, mean, at, bounds[g], bounds[g + 1], q
        )
    awake, everyone = np.ones(groups.size, np.bool_), True
    for _ in range(sweeps):
        largest, scale = 0.0, 0.0
        for g in range(groups.size):
            limit = limits[g]
            if limit <= 0.0 or not (everyone or awake[g]):
                continue
            start, stop = bounds[g], bounds[g + 1]
            point, trial = target[start:stop], room[: stop - start]
            for a in range(point.size):
                f = at[start + a]
                slope = gradient[f] - offset * first[f]
                for k in range(starts[f], starts[f + 1]):
                    slope += h[index[k]] * values[k] * q[index[k]]
                trial[a] = point[a] - slope / limit
            penalty.prox_block(trial, 1.0 / limit, groups[g], trial)
            for a in range(point.size):
                move = trial[a] - point[a]
                if move != 0.0:
                    f = at[start + a]
                    offset += move * mean[f]
                    for k in range(starts[f], starts[f + 1]):
                        q[index[k]] += move * values[k]
            change, far, awake[g] = _compared(trial, point, v[start:stop])
            largest, scale = max(largest, change * limit), max(scale, far * limit)
            point[:] = trial
        over, everyone = after_sweep(largest <= _ENOUGH * scale, everyone)
        if over:
            break
