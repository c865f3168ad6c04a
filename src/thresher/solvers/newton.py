r"""Newton's method on a smooth loss with a quadratic penalty: few, exact, expensive steps.

.. math:: f(w, b) = \tfrac12 \sum_j \lambda_j w_j^2 + \operatorname{mean}_i\,
          \ell(y_i, w\cdot x_i + b), \qquad
          (w, b) \leftarrow (w, b) - \tau H^{-1}\nabla f

H is formed and factored for up to ``direct_features`` features, O(non-zeros^2) per row and O(d^3);
beyond, conjugate gradients on Hessian-vector products solve for the direction inexactly (Keerthi
and DeCoste, 2005; LIBLINEAR's trust-region Newton is the nearest relative).  Where rows abound the
first steps use a sample of them.  The default for small data, and for the optimum of the logistic
and squared hinge losses where rows outnumber features.

Residual: an estimate of (f - f*) / f, namely half the squared Newton decrement over f, and after a
full step the part of it that the quadratic model did not foretell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator
from thresher._rows import AHEAD
from thresher.functions import LinearFunction
from thresher.solvers._system import factored, whole_hessian
from thresher.solvers.base import Chunk, Near, Problem, Solver, precisions

__all__ = ["Newton"]


class NewtonState(NamedTuple):
    w: np.ndarray  # the weights, then the intercept
    p: np.ndarray  # predictions of all rows
    step: int
    decrement: float  # estimate of (f - f*) / f; infinite before the first step
    floor: float  # f counts as at least this: rounding makes nothing smaller


@njit(cache=True, nogil=True)
def predict(rows, order, w, bias, p):
    for r in range(order.size):
        i = order[r]
        p[i] = rows.dot(i, w) + bias


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def predict_some(rows, order, columns, w, bias, p):
    """The same of dense rows for weights at some columns: the others are not looked at."""
    for r in range(order.size):
        i = order[r]
        rows.fetch_some(order[min(r + AHEAD, order.size - 1)], columns)
        total = bias
        for a in range(columns.size):
            total += rows.element(i, columns[a]) * w[a]
        p[i] = total


def predicted_move(
    chunk: Chunk, features: np.ndarray, delta: np.ndarray, shift: float
) -> np.ndarray:
    """How the predictions move with the weights of these features and the intercept."""
    out, moved = np.zeros(chunk.size), np.flatnonzero(delta)
    d = chunk.rows.shape[1]
    if chunk.rows.is_sparse or 4 * moved.size > d:
        direction = np.zeros(d)
        direction[features] = delta
        predict(chunk.rows, chunk.order, direction, shift, out)
    else:
        predict_some(chunk.rows, chunk.order, features[moved], delta[moved], shift, out)
    return out


_FAR = 10.0  # squared length of the mean, in units of the variance, from which rows are centred
ROUNDING = 1e-16  # of the loss at zero: an exact fit gets no closer
_BLOCK = 8  # rows whose outer products enter the Hessian together, to spare its loads and stores


@njit(cache=True, nogil=True)
def derivatives(rows, y, weight, order, loss, p, gradient, hessian, blocked):
    """Sums over the rows of loss, gradient and (where ``hessian`` is not empty) Hessian.

    The last place of ``gradient`` and ``hessian`` is the intercept's.
    """
    d = gradient.size - 1
    with_hessian = hessian.size > 0
    g = gradient[:d]
    column = np.zeros(d)
    block = np.zeros((_BLOCK, d))
    filled = 0
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
                if blocked:
                    rows.add(i, math.sqrt(h), block[filled])
                    filled += 1
                    if filled == _BLOCK:
                        _add_block(block, hessian)
                        filled = 0
                else:
                    _add_outer(rows, i, h, hessian)
    if filled > 0:
        _add_block(block, hessian)
    gradient[d] = slopes
    if with_hessian:
        hessian[d, d] = curvatures
        for j in range(d):
            hessian[d, j] = column[j]
            hessian[j, d] = column[j]
    return value


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def _add_block(block, hessian):
    """Lower triangle of hessian += block' block, and the block back to zero."""
    b0, b1, b2, b3 = block[0], block[1], block[2], block[3]
    b4, b5, b6, b7 = block[4], block[5], block[6], block[7]
    for j in range(b0.size):
        line = hessian[j]
        a0, a1, a2, a3 = b0[j], b1[j], b2[j], b3[j]
        a4, a5, a6, a7 = b4[j], b5[j], b6[j], b7[j]
        for m in range(j + 1):
            line[m] += (
                a0 * b0[m] + a1 * b1[m] + a2 * b2[m] + a3 * b3[m]
                + a4 * b4[m] + a5 * b5[m] + a6 * b6[m] + a7 * b7[m]
            )  # fmt: skip
    block[:] = 0.0


