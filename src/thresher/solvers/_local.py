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

from thresher._random import generator
from thresher.penalties import evaluate
from thresher.solvers._block_descent import Blocks, blocks_by_matrix
from thresher.solvers._dense_columns import step_by_dense_columns
from thresher.solvers._manifold import Units, distance, proximal_point, strongest, tempted
from thresher.solvers._views import View, copied_columns, gradient_at, predicted
from thresher.solvers._working_set import is_dense, model_of, step_by_columns, step_by_matrix
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.newton import shifted_loss

__all__ = ["Finished", "Options", "Point", "Start", "advance", "finish_on", "looked_at"]

_INNER, _OUTER = 30, 30  # steps on a copy before the next look at all features; such looks
_BALANCE = 16.0  # multiplications in a matrix product that take the time of one outside
_FEW, _MANY = 50, 400  # rows for each weight of a Hessian: of a rough one, of a good one
_ROOM = 32  # units that may leave zero together, where few have
_ROWS = 10  # for each unit of the manifold: with fewer the weights of dual averaging are noise
_LEAST = 2000  # rows of such a part
_PATIENCE = 4  # looks without progress: delta may rise before it falls
_SMALL = 2_000_000  # stored elements of rows that are not worth a copy
_NEAR = 20.0  # times the tolerance: one more step is enough, and a copy would not pay
_PART, _FIRST = 8, 2  # steps are first taken on one of so many rows, and so many of them


class Options(NamedTuple):
    """Of the local phase; see :class:`~thresher.solvers.rda_plus.RDAPlus`."""

    newton_threshold: int
    gradient_fraction: float
    hessian_rows: int
    rho: float = 1.0


class Point(NamedTuple):
    """Weights of all features, intercept, predictions of all rows, and their mean loss."""

    w: np.ndarray
    bias: float
    p: np.ndarray
    loss: float

    @classmethod
    def at(cls, problem: Problem, view: View, w: np.ndarray, bias: float) -> Point:
        p = predicted(view, w, bias)
        return cls(w, bias, p, _mean_loss(problem, view.chunk, p, p, 0.0))


def _mean_loss(problem: Problem, chunk: Chunk, p: np.ndarray, along: np.ndarray, t: float) -> float:
    """At the predictions p + t along."""
    _, y, weight, order = chunk
    total = shifted_loss(y, weight, order, problem.loss, p, along, t)
    return float(total) / float(np.sum(weight[order]))


class Start(NamedTuple):
    """Where the phase starts, and the intercept to start from without weights.

    ``origin`` None: it goes on from here, where it had ended before.
    """

    w: np.ndarray
    bias: float
    origin: float | None = None


class Finished(NamedTuple):
    point: Point
    delta: float
    inside: np.ndarray  # units of the manifold
    steps: int


# ---------------------------------------------------------------- steps


def advance(
    problem: Problem, view: View, units: Units, inside: np.ndarray, point: Point,
    gradient: np.ndarray, options: Options, number: int,
) -> Point:  # fmt: skip
    """One step from ``point``, with the gradient at hand: Newton's where it can be, else a prox
    step."""
    chosen = _reduced(problem, units, inside, point.w, gradient)
    features = units.coordinates(chosen)
    every = options._replace(hessian_rows=view.chunk.order.size)
    # A Hessian of a sample may lack curvature where features are rare: then all rows are taken.
    for mine, shortest in ((options, 0.1), (every, 1e-12)):
        if units.grouped and features.size > options.newton_threshold:
            break
        target, bias = _minimum(problem, view, units, chosen, point, gradient, mine, number)
        end = point.w.copy()
        end[features] = target
        found = _searched(problem, view, point, gradient, end, bias, shortest)
        if found is not None:
            return found
    return _prox_step(problem, view, inside, units, point, gradient)


