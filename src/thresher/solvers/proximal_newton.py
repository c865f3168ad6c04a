r"""Proximal Newton on a growing working set: the exact sparse model of a smooth loss.

.. math:: \min_{w,b}\ \operatorname{mean}_i\,\ell(y_i, w\cdot x_i + b) + \psi(w)

with any separable penalty psi that has a proximal map.  Each iteration

1. takes the full gradient g, one pass over the rows;
2. puts into the working set A the non-zero weights and the coordinates that a proximal gradient
   step would move most (at most as many new ones as A had, so that A grows with the model);
3. forms the Hessian on A only, its correlations from a sample of the rows where they abound;
4. minimises the quadratic model plus psi over A by coordinate descent, and searches the line.

It is the local phase of RDA+ (S. Lee's thesis, chapter 2), where Newton steps are taken on the
identified manifold, with the pattern found by working sets as in skglm (Bertrand et al., 2022).
Rows are enough: no column-wise copy of the data is made.

Residual: the predicted relative decrease, infinite while coordinates outside A still want to move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator
from thresher.functions import LinearFunction
from thresher.solvers.base import Chunk, Near, Problem, Solver
from thresher.solvers.driver import penalty_value
from thresher.solvers.newton import derivatives, predict, shifted_loss

__all__ = ["ProximalNewton"]

_DENSE = 0.25  # share of stored elements from which on rows are taken as dense
_BLOCK = 4096  # dense rows whose outer products are summed by one matrix product


class ProximalNewtonState(NamedTuple):
    w: np.ndarray
    bias: float
    p: np.ndarray  # predictions of all rows
    step: int
    residual_: float


@njit(cache=True, nogil=True)
def _moves(w, gradient, scale, penalty, out):
    """How far a proximal gradient step of length ``scale`` would move each coordinate."""
    for j in range(w.size):
        out[j] = abs(penalty.prox(w[j] - scale * gradient[j], scale, j) - w[j])


@njit(cache=True, nogil=True)
def _add_sparse_rows(rows, y, weight, order, loss, p, place, hessian):
    """hessian += curvature x x' over the coordinates with place[j] >= 0; the intercept is last.

    Each pair is added once, on either side of the diagonal.
    """
    last = hessian.shape[0] - 1
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
            line = hessian[spots[a]]
            for b in range(a + 1):
                line[spots[b]] += scaled * values[b]
            hessian[last, spots[a]] += scaled
        hessian[last, last] += h


@njit(cache=True, nogil=True)
def _weighted_block(rows, y, weight, order, loss, p, place, block):
    """The rows' chosen columns and a one, each row times the root of its curvature."""
    last = block.shape[1] - 1
    for r in range(order.size):
        i = order[r]
        root = math.sqrt(weight[i] * loss.curvature(y[i], p[i]))
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                block[r, spot] = root * rows.element(i, k)
        block[r, last] = root


@njit(cache=True, nogil=True)
def _diagonal(rows, y, weight, order, loss, p, place, diagonal):
    """The diagonal of the restricted Hessian."""
    for r in range(order.size):
        i = order[r]
        h = weight[i] * loss.curvature(y[i], p[i])
        if h == 0.0:
            continue
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                x = rows.element(i, k)
                diagonal[spot] += h * x * x
        diagonal[-1] += h


@njit(cache=True, nogil=True)
def _minimise_model(hessian, gradient, w, coordinates, penalty, fit_bias, delta):
    """Coordinate descent on g.delta + delta' H delta / 2 + penalty(w + delta)."""
    size = coordinates.size
    product = np.zeros(size + 1)
    for _ in range(200):
        largest, scale = 0.0, 0.0
        for a in range(size + 1 if fit_bias else size):
            curvature = hessian[a, a]
            if curvature <= 0.0:
                continue
            slope = gradient[a] + product[a]
            if a == size:
                new = delta[a] - slope / curvature
            else:
                j = coordinates[a]
                u = w[a] + delta[a] - slope / curvature
                new = penalty.prox(u, 1.0 / curvature, j) - w[a]
            change = new - delta[a]
            if change != 0.0:
                delta[a] = new
                line = hessian[a]
                for b in range(size + 1):
                    product[b] += change * line[b]
                largest = max(largest, change * change * curvature)
            scale = max(scale, delta[a] * delta[a] * curvature)
        if largest <= 1e-4 * scale:
            break