@njit(cache=True, nogil=True)
def _add_outer(rows, i, h, hessian):
    """hessian += h x_i x_i', each pair of stored elements once."""
    start = rows.start(i)
    for k in range(start, rows.stop(i)):
        a = h * rows.element(i, k)
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
def _curved_sums(rows, y, weight, order, loss, p, sums):
    """Sums of curvature, curvature x and curvature |x|^2."""
    total, squares = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        h = weight[i] * loss.curvature(y[i], p[i])
        if h != 0.0:
            total += h
            squares += h * rows.sqnorm(i)
            rows.add(i, h, sums)
    return total, squares


@njit(cache=True, nogil=True)
def shifted_loss(y, weight, order, loss, p, direction, t):
    value = 0.0
    for r in range(order.size):
        i = order[r]
        value += weight[i] * loss.value(y[i], p[i] + t * direction[i])
    return value


def floor_of(problem: Problem, chunk: Chunk) -> float:
    """The least that an objective counts as: of an exact fit rounding alone would be left."""
    _, y, weight, order = chunk
    p = np.zeros(chunk.size)
    start = shifted_loss(y, weight, order, problem.loss, p, p, 0.0) / np.sum(weight[order])
    return max(ROUNDING * float(start), 1e-300)


@dataclass(frozen=True)
class Newton(Solver):
    """Damped Newton with an unpenalised intercept: the default for small data.

    Parameters
    ----------
    direct_features : int, default=600
        Most features for which the Hessian is formed; above, conjugate gradients.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="newton").fit(X, y)
    >>> model.status_.name, model.n_iter_ < 20
    ('CONVERGED', True)
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
        return self._at(w, problem, chunk)

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> NewtonState:
        w = np.append(near.coef, near.intercept).astype(np.float64)
        return self._at(w, problem, chunk)

    def _at(self, w: np.ndarray, problem: Problem, chunk: Chunk) -> NewtonState:
        p = np.zeros(chunk.size)
        floor = floor_of(problem, chunk)
        if np.any(w):
            predict(chunk.rows, chunk.order, w[:-1], w[-1], p)
        return NewtonState(w, p, 0, math.inf, floor)

    def update(self, problem: Problem, s: NewtonState, chunk: Chunk) -> NewtonState:
        rows, y, weight, order = chunk
        d, n = problem.n_features, float(np.sum(weight[order]))
        precision = precisions(problem)
        direct = d <= self.direct_features
        gradient = np.zeros(d + 1)
        hessian = np.zeros((d + 1, d + 1)) if direct else np.zeros((0, 0))
        blocked = rows.stored > 0.25 * rows.shape[0] * d
        value = derivatives(rows, y, weight, order, problem.loss, s.p, gradient, hessian, blocked)
        value /= n
        value += 0.5 * float(np.sum(precision * s.w[:d] ** 2))
        gradient = gradient / n
        gradient[:d] += precision * s.w[:d]
        if not problem.fit_intercept:
            gradient[d] = 0.0
        if direct:
            direction = newton_direction(problem, hessian / n, precision, gradient)
        else:
            direction = _conjugate_gradients(problem, chunk, s.p, precision, gradient, n)
        slope = float(gradient @ direction)
        size = max(value, s.floor)
        decrement = -0.5 * slope / size
        along = np.zeros_like(s.p)
        predict(rows, order, direction[:d], direction[d], along)
        t, new = _line_search(problem, chunk, s, along, direction, precision, value, slope, n)
        if t == 1.0:
            # Where the quadratic model foretold the decrease, little is left after the step.
            surprise = abs((value - new) / size - decrement)
            decrement = min(decrement, 10.0 * surprise + 1e-3 * decrement)
        w, p = s.w + t * direction, s.p + t * along
        return NewtonState(w, p, s.step + 1, decrement, s.floor)

    def finish(self, problem: Problem, state: NewtonState) -> LinearFunction:
        return LinearFunction(state.w[:-1].astype(problem.dtype), float(state.w[-1]))

    def residual(self, problem: Problem, state: NewtonState, before: Any, after: Any) -> float:
        return state.decrement


def newton_direction(
    problem: Problem, hessian: np.ndarray, precision: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """Minus the inverse Hessian times the gradient; the Hessian as :func:`derivatives` adds it up,
    without the penalty."""
    d = precision.size
    system = factored(whole_hessian(hessian), precision, problem.fit_intercept)
    direction = np.zeros(d + 1)
    direction[: system.size] = -system.solve(gradient[: system.size])
    return direction


def _conjugate_gradients(
    problem: Problem,
    chunk: Chunk,
    p: np.ndarray,
    precision: np.ndarray,
    gradient: np.ndarray,
    n: float,
) -> np.ndarray:
    """Solve H direction = -gradient to a tenth of the gradient's norm.

    Where features are far from zero, for the rows less their mean m: with the change of variables
    T (w, b) = (w, b - m.w) the matrix is T'HT and the gradient T'g.
    """
    d = precision.size
    mean = _far_mean(problem, chunk, p)
    direction, residual = np.zeros_like(gradient), -_about(mean, gradient)
    search, product = residual.copy(), np.empty_like(gradient)
    square = float(residual @ residual)
    enough = 0.01 * square
    for _ in range(250):
        if square <= enough or square == 0.0:
            break
        _hessian_product(*chunk, problem.loss, p, _back(mean, search), product)
        curved = _about(mean, product) / n
        curved[:d] += precision * search[:d]
        if not problem.fit_intercept:
            curved[d] = 0.0
        length = square / max(float(search @ curved), 1e-300)
        direction += length * search
        residual -= length * curved
        new = float(residual @ residual)
        search = residual + (new / square) * search
        square = new
    return _back(mean, direction)


def _far_mean(problem: Problem, chunk: Chunk, p: np.ndarray) -> np.ndarray | None:
    """The rows' mean in the metric of the Hessian; None if it is small beside their spread."""
    if not problem.fit_intercept:
        return None
    sums = np.zeros(problem.n_features)
    mass, squares = _curved_sums(*chunk, problem.loss, p, sums)
    mean = sums / max(mass, 1e-300)
    length = float(mean @ mean)
    return mean if length > _FAR * max(squares / max(mass, 1e-300) - length, 0.0) else None


def _about(mean: np.ndarray | None, gradient: np.ndarray) -> np.ndarray:
    """T'g."""
    if mean is None:
        return gradient
    return np.append(gradient[:-1] - gradient[-1] * mean, gradient[-1])


def _back(mean: np.ndarray | None, v: np.ndarray) -> np.ndarray:
    """T v."""
    return v if mean is None else np.append(v[:-1], v[-1] - mean @ v[:-1])


def _line_search(
    problem: Problem, chunk: Chunk, s: NewtonState, along: np.ndarray, direction: np.ndarray,
    precision: np.ndarray, value: float, slope: float, n: float,
) -> tuple[float, float]:  # fmt: skip
    """Halve the step until it keeps a thousandth of the predicted decrease; step and new value."""
    d = precision.size
    t = 1.0
    while t > 1e-25:  # without curvature anywhere the step starts absurdly long
        w = s.w[:d] + t * direction[:d]
        new = shifted_loss(chunk.y, chunk.weight, chunk.order, problem.loss, s.p, along, t) / n
        new += 0.5 * float(np.sum(precision * w * w))
        if new <= value + 1e-3 * t * slope + 1e-14 * abs(value):
            return t, new
        t *= 0.5
    return 0.0, value
