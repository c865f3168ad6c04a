r"""Quasi-Newton in the metric of the Gram matrix, all classes in step: exact and quick by BLAS.

.. math:: f_c(w, b) = \tfrac12\sum_j\lambda_j w_j^2 + \operatorname{mean}_i\,
          \ell(y_{ic}, w\cdot x_i + b), \qquad
          B = L\,\tilde X'\tilde X / n + \Lambda \succeq \nabla^2 f_c

where L bounds the curvature of the loss and :math:`\tilde x = (x, 1)`.  The classes differ in their
targets, not in their rows: one Cholesky factor of B serves all of them as the start of limited-
memory BFGS (Nocedal, 1980), and each pass over the rows is two matrix products for all of them.  B
takes away what makes the features of kernel maps hard, their eigenvalues over many orders of
magnitude; the pairs of BFGS learn in which directions a class is flatter than the bound.

Cost: O(n d^2) once and O(n d classes) per pass, all of it in BLAS, and O(d^3) for the factor.

Residual: half the predicted decrease, relative to f, of all classes together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import Dense, Rows
from thresher.functions import LinearFunction
from thresher.solvers._system import Factored, factored, mirrored
from thresher.solvers.base import Chunk, Problem, Solver, precisions
from thresher.solvers.least_squares import DirectLeastSquares, refuse_large_matrix
from thresher.solvers.newton import ROUNDING

__all__ = ["QuasiNewton"]

_BLOCK = 1 << 22  # elements of the rows that are multiplied together


class QuasiNewtonState(NamedTuple):
    """Columns are outputs; the intercept is the last row of the weights."""

    w: np.ndarray
    p: np.ndarray  # predictions
    gradient: np.ndarray
    value: np.ndarray  # of f, one for each output
    factor: Factored  # of B
    moves: list[np.ndarray]  # of the last steps, the newest last
    bends: list[np.ndarray]  # the changes of the gradient along them
    step: int
    residual_: float
    floor: float  # the objective counts as at least this


class Examples(NamedTuple):
    """The rows to learn from, in the order of the data."""

    rows: Rows
    order: np.ndarray
    y: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, chunk: Chunk) -> Examples:
        order = np.sort(chunk.order[chunk.weight[chunk.order] > 0.0])
        return cls(chunk.rows, order, chunk.y[order], chunk.weight[order])

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Matrices of some thousand rows, and which they are; views where that is possible."""
        d = self.rows.shape[1]
        size = max(_BLOCK // max(d, 1), 64)
        for first in range(0, self.order.size, size):
            part = slice(first, min(first + size, self.order.size))
            if isinstance(self.rows, Dense) and self.order.size == self.rows.shape[0]:
                yield part, self.rows.X[part]
            else:
                block = np.zeros((part.stop - first, d), dtype=self.rows.dtype)
                _copy_rows(self.rows, self.order[part], block)
                yield part, block


@njit(cache=True, nogil=True)
def _copy_rows(rows, order, block):
    for r in range(order.size):
        rows.add(order[r], 1.0, block[r])


@njit(cache=True, nogil=True)
def _target(y, i, c, outputs):
    return y[i] if outputs == 1 else (1.0 if y[i] == c else -1.0)


@njit(cache=True, nogil=True)
def _slopes(y, mass, loss, p, slopes):
    for i in range(y.size):
        for c in range(p.shape[1]):
            slopes[i, c] = mass[i] * loss.deriv(_target(y, i, c, p.shape[1]), p[i, c])


@njit(cache=True, nogil=True)
def _losses(y, mass, loss, p, along, t, losses):
    """Sums over the rows at p + t along, with a step t for each output."""
    losses[:] = 0.0
    for i in range(y.size):
        for c in range(p.shape[1]):
            target = _target(y, i, c, p.shape[1])
            losses[c] += mass[i] * loss.value(target, p[i, c] + t[c] * along[i, c])


@dataclass(frozen=True)
class QuasiNewton(Solver):
    """BFGS preconditioned by the Gram matrix: the optimum of a smooth loss, for several classes.

    Parameters
    ----------
    memory : int, default=10
        Steps that BFGS remembers.
    max_features : int, default=10000
        Refuse more features than this, since the matrix has their square.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from thresher import LinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier("logistic", solver="quasi_newton").fit(X, y)
    >>> model.status_.name, bool(model.score(X, y) > 0.9)
    ('CONVERGED', True)
    """

    memory: int = 10
    max_features: int = 10_000
    loss_needs = frozenset({"curvature"})
    penalty_needs = frozenset({"quadratic"})
    streaming = False
    default_passes = 200
    joint = True
    by_blocks = True

    def check(self, problem: Problem) -> None:
        if self.memory < 1:
            raise ValueError(f"QuasiNewton: memory must be at least 1, got {self.memory}")
        if not math.isfinite(problem.loss.smoothness):
            raise ValueError("QuasiNewton: the loss must have a bounded curvature (smoothness)")
        refuse_large_matrix(self, problem.n_features, self.max_features)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> QuasiNewtonState:
        assert chunk is not None
        squares = DirectLeastSquares(self.max_features)
        sums = squares.update(problem, squares.init(problem), chunk)
        factor = _factor(problem, sums.gram, sums.mass)
        k, examples = problem.outputs, Examples.of(chunk)
        w, p = np.zeros((problem.n_features + 1, k)), np.zeros((examples.y.size, k))
        gradient = _gradient(problem, examples, w, p)
        value = _values(problem, examples, w, p, p, np.zeros(k))
        floor = max(ROUNDING * float(np.sum(value)), 1e-300)
        return QuasiNewtonState(w, p, gradient, value, factor, [], [], 0, math.inf, floor)

    def update(self, problem: Problem, s: QuasiNewtonState, chunk: Chunk) -> QuasiNewtonState:
        examples = Examples.of(chunk)
        direction = -_times_inverse(s, s.gradient)
        slope = np.sum(s.gradient * direction, axis=0)
        residual = float(-0.5 * np.sum(slope) / max(np.sum(s.value), s.floor))
        along = _products(examples, direction)
        t, value = _line_search(problem, examples, s, direction, along, slope)
        w, p = s.w + t * direction, s.p + t * along
        gradient = _gradient(problem, examples, w, p)
        moves = [*s.moves, t * direction][-self.memory :]
        bends = [*s.bends, gradient - s.gradient][-self.memory :]
        return QuasiNewtonState(
            w, p, gradient, value, s.factor, moves, bends, s.step + 1, residual, s.floor
        )

    def finish(self, problem: Problem, state: QuasiNewtonState) -> LinearFunction:
        coef = state.w[:-1].T.astype(problem.dtype)
        if problem.outputs == 1:
            return LinearFunction(coef[0], float(state.w[-1, 0]))
        return LinearFunction(coef, state.w[-1].copy())

    def residual(self, problem: Problem, state: QuasiNewtonState, before: Any, after: Any) -> float:
        return state.residual_


def _factor(problem: Problem, gram: np.ndarray, mass: float) -> Factored:
    """Of B."""
    bound = problem.loss.smoothness / mass
    return factored(bound * mirrored(gram), precisions(problem), problem.fit_intercept)


def _times_inverse(s: QuasiNewtonState, gradient: np.ndarray) -> np.ndarray:
    """The two loops of limited-memory BFGS, for each output with its own pairs."""
    q, factors = gradient.copy(), []
    for move, bend in zip(reversed(s.moves), reversed(s.bends), strict=True):
        along = np.sum(move * bend, axis=0)
        # An output that has arrived has no curvature to tell.
        rho = np.where(along > 1e-300, 1.0 / np.maximum(along, 1e-300), 0.0)
        a = rho * np.sum(move * q, axis=0)
        q -= a * bend
        factors.append((a, rho))
    size = s.factor.size
    r = np.zeros_like(q)
    r[:size] = s.factor.solve(q[:size])
    if s.moves:
        r *= _length(s)
    for (a, rho), move, bend in zip(reversed(factors), s.moves, s.bends, strict=True):
        r += move * (a - rho * np.sum(bend * r, axis=0))
    return r


def _length(s: QuasiNewtonState) -> np.ndarray:
    """s'y / y'B^-1 y of the newest pair: by how much the bound is too steep."""
    move, bend = s.moves[-1], s.bends[-1]
    size = s.factor.size
    along = np.sum(move * bend, axis=0)
    metric = np.sum(bend[:size] * s.factor.solve(bend[:size]), axis=0)
    return np.where(metric > 1e-300, along / np.maximum(metric, 1e-300), 1.0)


def _line_search(
    problem: Problem, examples: Examples, s: QuasiNewtonState, direction: np.ndarray,
    along: np.ndarray, slope: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Halve an output's step until it keeps a little of the predicted decrease; steps, values."""
    t = np.ones(problem.outputs)
    for _ in range(50):
        value = _values(problem, examples, s.w + t * direction, s.p, along, t)
        short = value > s.value + 1e-4 * t * slope + 1e-14 * np.abs(s.value)
        if not np.any(short):
            return t, value
        t = np.where(short, 0.5 * t, t)
    return np.where(short, 0.0, t), np.where(short, s.value, value)


def _values(
    problem: Problem, examples: Examples, w: np.ndarray, p: np.ndarray, along: np.ndarray,
    t: np.ndarray,
) -> np.ndarray:  # fmt: skip
    losses = np.empty(problem.outputs)
    _losses(examples.y, examples.mass, problem.loss, p, along, t, losses)
    penalty = 0.5 * np.sum(precisions(problem)[:, None] * w[:-1] ** 2, axis=0)
    return losses / np.sum(examples.mass) + penalty


def _gradient(problem: Problem, examples: Examples, w: np.ndarray, p: np.ndarray) -> np.ndarray:
    gradient = np.zeros_like(w)
    for part, block in examples.blocks():
        slopes = np.empty((block.shape[0], w.shape[1]), dtype=block.dtype)
        _slopes(examples.y[part], examples.mass[part], problem.loss, p[part], slopes)
        gradient[:-1] += block.T @ slopes
        gradient[-1] += np.sum(slopes, axis=0, dtype=np.float64)
    gradient /= np.sum(examples.mass)
    gradient[:-1] += precisions(problem)[:, None] * w[:-1]
    if not problem.fit_intercept:
        gradient[-1] = 0.0
    return gradient


def _products(examples: Examples, direction: np.ndarray) -> np.ndarray:
    """What a step along the direction adds to the predictions."""
    out = np.empty((examples.y.size, direction.shape[1]))
    weights = direction[:-1].astype(examples.rows.dtype)
    for part, block in examples.blocks():
        out[part] = block @ weights
    return out + direction[-1]
