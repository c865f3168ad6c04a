r"""The local phase: prox and reduced Newton steps on a manifold, for rows in memory.

A step takes the gradient on (a random part of) the manifold.  The proximal map says which units at
zero want to leave it; they and the non-zero ones are the reduced space A.  There the quadratic
model of the loss, its Hessian from a sample of the rows, plus the penalty is minimised by (block)
coordinate descent, and the line to the minimum is searched: a Newton step in which weights may
become zero.  Where A is too large for a Hessian a step goes through the columns, or, for groups, is
a plain proximal gradient step.  This reconstructs LPS, the local solver of S. Lee's thesis, chapter
2, of which only the ingredients are printed.

*What makes it fast.*  From its second step on it works on a copy of the columns of the manifold:
its cost is then that of the manifold, not of the features.  Every time the manifold has converged
the gradient of all features is taken; units that it missed join, and the phase goes on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator
from thresher._rows import as_rows
from thresher.penalties import evaluate
from thresher.solvers._dense_columns import step_by_dense_columns
from thresher.solvers._manifold import Units, descend_blocks, distance, proximal_point, tempted
from thresher.solvers._working_set import (
    Model,
    is_dense,
    matrix_of,
    model_of,
    step_by_columns,
    step_by_matrix,
)
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.newton import derivatives, predict, shifted_loss

__all__ = ["Finished", "Options", "Point", "Slopes", "View", "advance", "finish_on", "slopes_at"]

_INNER, _OUTER = 30, 30  # steps on a copy before the next look at all features; such looks
_BALANCE = 16.0  # multiplications in a matrix product that take the time of one outside


class Options(NamedTuple):
    """Of the local phase; see :class:`~thresher.solvers.lps.LPS`."""

    newton_threshold: int
    gradient_fraction: float
    hessian_rows: int | None


class Point(NamedTuple):
    """Weights of all features, intercept, and predictions of all rows."""

    w: np.ndarray
    bias: float
    p: np.ndarray


class View(NamedTuple):
    """Rows of which only some columns are there, and which features these are."""

    chunk: Chunk
    columns: np.ndarray

    @classmethod
    def whole(cls, chunk: Chunk) -> View:
        return cls(chunk, np.arange(chunk.rows.shape[1]))

    def places(self, features: np.ndarray) -> np.ndarray:
        """Columns that hold some features."""
        if self.columns.size and self.columns[-1] == self.columns.size - 1:
            return features
        return np.searchsorted(self.columns, features)


class Slopes(NamedTuple):
    """Mean loss, its gradient (all features, then the intercept), zero where nobody looked."""

    value: float
    gradient: np.ndarray


class Finished(NamedTuple):
    point: Point
    delta: float
    inside: np.ndarray  # units of the manifold
    steps: int


# ---------------------------------------------------------------- gradients and columns


@njit(cache=True, nogil=True)
def _gradient_of_some(rows, y, weight, order, loss, p, columns, gradient):
    """Of some columns of rows that hold every element; the intercept's is last."""
    value, total = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        value += weight[i] * loss.value(y[i], p[i])
        slope = weight[i] * loss.deriv(y[i], p[i])
        total += slope
        for a in range(columns.size):
            gradient[a] += slope * rows.element(i, columns[a])
    gradient[columns.size] = total
    return value


@njit(cache=True, nogil=True)
def _copy_dense(rows, columns, out):
    for i in range(out.shape[0]):
        for a in range(columns.size):
            out[i, a] = rows.element(i, columns[a])


@njit(cache=True, nogil=True)
def _count_kept(rows, place, pointers):
    for i in range(pointers.size - 1):
        count = 0
        for k in range(rows.start(i), rows.stop(i)):
            if place[rows.column(i, k)] >= 0:
                count += 1
        pointers[i + 1] = pointers[i] + count


@njit(cache=True, nogil=True)
def _copy_kept(rows, place, pointers, indices, data):
    for i in range(pointers.size - 1):
        at = pointers[i]
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                indices[at] = spot
                data[at] = rows.element(i, k)
                at += 1


def copied_columns(chunk: Chunk, columns: np.ndarray) -> View:
    """The rows with these columns (in ascending order) only, in memory of their own."""
    rows = chunk.rows
    if not rows.is_sparse:
        out = np.empty((rows.shape[0], columns.size), rows.dtype)
        _copy_dense(rows, columns, out)
        return View(chunk._replace(rows=as_rows(out)), columns)
    from scipy.sparse import csr_matrix

    place = np.full(rows.shape[1], -1, np.int64)
    place[columns] = np.arange(columns.size)
    pointers = np.zeros(rows.shape[0] + 1, np.int64)
    _count_kept(rows, place, pointers)
    small = np.int32 if pointers[-1] < 2**31 else np.int64
    indices, data = np.empty(pointers[-1], small), np.empty(pointers[-1], rows.dtype)
    _copy_kept(rows, place, pointers, indices, data)
    shape = (rows.shape[0], columns.size)
    thin = csr_matrix((data, indices, pointers.astype(small)), shape=shape)
    return View(chunk._replace(rows=as_rows(thin)), columns)


