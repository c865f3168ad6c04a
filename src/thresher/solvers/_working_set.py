r"""The quadratic model of proximal Newton on a working set, with the intercept eliminated.

With curvatures h and slopes g of the mean loss, and m the mean of the rows weighted by h, the best
intercept for a move delta of the weights is known, and what is left to minimise is

.. math:: g_m\cdot\delta + \tfrac12\,\delta' S\,\delta + \psi(w + \delta), \qquad
          S = \tfrac1n\sum_i h_i (x_i - m)(x_i - m)', \quad g_m = g - g_b\,m,

by coordinate descent.  Small working sets have S formed; for large ones a step along a coordinate
goes through its column of the rows, of which a copy is made (Friedman et al., 2010; Yuan, Ho and
Lin, 2012): O(size^2) memory, or that of the elements in these columns.  Those of dense rows have a
file of their own, ``_dense_columns.py``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import AHEAD, Rows
from thresher.solvers._sweeps import SWEEPS, after_sweep, sweeps_of
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "Model", "columns_of", "descend_matrix", "is_dense", "matrix_of", "model_of", "step_by_columns",
    "step_by_matrix", "weighted_rows",
]  # fmt: skip

_DENSE = 0.25  # share of stored elements from which on rows are taken as dense
_BLOCK = 4096  # dense rows whose outer products are summed by one matrix product
_TINY = 1e-28  # curvature, of a row, that single precision holds with room for many rows
_LEAST = 1e-12  # of the bound of the curvature: what a row has where its loss is a straight line
_FAR = 1e4  # squared mean over variance from which single precision does not do


class Model(NamedTuple):
    """What is known of the working set before its minimisation.

    Parameters
    ----------
    chosen : array of int
        The features in it.
    place : array of int
        Of all columns of the rows: where they are in it, or -1.
    mean : array
        m of the chosen features; zero without an intercept.
    diagonal : array
        Of S, at least a trace.
    level : float
        Mean curvature, which is that of the intercept.
    gradient : array
        g_m of the chosen features.
    intercept : float
        g_b.
    """

    chosen: np.ndarray
    place: np.ndarray
    mean: np.ndarray
    diagonal: np.ndarray
    level: float
    gradient: np.ndarray
    intercept: float

    def bias(self, delta: np.ndarray) -> float:
        """The move of the intercept that goes with a move of the weights."""
        return -self.intercept / self.level - float(self.mean @ delta)

    @property
    def columns(self) -> np.ndarray:
        """Of the rows: those that hold the chosen features, in their order."""
        found = np.flatnonzero(self.place >= 0)
        return found[np.argsort(self.place[found])]

    @property
    def is_far(self) -> bool:
        """Whether a mean outweighs the spread of its feature in single precision."""
        return bool(np.any(self.mean**2 * self.level > _FAR * self.diagonal))

    @property
    def precision(self) -> Any:
        """Of S: single, as it bends the step only, unless curvatures leave the range of that."""
        known = self.diagonal[self.diagonal > 0.0]
        fits = known.size == 0 or (known.min() > _TINY and known.max() < 1.0 / _TINY)
        return np.float32 if fits else np.float64


# ---------------------------------------------------------------- sums over the rows


@njit(cache=True, nogil=True)
def _sums(rows, y, weight, order, loss, p, place, first, second, plain):
    """Sums of h x, h x^2 and x^2 for the chosen features, and of h."""
    total = 0.0
    for r in range(order.size):
        i = order[r]
        h = weight[i] * loss.curvature(y[i], p[i])
        total += h
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                x = rows.element(i, k)
                first[spot] += h * x
                second[spot] += h * x * x
                plain[spot] += weight[i] * x * x
    return total


@njit(cache=True, nogil=True)
def _sums_of_some(rows, y, weight, order, loss, p, columns, first, second, plain):
    """The same of rows that hold every element, for few of their columns."""
    total = 0.0
    for r in range(order.size):
        i = order[r]
        rows.fetch_some(order[min(r + AHEAD, order.size - 1)], columns)
        h = weight[i] * loss.curvature(y[i], p[i])
        total += h
        for a in range(columns.size):
            x = rows.element(i, columns[a])
            first[a] += h * x
            second[a] += h * x * x
            plain[a] += weight[i] * x * x
    return total


@njit(cache=True, nogil=True)
def _add_sparse_rows(rows, y, weight, order, loss, p, place, matrix):
    """matrix += curvature x x' over the coordinates with place[j] >= 0; a constant one is last.

    Each pair is added once, on either side of the diagonal.
    """
    last = matrix.shape[0] - 1
    spots = np.empty(last, np.int64)
    values = np.empty(last)
    for r in range(order.size):
        i = order[r]
        h = weight[i] * loss.curvature(y[i], p[i])
        if h == 0.0:
            continue
        count = 0
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                spots[count] = spot
                values[count] = rows.element(i, k)
                count += 1
        for a in range(count):
            scaled = h * values[a]
            line = matrix[spots[a]]
            for b in range(a + 1):
                line[spots[b]] += scaled * values[b]
            matrix[last, spots[a]] += scaled
        matrix[last, last] += h


@njit(cache=True, nogil=True)
def _weighted_block_of_some(rows, y, weight, order, loss, p, columns, mean, block):
    """The same of rows that hold every element."""
    for r in range(order.size):
        i = order[r]
        rows.fetch_some(order[min(r + AHEAD, order.size - 1)], columns)
        root = math.sqrt(weight[i] * loss.curvature(y[i], p[i]))
        line = block[r]
        for a in range(line.size):
            line[a] = root * (rows.element(i, columns[a]) - mean[a])


@njit(cache=True, nogil=True)
def _weighted_block(rows, y, weight, order, loss, p, place, mean, block):
    """The rows' chosen columns less their means, each row times the root of its curvature."""
    for r in range(order.size):
        i = order[r]
        root = math.sqrt(weight[i] * loss.curvature(y[i], p[i]))
        line = block[r]
        for a in range(line.size):
            line[a] = -root * mean[a]
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                line[spot] = root * (rows.element(i, k) - mean[spot])


