r"""Newton's method on a smooth loss with a quadratic penalty: few, exact, expensive steps.

.. math:: f(w, b) = \tfrac12 \sum_j \lambda_j w_j^2 + \operatorname{mean}_i\,
          \ell(y_i, w\cdot x_i + b), \qquad
          (w, b) \leftarrow (w, b) - \tau H^{-1}\nabla f

H is formed and factored for up to ``direct_features`` features, O(non-zeros^2) per row and O(d^3);
beyond, conjugate gradients on Hessian-vector products solve for the direction inexactly (Keerthi
and DeCoste, 2005; LIBLINEAR's trust-region Newton is the nearest relative).  Where rows abound the
first steps use a sample of them.  The default for small data, and for the optimum of the logistic
and squared hinge losses where rows outnumber features.

Residual: half the squared Newton decrement over f, which estimates (f - f*) / f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from thresher._random import generator
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["Newton"]


class NewtonState(NamedTuple):
    w: np.ndarray  # the weights, then the intercept
    p: np.ndarray  # predictions of all rows
    step: int
    decrement: float  # relative; infinite before the first step


@njit(cache=True, nogil=True)
def _predict(rows, order, w, bias, p):
    for r in range(order.size):
        i = order[r]
        p[i] = rows.dot(i, w) + bias


@njit(cache=True, nogil=True)
def _derivatives(rows, y, weight, order, loss, p, gradient, hessian):
    """Sums over the rows of loss, gradient and (where ``hessian`` is not empty) Hessian.

    The last place of ``gradient`` and ``hessian`` is the intercept's.
    """
    d = gradient.size - 1
    with_hessian = hessian.size > 0
    g = gradient[:d]
    column = np.zeros(d)
    value, slopes, curvatures = 0.0, 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        value += weight[i] * loss.value(y[i], p[i])
        slope = weight[i] * loss.deriv(y[i], p[i])
        if slope != 0.0:
            slopes += slope
            rows.add(i, slope, g)
        if with_hessian:
            h = weight[i] * loss.curvature(y[i], p[i])
            if h != 0.0:
                curvatures += h
                rows.add(i, h, column)
                _rank_one(rows, i, h, hessian)
    gradient[d] = slopes
    if with_hessian:
        hessian[d, d] = curvatures
        for j in range(d):
            hessian[d, j] = column[j]
            hessian[j, d] = column[j]
    return value


@njit(cache=True, nogil=True)
def _rank_one(rows, i, h, hessian):
    """hessian += h x_i x_i', its lower triangle (all of it when a row's columns are unsorted)."""
    start = rows.start(i)
    for k in range(start, rows.stop(i)):
        a = h * rows.element(i, k)
        if a != 0.0:
            line = hessian[rows.column(i, k)]
            for m in range(start, k + 1):
                line[rows.column(i, m)] += a * rows.element(i, m)


@njit(cache=True, nogil=True)
def _hessian_product(rows, y, weight, order, loss, p, v, product):
    d = v.size - 1
    inner, head, total = v[:d], product[:d], 0.0
    for j in range(product.size):
        product[j] = 0.0
    for r in range(order.size):
        i = order[r]
        h = weight[i] * loss.curvature(y[i], p[i])
        if h != 0.0:
            a = h * (rows.dot(i, inner) + v[d])
            rows.add(i, a, head)
            total += a
    product[d] = total


@njit(cache=True, nogil=True)
def _shifted_loss(y, weight, order, loss, p, direction, t):
    value = 0.0
    for r in range(order.size):
        i = order[r]
        value += weight[i] * loss.value(y[i], p[i] + t * direction[i])
    return value


@dataclass(frozen=True)
class Newton(Solver):
    """Damped Newton with an unpenalised intercept.

    Parameters
    ----------
    direct_features : most features for which the Hessian is formed; above, conjugate gradients
    """

    direct_features: int = 600
    loss_needs = frozenset({"curvature"})
    penalty_needs = frozenset({"quadratic"})
    streaming = False
    default_passes = 100

    def init(self, problem: Problem, chunk: Chunk | None = None) -> NewtonState:
        assert chunk is not None
        n, d = chunk.order.size, problem.n_features
        w = np.zeros(d + 1)
        if n > 10_000 and n > 50 * d:  # a tenth of the rows leads nearly all the way
            sample = generator(problem.seed, 5).choice(chunk.order, n // 10, replace=False)
            part = chunk._replace(order=np.sort(sample))
            state = self.init(problem, part)
            for _ in range(20):
                state = self.update(problem, state, part)
                if state.decrement < 1e-4:
                    break
            w = state.w
        p = np.zeros(chunk.size)
        if np.any(w):
            _predict(chunk.rows, chunk.order, w[:d], w[d], p)
        return NewtonState(w, p, 0, math.inf)

    def update(self, problem: Problem, s: NewtonState, chunk: Chunk) -> NewtonState:
        rows, y, weight, order = chunk
        d, n = problem.n_features, float(np.sum(weight[order]))
        precision = _precisions(problem)
        direct = d <= self.direct_features
        gradient = np.zeros(d + 1)
        hessian = np.zeros((d + 1, d + 1)) if direct else np.zeros((0, 0))
        value = _derivatives(rows, y, weight, order, problem.loss, s.p, gradient, hessian) / n
        value += 0.5 * float(np.sum(precision * s.w[:d] ** 2))
        gradient = gradient / n
        gradient[:d] += precision * s.w[:d]
        if not problem.fit_intercept:
            gradient[d] = 0.0
        if direct:
            direction = _solve(problem, hessian / n, precision, gradient)
        else:
            direction = _conjugate_gradients(problem, chunk, s.p, precision, gradient, n)
        slope = float(gradient @ direction)
        decrement = -0.5 * slope / max(value, 1e-300)
        along = np.zeros_like(s.p)
        _predict(rows, order, direction[:d], direction[d], along)
        t = _line_search(problem, chunk, s, along, direction, precision, value, slope, n)
        return NewtonState(s.w + t * direction, s.p + t * along, s.step + 1, decrement)

    def finish(self, problem: Problem, state: NewtonState) -> tuple[np.ndarray, float]:
        return state.w[:-1].astype(problem.dtype), float(state.w[-1])

    def residual(
        self, problem: Problem, state: NewtonState, before: np.ndarray, after: np.ndarray
    ) -> float:
        return state.decrement


def _precisions(problem: Problem) -> np.ndarray:
    penalty: Any = problem.penalty
    weights = getattr(penalty, "weights", np.ones(problem.n_features))
    return np.asarray(penalty.strength * weights)


def _solve(
    problem: Problem, hessian: np.ndarray, precision: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    d = precision.size
    # Each pair of features was added once, below or above the diagonal: fold, then mirror.
    full = hessian + hessian.T
    full[np.arange(d + 1), np.arange(d + 1)] = np.diag(hessian)
    full[d, :d] = full[:d, d] = hessian[d, :d]
    full[np.arange(d), np.arange(d)] += precision
    size = d + 1 if problem.fit_intercept else d
    # Directions the data and the penalty leave free (constant columns, no penalty) get a trace of
    # curvature, so that the factorisation exists and the step along them is zero.
    full[np.arange(size), np.arange(size)] += 1e-12 * max(float(np.trace(full)) / size, 1e-300)
    direction = np.zeros(d + 1)
    try:
        factor = cho_factor(full[:size, :size], lower=True, overwrite_a=True)
        direction[:size] = -cho_solve(factor, gradient[:size])
    except LinAlgError:
        direction[:size] = -lstsq(full[:size, :size], gradient[:size])[0]
    return direction


def _conjugate_gradients(
    problem: Problem,
    chunk: Chunk,
    p: np.ndarray,
    precision: np.ndarray,
    gradient: np.ndarray,
    n: float,
) -> np.ndarray:
    """Solve H direction = -gradient to a tenth of the gradient's norm."""
    d = precision.size
    direction, residual = np.zeros_like(gradient), -gradient
    search, product = residual.copy(), np.empty_like(gradient)
    square = float(residual @ residual)
    enough = 0.01 * square
    for _ in range(250):
        if square <= enough or square == 0.0:
            break
        _hessian_product(*chunk, problem.loss, p, search, product)
        curved = product / n
        curved[:d] += precision * search[:d]
        if not problem.fit_intercept:
            curved[d] = 0.0
        length = square / max(float(search @ curved), 1e-300)
        direction += length * search
        residual -= length * curved
        new = float(residual @ residual)
        search = residual + (new / square) * search
        square = new
    return direction


def _line_search(
    problem: Problem, chunk: Chunk, s: NewtonState, along: np.ndarray, direction: np.ndarray,
    precision: np.ndarray, value: float, slope: float, n: float,
) -> float:  # fmt: skip
    """Halve the step until it keeps a thousandth of the predicted decrease."""
    d = precision.size
    t = 1.0
    while t > 1e-10:
        w = s.w[:d] + t * direction[:d]
        new = _shifted_loss(chunk.y, chunk.weight, chunk.order, problem.loss, s.p, along, t) / n
        new += 0.5 * float(np.sum(precision * w * w))
        if new <= value + 1e-3 * t * slope + 1e-14 * abs(value):
            return t
        t *= 0.5
    return 0.0