def _reduced(
    problem: Problem, units: Units, inside: np.ndarray, w: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """Units that are not zero, and those that want to leave it most: at most twice as many."""
    active = units.with_any(w != 0.0)
    entering = np.flatnonzero(tempted(problem.penalty, units, w, gradient[:-1]) & inside)
    room = max(_ROOM, 2 * int(np.count_nonzero(active)))
    entering = strongest(problem.penalty, units, gradient[:-1], entering, room)
    active[entering] = True
    return np.flatnonzero(active)


def _minimum(
    problem: Problem, view: View, units: Units, chosen: np.ndarray, point: Point,
    gradient: np.ndarray, options: Options, number: int,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """The chosen weights where the quadratic model plus the penalty is smallest, and the move of
    the intercept."""
    mine, chunk, p = units.coordinates(chosen), view.chunk, point.p
    by_columns = mine.size > options.newton_threshold
    few = chunk if by_columns else _hessian_rows(problem, chunk, mine.size, options, number)
    # A sample may lack features that are rare: in sparse rows all of them are counted.
    counted = chunk if chunk.rows.is_sparse else few
    places, features, at = view.places(mine), mine, np.arange(mine.size)
    if units.members is not None:  # copies of a feature share its column
        places, first, at = np.unique(places, return_index=True, return_inverse=True)
        features = mine[first]
    model = model_of(problem, counted, p, features, gradient, places)
    w = point.w[mine]
    if by_columns:
        step = step_by_dense_columns if is_dense(chunk.rows) else step_by_columns
        target = step(problem, chunk, p, model, w, False)
    elif not units.grouped:
        target = step_by_matrix(problem, chunk, p, model, w, few.order)
    else:
        blocks = Blocks(chosen, units.starts(chosen), at)
        target = blocks_by_matrix(problem, chunk, p, model, blocks, w, few.order)
    moves = np.bincount(at, target - w, features.size)
    return target, model.bias(moves) if problem.fit_intercept else 0.0


def _drawn(chunk: Chunk, size: int, *counters: int) -> Chunk:
    """About so many random rows, none twice."""
    spots = np.unique(generator(*counters).integers(chunk.order.size, size=size))
    return chunk._replace(order=chunk.order[spots])


def _hessian_rows(
    problem: Problem, chunk: Chunk, size: int, options: Options, number: int
) -> Chunk:
    """Rows for a Hessian of this size: enough for a step that gains a digit or two, unless that
    takes longer than the gradient."""
    n = chunk.order.size
    enough = options.hessian_rows
    if enough == 0:
        most = max(_FEW * size, int(_BALANCE * n / max(size, 1)))
        enough = max(min(_MANY * size, most), 3000)
        enough = n if 2 * enough > n else enough
    if enough >= n:
        return chunk
    return _drawn(chunk, enough, problem.seed, 11, number)


def _searched(
    problem: Problem, view: View, point: Point, gradient: np.ndarray, end: np.ndarray, bias: float,
    shortest: float = 1e-12,
) -> Point | None:  # fmt: skip
    """As far towards ``end`` as the objective falls as promised; None where it never does."""
    away = end - point.w
    along = predicted(view, away, bias)
    before, after = evaluate(problem.penalty, point.w), evaluate(problem.penalty, end)
    promised = float(gradient[:-1] @ away + gradient[-1] * bias) + after - before
    t = 1.0
    while promised <= 0.0 and t > shortest:
        # Between the ends, whatever the rounding: a penalty may be infinite beyond them.
        w = end if t == 1.0 else np.clip(point.w + t * away, *np.sort([point.w, end], axis=0))
        loss = _mean_loss(problem, view.chunk, point.p, along, t)
        own = after if w is end else evaluate(problem.penalty, w)
        gain = loss - point.loss + own - before
        if gain <= 1e-3 * t * promised + 1e-14 * point.loss:
            return Point(w + 0.0, point.bias + t * bias, point.p + t * along, loss)
        t *= 0.5
    return None


def _prox_step(
    problem: Problem, view: View, inside: np.ndarray, units: Units, point: Point,
    gradient: np.ndarray,
) -> Point:  # fmt: skip
    """Proximal gradient: the longest step that the objective falls by, found by doubling mu."""
    marked = np.zeros(problem.n_features + 1, np.bool_)
    marked[units.coordinates(np.flatnonzero(inside))] = True
    marked[-1] = True
    held = np.where(marked, gradient, 0.0)
    force = float(np.linalg.norm(held))
    mu = max(force / max(float(np.linalg.norm(point.w)), 1.0), 1e-300)
    for _ in range(100):
        end = proximal_point(problem.penalty, point.w, held[:-1], 1.0 / mu)
        end = np.where(marked[:-1], end, point.w)
        found = _searched(problem, view, point, held, end, -held[-1] / mu)
        if found is not None:
            return found
        mu *= 4.0
    return point


# ---------------------------------------------------------------- the phase


def finish_on(
    problem: Problem, chunk: Chunk, units: Units, inside: np.ndarray, start: Start,
    options: Options, tol: float,
) -> Finished:  # fmt: skip
    """From ``start`` to delta <= tol over all features, on a manifold that grows where it must."""
    if start.origin is not None:
        start, inside = _on_some_rows(problem, chunk, units, inside, start, options, tol)
    whole, view, steps = View.whole(chunk, units.members), None, 0
    point, delta = Point.at(problem, whole, *start[:2]), math.inf
    least, since = math.inf, 0
    for look in range(_OUTER):
        before, gradient = delta, gradient_at(problem, whole, point.p)
        delta = _distance(problem, point, gradient)
        if delta <= tol:
            break
        since = 0 if delta < 0.9 * least else since + 1
        least = min(least, delta)
        if look == 0:  # the gradient of all rows knows better than any before it
            inside = _safe(problem, units, point.w, gradient, options)
        missed = tempted(problem.penalty, units, point.w, gradient[:-1]) & ~inside
        if missed.any():
            inside, view = inside | missed, None
        elif since > _PATIENCE:
            break  # as close as rounding allows
        columns = np.sort(units.coordinates(np.flatnonzero(inside)))
        pays = chunk.rows.stored > _SMALL and 2 * columns.size <= problem.n_features
        if look == 0 or delta <= _NEAR * tol or not pays:
            careful = _careful(options, chunk, delta, before)
            point = advance(problem, whole, units, inside, point, gradient, careful, steps)
            steps += 1
            continue
        view = view or copied_columns(whole, columns)
        known = np.zeros_like(gradient)
        known[columns], known[-1] = gradient[columns], gradient[-1]
        point, taken = _on_copy(
            problem, view, units, inside, point, known, options, steps, 0.5 * tol
        )
        steps += taken
    return Finished(point, delta, inside, steps)


def _safe(
    problem: Problem, units: Units, w: np.ndarray, gradient: np.ndarray, options: Options
) -> np.ndarray:
    """Units that are not zero, or that a gradient stronger by 1 / rho would move."""
    near = tempted(problem.penalty, units, w, gradient[:-1], options.rho)
    return units.with_any(w != 0.0) | near


def _distance(problem: Problem, point: Point, gradient: np.ndarray) -> float:
    return distance(problem.penalty, point.w, gradient[:-1], float(gradient[-1]))


def _careful(options: Options, chunk: Chunk, delta: float, before: float) -> Options:
    """All rows for the Hessian where a step on a sample has brought little."""
    return options if delta < 0.5 * before else options._replace(hessian_rows=chunk.order.size)


def _on_some_rows(
    problem: Problem, chunk: Chunk, units: Units, inside: np.ndarray, start: Start,
    options: Options, tol: float,
) -> tuple[Start, np.ndarray]:  # fmt: skip
    """Better weights and a better manifold by steps on a part of the rows, where they abound.

    Weights that are worse than none are dropped (dual averaging with too long steps leads where
    the loss has no curvature left), and so are those of many features from few rows.
    """
    size = chunk.order.size // _PART
    abound = size >= max(_LEAST, 4 * int(np.count_nonzero(inside)))
    if not abound and start.bias == start.origin and not np.any(start.w):
        return start, inside  # nothing to compare
    size = min(chunk.order.size, max(size, _LEAST))
    some = View.whole(_drawn(chunk, size, problem.seed, 13), units.members)
    point = Point.at(problem, some, *start[:2])
    none = Point.at(problem, some, np.zeros_like(point.w), start.origin or 0.0)
    noisy = chunk.order.size < _ROWS * np.count_nonzero(inside)
    if noisy or not point.loss + evaluate(problem.penalty, point.w) <= none.loss:
        point = none
    for number in range(_FIRST if abound else 0):
        gradient = gradient_at(problem, some, point.p)
        if _distance(problem, point, gradient) <= tol:
            break
        inside = inside | tempted(problem.penalty, units, point.w, gradient[:-1])
        point = advance(problem, some, units, inside, point, gradient, options, number)
    return Start(point.w, point.bias), inside


def _on_copy(
    problem: Problem, view: View, units: Units, inside: np.ndarray, point: Point,
    gradient: np.ndarray, options: Options, first: int, tol: float,
) -> tuple[Point, int]:  # fmt: skip
    """Steps on the manifold alone, until it has converged; and how many.  The first has the
    gradient at hand."""
    delta, looked = math.inf, None
    for taken in range(_INNER):
        before = delta
        if taken > 0:
            looked = looked_at(problem, units, inside, point.w, options, first + taken)
            gradient = gradient_at(problem, view, point.p, looked)
        delta = _distance(problem, point, gradient)
        if delta <= tol and looked is not None:  # a part of the gradient is no proof
            gradient = gradient_at(problem, view, point.p)
            delta = _distance(problem, point, gradient)
        if delta <= tol:
            return point, taken
        careful = _careful(options, view.chunk, delta, before)
        point = advance(problem, view, units, inside, point, gradient, careful, first + taken)
    return point, _INNER


def looked_at(
    problem: Problem, units: Units, inside: np.ndarray, w: np.ndarray, options: Options, number: int
) -> np.ndarray | None:
    """The coordinates whose gradient is taken: non-zero ones and a random part of the others.

    None: all of them.
    """
    if options.gradient_fraction >= 1.0:
        return None
    active = units.with_any(w != 0.0)
    others = np.flatnonzero(inside & ~active)
    wanted = math.ceil(options.gradient_fraction * int(np.count_nonzero(inside)))
    size = min(max(wanted - int(np.count_nonzero(active)), 1), others.size)
    drawn = generator(problem.seed, 12, number).choice(others, size, replace=False)
    return np.sort(units.coordinates(np.concatenate([np.flatnonzero(active), drawn])))