def slopes_at(
    problem: Problem, view: View, p: np.ndarray, features: np.ndarray | None = None
) -> Slopes:
    """Mean loss and gradient at predictions p: of all that the view has, or of some features."""
    chunk = view.chunk
    n = float(np.sum(chunk.weight[chunk.order]))
    gradient = np.zeros(problem.n_features + 1)
    if features is None or chunk.rows.is_sparse:
        found = np.zeros(view.columns.size + 1)
        value = derivatives(*chunk, problem.loss, p, found, np.zeros((0, 0)), False)
        gradient[view.columns] = found[:-1] / n
        if features is not None:
            looked = gradient[features]
            gradient[:] = 0.0
            gradient[features] = looked
    else:
        found = np.zeros(features.size + 1)
        value = _gradient_of_some(*chunk, problem.loss, p, view.places(features), found)
        gradient[features] = found[:-1] / n
    gradient[-1] = found[-1] / n if problem.fit_intercept else 0.0
    return Slopes(float(value) / n, gradient)


# ---------------------------------------------------------------- steps


def advance(
    problem: Problem, view: View, units: Units, inside: np.ndarray, point: Point, slopes: Slopes,
    options: Options, number: int,
) -> Point:  # fmt: skip
    """One step from ``point``, with its slopes at hand: Newton's where it can be, else a prox
    step."""
    entering = tempted(problem.penalty, units, point.w, slopes.gradient[:-1]) & inside
    chosen = np.flatnonzero(units.with_any(point.w != 0.0) | entering)
    features = units.coordinates(chosen)
    if units.are_single or features.size <= options.newton_threshold:
        model = model_of(
            problem, view.chunk, point.p, features, slopes.gradient, view.places(features)
        )
        target = _target(problem, view, units, chosen, point, model, options, number)
        bias = model.bias(target - point.w[features]) if problem.fit_intercept else 0.0
        end = point.w.copy()
        end[features] = target
        found = _searched(problem, view, point, slopes, end, bias)
        if found is not None:
            return found
    return _prox_step(problem, view, inside, units, point, slopes)


def _target(
    problem: Problem, view: View, units: Units, chosen: np.ndarray, point: Point, model: Model,
    options: Options, number: int,
) -> np.ndarray:  # fmt: skip
    """The chosen weights where the quadratic model plus the penalty is smallest."""
    w, chunk = point.w[model.chosen], view.chunk
    if model.chosen.size > options.newton_threshold:
        step = step_by_dense_columns if is_dense(chunk.rows) else step_by_columns
        return step(problem, chunk, point.p, model, w, False)
    sample = _hessian_rows(problem, chunk, model.chosen.size, options, number)
    if units.are_single:
        return step_by_matrix(problem, chunk, point.p, model, w, sample)
    S, target = matrix_of(problem, chunk, point.p, model, sample), w.copy()
    starts = units.starts(chosen)
    descend_blocks(S, model.gradient, w, starts, chosen, problem.penalty, target)
    return target


def _hessian_rows(
    problem: Problem, chunk: Chunk, size: int, options: Options, number: int
) -> np.ndarray:
    """Rows for a Hessian of this size: so many that it takes about the time of the gradient."""
    n = chunk.order.size
    enough = options.hessian_rows
    if enough is None:
        enough = max(3000, 50 * size, int(_BALANCE * n / max(size, 1)))
        enough = n if 2 * enough > n else enough
    if enough >= n:
        return chunk.order
    return np.sort(generator(problem.seed, 11, number).choice(chunk.order, enough, replace=False))


def _searched(
    problem: Problem, view: View, point: Point, slopes: Slopes, end: np.ndarray, bias: float
) -> Point | None:
    """As far towards ``end`` as the objective falls as promised; None where it never does."""
    _, y, weight, order = view.chunk
    n = float(np.sum(weight[order]))
    away = end - point.w
    along = np.zeros_like(point.p)
    predict(view.chunk.rows, order, away[view.columns], bias, along)
    before = evaluate(problem.penalty, point.w)
    promised = float(slopes.gradient[:-1] @ away + slopes.gradient[-1] * bias)
    promised += evaluate(problem.penalty, end) - before
    t = 1.0
    while t > 1e-12:
        # Between the ends, whatever the rounding: a penalty may be infinite beyond them.
        w = end if t == 1.0 else np.clip(point.w + t * away, *np.sort([point.w, end], axis=0))
        value = shifted_loss(y, weight, order, problem.loss, point.p, along, t) / n
        gain = value - slopes.value + evaluate(problem.penalty, w) - before
        if promised <= 0.0 and gain <= 1e-3 * t * promised + 1e-14 * slopes.value:
            return Point(w + 0.0, point.bias + t * bias, point.p + t * along)
        t *= 0.5
    return None