def weighted_rows(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, block: np.ndarray
) -> None:
    """Into ``block``: the chosen columns less their means, rows times the roots of curvatures."""
    terms = (*chunk, problem.loss, p)
    if chunk.rows.is_sparse:
        _weighted_block(*terms, model.place, model.mean, block)
    else:
        _weighted_block_of_some(*terms, model.columns, model.mean, block)


def model_of(
    problem: Problem, chunk: Chunk, p: np.ndarray, chosen: np.ndarray, gradient: np.ndarray,
    columns: np.ndarray | None = None,
) -> Model:  # fmt: skip
    """Means and curvatures of the ``chosen`` features, for a gradient of all and the intercept.

    ``columns`` of the rows hold them, where the rows have not all features.
    """
    n, size = float(np.sum(chunk.weight[chunk.order])), chosen.size
    columns = chosen if columns is None else columns
    place = np.full(chunk.rows.shape[1], -1, np.int64)
    place[columns] = np.arange(size)
    first, second, plain = np.zeros(size), np.zeros(size), np.zeros(size)
    if chunk.rows.is_sparse:
        total = _sums(*chunk, problem.loss, p, place, first, second, plain)
    else:
        total = _sums_of_some(*chunk, problem.loss, p, columns, first, second, plain)
    bound = problem.loss.smoothness if math.isfinite(problem.loss.smoothness) else 1.0
    mean, slope = np.zeros(size), 0.0
    if problem.fit_intercept:
        mean, slope = first / max(total, 1e-300), float(gradient[-1])
    spread = np.maximum(second - mean * first, 0.0)
    diagonal = np.maximum(spread, _LEAST * bound * plain) / n
    level = max(total / n, _LEAST * bound)
    about = gradient[chosen] - slope * mean
    return Model(chosen, place, mean, diagonal, level, about, slope)


def is_dense(rows: Rows) -> bool:
    """Whether it pays to take rows as dense."""
    return bool(rows.stored >= _DENSE * rows.shape[0] * rows.shape[1])


# ---------------------------------------------------------------- the matrix


def step_by_matrix(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, w: np.ndarray, sample: np.ndarray
) -> np.ndarray:
    """Where the model is smallest, by S of a ``sample`` of the rows; the chosen weights there."""
    S = matrix_of(problem, chunk, p, model, sample)
    target = w.copy()
    descend_matrix(S, model.gradient, w, model.chosen, problem.penalty, target)
    return target


def matrix_of(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, sample: np.ndarray
) -> np.ndarray:
    """S of a ``sample`` of the rows, and on its diagonal what the sample may lack."""
    S = _matrix(problem, chunk._replace(order=sample), p, model)
    S /= float(np.sum(chunk.weight[sample]))
    own = np.diag(S).astype(np.float64)
    # What the sample lacks of the curvature of all rows, and a ridge for its errors: where a
    # feature is too rare for the sample, or a sum of features constant in it, there would seem to
    # be no curvature, and the step would have no end.
    more = np.maximum(model.diagonal - own, 0.0) + 1e-10 * model.diagonal
    if sample.size < chunk.order.size:
        more += 0.1 * own.size / sample.size * model.diagonal
    S[np.diag_indices_from(S)] += more
    return S