@njit(cache=True, nogil=True)
def _penalty_change(penalty, coordinates, w, delta, t):
    total = 0.0
    for a in range(coordinates.size):
        j = coordinates[a]
        total += penalty.value(w[a] + t * delta[a], j) - penalty.value(w[a], j)
    return total


@dataclass(frozen=True)
class ProximalNewton(Solver):
    """Proximal Newton on working sets: the default for sparse penalties and smooth losses.

    Parameters
    ----------
    first : int, default=32
        Size of the first working set.
    largest : int, default=2000
        Most coordinates in one working set; its Hessian takes largest^2 numbers.
    hessian_rows : int, default=3000
        Rows to estimate the Hessian from (at least 50 per coordinate are taken).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", penalty="l1", solver="proximal_newton", alpha=0.05)
    >>> model.fit(X, y).status_.name, model.density_ < 0.5
    ('CONVERGED', True)
    """

    first: int = 32
    largest: int = 2000
    hessian_rows: int = 3000
    loss_needs = frozenset({"curvature"})
    penalty_needs = frozenset({"prox"})
    default_penalty = "l1"
    streaming = False
    default_passes = 200

    def check(self, problem: Problem) -> None:
        if self.first < 1 or self.largest < self.first:
            raise ValueError("ProximalNewton: needs 1 <= first <= largest")

    def init(self, problem: Problem, chunk: Chunk | None = None) -> ProximalNewtonState:
        assert chunk is not None
        return ProximalNewtonState(
            np.zeros(problem.n_features), 0.0, np.zeros(chunk.size), 0, math.inf
        )

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> ProximalNewtonState:
        w, p = near.coef.astype(np.float64), np.zeros(chunk.size)
        predict(chunk.rows, chunk.order, w, near.intercept, p)
        return ProximalNewtonState(w, near.intercept, p, 0, math.inf)

    def update(self, problem: Problem, s: ProximalNewtonState, chunk: Chunk) -> ProximalNewtonState:
        rows, y, weight, order = chunk
        d, n = problem.n_features, float(np.sum(weight[order]))
        gradient = np.zeros(d + 1)
        no_hessian = np.zeros((0, 0))
        value = derivatives(*chunk, problem.loss, s.p, gradient, no_hessian, False) / n
        gradient /= n
        value += penalty_value(problem, s.w)
        chosen, complete = self._working_set(problem, s.w, gradient)
        delta = self._model_step(problem, s, chunk, chosen, gradient)
        direction = np.zeros(d)
        direction[chosen] = delta[:-1]
        along = np.zeros_like(s.p)
        predict(rows, order, direction, delta[-1], along)
        at = (problem.penalty, chosen, s.w[chosen], delta)
        slope = float(gradient[chosen] @ delta[:-1] + gradient[d] * delta[-1])
        predicted = -(slope + _penalty_change(*at, 1.0))
        base = shifted_loss(y, weight, order, problem.loss, s.p, along, 0.0) / n
        t = 1.0
        while t > 1e-25:
            new = shifted_loss(y, weight, order, problem.loss, s.p, along, t) / n
            if new - base + _penalty_change(*at, t) <= -1e-3 * t * predicted + 1e-14 * value:
                break
            t *= 0.5
        else:
            t = 0.0
        w = s.w.copy()
        # A full step lands where the proximal map put it: exact zeros stay exact.
        w[chosen] = s.w[chosen] + t * delta[:-1]
        residual = predicted / max(value, 1e-300) if complete else math.inf
        return ProximalNewtonState(
            w, s.bias + t * float(delta[-1]), s.p + t * along, s.step + 1, residual
        )

    def _working_set(
        self, problem: Problem, w: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, bool]:
        """Non-zero weights and the likeliest newcomers; whether nobody else wants to move."""
        moves = np.empty(w.size)
        _moves(w, gradient[:-1], 1.0, problem.penalty, moves)
        kept = np.flatnonzero(w)[: self.largest]
        moves[kept] = 0.0
        wanted = np.flatnonzero(moves > 1e-9 * max(float(np.max(np.abs(gradient))), 1e-300))
        room = min(max(self.first, 2 * kept.size), self.largest - kept.size)
        newcomers = wanted
        if wanted.size > room:
            newcomers = (
                wanted[np.argpartition(moves[wanted], -room)[-room:]] if room else wanted[:0]
            )
        return np.sort(np.concatenate([kept, newcomers])), newcomers.size == wanted.size

    def _model_step(
        self, problem: Problem, s: ProximalNewtonState, chunk: Chunk, chosen: np.ndarray,
        gradient: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        place = np.full(problem.n_features, -1, np.int64)
        place[chosen] = np.arange(chosen.size)
        order = self._hessian_rows(problem, s, chunk, chosen.size)
        hessian = _restricted_hessian(problem, chunk._replace(order=order), s.p, place)
        if order.size < chunk.order.size:
            _mend(hessian, problem, chunk, s.p, place, order)
        hessian /= float(np.sum(chunk.weight[order]))
        trace = float(np.trace(hessian)) / hessian.shape[0]
        hessian[np.diag_indices_from(hessian)] += 1e-10 * max(trace, 1e-300)
        delta = np.zeros(chosen.size + 1)
        _minimise_model(
            hessian, gradient[np.append(chosen, problem.n_features)], s.w[chosen], chosen,
            problem.penalty, problem.fit_intercept, delta,
        )  # fmt: skip
        return delta

    def _hessian_rows(
        self, problem: Problem, s: ProximalNewtonState, chunk: Chunk, size: int
    ) -> np.ndarray:
        """A random part of the rows, large enough for a Hessian of this size."""
        enough = max(self.hessian_rows, 50 * size)
        if chunk.order.size <= 4 * enough:
            return chunk.order
        return np.sort(generator(problem.seed, 6, s.step).choice(chunk.order, enough))

    def finish(self, problem: Problem, state: ProximalNewtonState) -> LinearFunction:
        return LinearFunction(state.w.astype(problem.dtype), state.bias)

    def residual(
        self, problem: Problem, state: ProximalNewtonState, before: Any, after: Any
    ) -> float:
        return state.residual_


def _restricted_hessian(
    problem: Problem, chunk: Chunk, p: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """Sum of curvature x x' over the coordinates with place[j] >= 0; the intercept's comes last.

    In single precision: it bends the step only, the gradient says where to.
    """
    rows, y, weight, order = chunk
    size = int(np.max(place)) + 2
    hessian = np.zeros((size, size), np.float32)
    if rows.stored < _DENSE * rows.shape[0] * rows.shape[1]:
        _add_sparse_rows(*chunk, problem.loss, p, place, hessian)
        hessian += hessian.T
        hessian[np.diag_indices_from(hessian)] *= 0.5
        return hessian
    for first in range(0, order.size, _BLOCK):
        part = order[first : first + _BLOCK]
        block = np.zeros((part.size, size), np.float32)
        _weighted_block(rows, y, weight, part, problem.loss, p, place, block)
        hessian += block.T @ block
    return hessian


def _mend(
    hessian: np.ndarray, problem: Problem, chunk: Chunk, p: np.ndarray, place: np.ndarray,
    sample: np.ndarray,
) -> None:  # fmt: skip
    """Add what the sample's diagonal lacks of that of all rows, and a ridge for its errors.

    Where a feature is too rare for the sample, or a sum of features constant in it, there would
    seem to be no curvature, and the step would have no end.
    """
    exact = np.zeros(hessian.shape[0])
    _diagonal(*chunk, problem.loss, p, place, exact)
    exact *= np.sum(chunk.weight[sample]) / np.sum(chunk.weight[chunk.order])
    missing = np.maximum(exact - np.diag(hessian), 0.0)
    doubt = 0.1 * hessian.shape[0] / sample.size
    hessian[np.diag_indices_from(hessian)] += missing + doubt * exact