def _prox_step(
    problem: Problem, view: View, inside: np.ndarray, units: Units, point: Point, slopes: Slopes
) -> Point:
    """Proximal gradient: the longest step that the objective falls by, found by doubling mu."""
    marked = np.zeros(problem.n_features + 1, np.bool_)
    marked[units.coordinates(np.flatnonzero(inside))] = True
    marked[-1] = True
    held = slopes._replace(gradient=np.where(marked, slopes.gradient, 0.0))
    force = float(np.linalg.norm(held.gradient))
    mu = max(force / max(float(np.linalg.norm(point.w)), 1.0), 1e-300)
    for _ in range(100):
        end = proximal_point(problem.penalty, point.w, held.gradient[:-1], 1.0 / mu)
        end = np.where(marked[:-1], end, point.w)
        found = _searched(problem, view, point, held, end, -held.gradient[-1] / mu)
        if found is not None:
            return found
        mu *= 4.0
    return point


# ---------------------------------------------------------------- the phase


def finish_on(
    problem: Problem, chunk: Chunk, units: Units, inside: np.ndarray, start: tuple[np.ndarray, float],
    options: Options, tol: float,
) -> Finished:  # fmt: skip
    """From ``start`` to delta <= tol over all features, on a manifold that grows where it must."""
    w, bias = start
    p = np.zeros(chunk.size)
    predict(chunk.rows, chunk.order, w, bias, p)
    point, whole, view, steps = Point(w, bias, p), View.whole(chunk), None, 0
    delta, best = math.inf, math.inf
    for look in range(_OUTER):
        slopes = slopes_at(problem, whole, point.p)
        delta = distance(problem.penalty, point.w, slopes.gradient[:-1], float(slopes.gradient[-1]))
        if delta <= tol:
            break
        missed = tempted(problem.penalty, units, point.w, slopes.gradient[:-1]) & ~inside
        if missed.any():
            inside, view = inside | missed, None
        elif look > 1 and not delta < 0.9 * best:
            break  # as close as rounding allows
        best = min(best, delta)
        columns = np.sort(units.coordinates(np.flatnonzero(inside)))
        if look == 0 or 2 * columns.size > problem.n_features:
            point, steps = advance(
                problem, whole, units, inside, point, slopes, options, steps
            ), steps + 1  # fmt: skip
            continue
        view = view or copied_columns(chunk, columns)
        point, taken = _on_copy(problem, view, units, inside, point, options, steps, 0.5 * tol)
        steps += taken
    return Finished(point, delta, inside, steps)


def _on_copy(
    problem: Problem, view: View, units: Units, inside: np.ndarray, point: Point,
    options: Options, first: int, tol: float,
) -> tuple[Point, int]:  # fmt: skip
    """Steps on the manifold alone, until it has converged; and how many."""
    for taken in range(_INNER):
        looked = looked_at(problem, units, inside, point.w, options, first + taken)
        slopes = slopes_at(problem, view, point.p, looked)
        gradient = slopes.gradient
        near = distance(problem.penalty, point.w, gradient[:-1], float(gradient[-1])) <= tol
        if near and looked is not None:  # a part of the gradient is no proof
            slopes = slopes_at(problem, view, point.p)
            gradient = slopes.gradient
            near = distance(problem.penalty, point.w, gradient[:-1], float(gradient[-1])) <= tol
        if near:
            return point, taken
        point = advance(problem, view, units, inside, point, slopes, options, first + taken)
    return point, _INNER


def looked_at(
    problem: Problem, units: Units, inside: np.ndarray, w: np.ndarray, options: Options, number: int
) -> np.ndarray | None:
    """The features whose gradient is taken: non-zero ones and a random part of the others.

    None: all of them.
    """
    if options.gradient_fraction >= 1.0:
        return None
    active = units.with_any(w != 0.0)
    others = np.flatnonzero(inside & ~active)
    size = math.ceil(options.gradient_fraction * np.count_nonzero(inside)) - np.count_nonzero(active)
    size = min(max(size, 1), others.size)
    drawn = generator(problem.seed, 12, number).choice(others, size, replace=False)
    return np.sort(units.coordinates(np.concatenate([np.flatnonzero(active), drawn])))