def _matrix(problem: Problem, chunk: Chunk, p: np.ndarray, model: Model) -> np.ndarray:
    """n S: it bends the step only, the gradient says where to."""
    rows, order = chunk.rows, chunk.order
    size, kind = model.chosen.size, model.precision
    if not is_dense(rows):
        whole = np.zeros((size + 1, size + 1), np.float64 if model.is_far else kind)
        _add_sparse_rows(*chunk, problem.loss, p, model.place, whole)
        S = whole[:size, :size]
        S += S.T
        S[np.diag_indices_from(S)] *= 0.5
        if problem.fit_intercept:
            crossed = np.outer(whole[size, :size], model.mean)
            S -= crossed + crossed.T - whole[size, size] * np.outer(model.mean, model.mean)
        return np.ascontiguousarray(S, dtype=kind)
    S = np.zeros((size, size), kind)
    for start in range(0, order.size, _BLOCK):
        part = order[start : start + _BLOCK]
        block = np.empty((part.size, size), kind)
        weighted_rows(problem, chunk._replace(order=part), p, model, block)
        S += block.T @ block
    return S


@njit(cache=True, nogil=True)
def descend_matrix(S, gradient, w, chosen, penalty, target):
    """Coordinate descent with S at hand; ``target`` begins as w."""
    size = chosen.size
    product = np.zeros(size)
    for _ in range(SWEEPS):
        largest, scale = 0.0, 0.0
        for a in range(size):
            curvature = S[a, a]
            if curvature <= 0.0:
                continue
            old = target[a]
            slope = gradient[a] + product[a]
            new = penalty.prox(old - slope / curvature, 1.0 / curvature, chosen[a])
            change = new - old
            if change != 0.0:
                target[a] = new
                line = S[a]
                for b in range(size):
                    product[b] += change * line[b]
                largest = max(largest, change * change * curvature)
            scale = max(scale, (new - w[a]) ** 2 * curvature)
        if largest <= 1e-4 * scale:
            break


# ---------------------------------------------------------------- the columns


@njit(cache=True, nogil=True)
def _count(rows, order, place, starts):
    for r in range(order.size):
        i = order[r]
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                starts[spot + 1] += 1


@njit(cache=True, nogil=True)
def _copy_columns(rows, order, place, ends, index, values):
    """``ends`` begins as the columns' first places and ends as their last ones."""
    for r in range(order.size):
        i = order[r]
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                index[ends[spot]] = i
                values[ends[spot]] = rows.element(i, k)
                ends[spot] += 1


@njit(cache=True, nogil=True)
def _curvatures(y, weight, order, loss, p, n, out):
    for r in range(order.size):
        i = order[r]
        out[i] = weight[i] * loss.curvature(y[i], p[i]) / n


def step_by_columns(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model, w: np.ndarray, rough: bool
) -> np.ndarray:
    """Where the model is smallest, without its matrix; the chosen weights there."""
    target = w.copy()
    _descend_columns(
        *columns_of(problem, chunk, p, model), model.mean * model.level, model.mean, model.gradient,
        model.diagonal, w, model.chosen, problem.penalty, sweeps_of(rough), target,
    )  # fmt: skip
    return target


def columns_of(
    problem: Problem, chunk: Chunk, p: np.ndarray, model: Model
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A copy of the chosen columns, compressed (starts, rows, values), and the rows' curvatures."""
    rows, y, weight, order = chunk
    starts = np.zeros(model.chosen.size + 1, np.int64)
    _count(rows, order, model.place, starts)
    starts = np.cumsum(starts)
    index, values = np.empty(starts[-1], np.uint32), np.empty(starts[-1], rows.dtype)
    _copy_columns(rows, order, model.place, starts[:-1].copy(), index, values)
    h = np.zeros(y.shape[0])
    _curvatures(y, weight, order, problem.loss, p, float(np.sum(weight[order])), h)
    return starts, index, values, h


@njit(cache=True, nogil=True)
def _descend_columns(
    starts, index, values, h, first, mean, gradient, diagonal, w, chosen, penalty, sweeps, target
):
    """Coordinate descent through columns; ``target`` begins as w.

    The move of the predictions is q - offset, q the sum of delta_a times column a.
    """
    q, offset = np.zeros(h.size), 0.0
    awake, everyone = np.ones(chosen.size, np.bool_), True
    for _ in range(sweeps):
        largest, scale = 0.0, 0.0
        for a in range(chosen.size):
            curvature = diagonal[a]
            if curvature <= 0.0 or not (everyone or awake[a]):
                continue
            old = target[a]
            slope = gradient[a] - offset * first[a]
            for k in range(starts[a], starts[a + 1]):
                i = index[k]
                slope += h[i] * values[k] * q[i]
            new = penalty.prox(old - slope / curvature, 1.0 / curvature, chosen[a])
            change = new - old
            if change != 0.0:
                target[a] = new
                offset += change * mean[a]
                for k in range(starts[a], starts[a + 1]):
                    q[index[k]] += change * values[k]
                largest = max(largest, change * change * curvature)
            awake[a] = new != 0.0 or change != 0.0
            scale = max(scale, (new - w[a]) ** 2 * curvature)
        over, everyone = after_sweep(largest <= 1e-6 * scale, everyone)
        if over:
            break
