r"""Proximal Newton on a growing working set: the exact sparse model of a smooth loss.

.. math:: \min_{w,b}\ \operatorname{mean}_i\,\ell(y_i, w\cdot x_i + b) + \psi(w)

with any penalty psi over coordinates, or over groups of them (``_block_newton.py``), that has a
proximal map; many tasks are in ``_task_newton.py``.  Each iteration

1. takes the full gradient g, one pass over the rows;
2. puts into the working set A the non-zero weights and the coordinates that a proximal gradient
   step would move most (at most as many new ones as A had, so that A grows with the model);
3. forms the Hessian on A only, its correlations from a sample of the rows where they abound; or,
   where A is large, copies the columns of A (``_working_set.py``);
4. minimises the quadratic model plus psi over A by coordinate descent, and searches the line.

It is the local phase of RDA+ (S. Lee's thesis, chapter 2), where Newton steps are taken on the
identified manifold, with the pattern found by working sets as in skglm (Bertrand et al., 2022).
Rows are enough: models of up to ``largest`` weights need no column-wise copy of the data.

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
from thresher.penalties.blocks import folded, split
from thresher.solvers._block_newton import block_step
from thresher.solvers._dense_columns import step_by_dense_columns
from thresher.solvers._task_newton import (
    TaskNewtonState,
    start_tasks,
    step_tasks,
    weights_of_tasks,
)
from thresher.solvers._working_set import Model, is_dense, model_of, step_by_columns, step_by_matrix
from thresher.solvers.base import Chunk, Near, Problem, Solver
from thresher.solvers.driver import penalty_value
from thresher.solvers.newton import derivatives, floor_of, predict, predicted_move, shifted_loss
from thresher.solvers.tasks import levels_of

__all__ = ["ProximalNewton"]


class ProximalNewtonState(NamedTuple):
    w: np.ndarray  # of a penalty over groups: of the copies of features, group after group
    bias: float
    p: np.ndarray  # predictions of all rows
    step: int
    residual_: float
    floor: float  # the objective counts as at least this


@njit(cache=True, nogil=True)
def _moves(w, gradient, scale, penalty, out):
    """How far a proximal gradient step of length ``scale`` would move each coordinate."""
    for j in range(w.size):
        out[j] = abs(penalty.prox(w[j] - scale * gradient[j], scale, j) - w[j])


@njit(cache=True, nogil=True)
def _between(w, target, t):
    """The point at share t of the way: never beyond either end, whatever the rounding.

    A penalty with bounds is finite between points where it is, and a full step lands where the
    proximal map put it: exact zeros stay exact.
    """
    if t == 1.0:
        return target + 0.0
    return min(max(w + t * (target - w), min(w, target)), max(w, target))


@njit(cache=True, nogil=True)
def _penalty_change(penalty, chosen, w, target, t):
    total = 0.0
    for a in range(chosen.size):
        j = chosen[a]
        total += penalty.value(_between(w[a], target[a], t), j) - penalty.value(w[a], j)
    return total


@njit(cache=True, nogil=True)
def _move(w, chosen, target, t):
    for a in range(chosen.size):
        j = chosen[a]
        w[j] = _between(w[j], target[a], t)


def _grouped(problem: Problem) -> bool:
    return "grouped" in problem.penalty.traits


@dataclass(frozen=True)
class ProximalNewton(Solver):
    """Proximal Newton on working sets: the default for sparse penalties and smooth losses.

    Parameters
    ----------
    first : int, default=32
        Size of the first working set.
    largest : int, default=2000
        Most coordinates of a working set whose Hessian is formed, largest^2 numbers; larger ones
        are minimised over column by column, on a copy of these columns.
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
    default_penalty = "l1"
    streaming = False
    default_passes = 200
    target_kinds = frozenset({"classes", "matrix", "pairs"})

    def check(self, problem: Problem) -> None:
        if self.first < 1 or self.largest < self.first:
            raise ValueError("ProximalNewton: needs 1 <= first <= largest")
        if problem.has_tasks:
            levels_of(problem)

    def init(
        self, problem: Problem, chunk: Chunk | None = None
    ) -> ProximalNewtonState | TaskNewtonState:
        assert chunk is not None
        if problem.has_tasks:
            return start_tasks(problem, chunk, self.largest)
        size = problem.penalty.order.size if _grouped(problem) else problem.n_features  # type: ignore[attr-defined]
        w, p = np.zeros(size), np.zeros(chunk.size)
        return ProximalNewtonState(w, 0.0, p, 0, math.inf, floor_of(problem, chunk))

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> ProximalNewtonState | None:
        if problem.has_tasks:
            return None
        w, p = near.coef.astype(np.float64), np.zeros(chunk.size)
        predict(chunk.rows, chunk.order, w, near.intercept, p)
        w = split(problem.penalty, w) if _grouped(problem) else w  # type: ignore[arg-type]
        return ProximalNewtonState(w, near.intercept, p, 0, math.inf, floor_of(problem, chunk))

    def update(self, problem: Problem, s: Any, chunk: Chunk) -> Any:
        if problem.has_tasks:
            return step_tasks(problem, chunk, s, self.first, self.largest)
        if _grouped(problem):
            return self._block_update(problem, s, chunk)
        _, y, weight, order = chunk
        d, n = problem.n_features, float(np.sum(weight[order]))
        gradient = np.zeros(d + 1)
        no_hessian = np.zeros((0, 0))
        value = derivatives(*chunk, problem.loss, s.p, gradient, no_hessian, False) / n
        gradient /= n
        value += penalty_value(problem, s.w)
        chosen, complete = self._working_set(problem, s.w, gradient)
        model = model_of(problem, chunk, s.p, chosen, gradient)
        target = self._target(problem, s, chunk, model, rough=not complete)
        delta = target - s.w[chosen]
        bias = model.bias(delta) if problem.fit_intercept else 0.0
        along = predicted_move(chunk, chosen, delta, bias)
        at = (problem.penalty, chosen, s.w[chosen], target)
        slope = float(gradient[chosen] @ delta + gradient[d] * bias)
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
        _move(w, chosen, target, t)
        residual = predicted / max(value, s.floor) if complete else math.inf
        bias, p = s.bias + t * bias, s.p + t * along
        return ProximalNewtonState(w, bias, p, s.step + 1, residual, s.floor)

    def _block_update(
        self, problem: Problem, s: ProximalNewtonState, chunk: Chunk
    ) -> ProximalNewtonState:
        step = block_step(
            problem, chunk, s.w, s.bias, s.p, self.first, self.largest,
            lambda size: self._hessian_rows(problem, s, chunk, size),
        )  # fmt: skip
        residual = step.decrease / max(step.value, s.floor)
        return ProximalNewtonState(step.v, step.bias, step.p, s.step + 1, residual, s.floor)

    def _working_set(
        self, problem: Problem, w: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, bool]:
        """Non-zero weights and the likeliest newcomers; whether nobody else wants to move."""
        moves = np.empty(w.size)
        _moves(w, gradient[:-1], 1.0, problem.penalty, moves)
        kept = np.flatnonzero(w)
        moves[kept] = 0.0
        wanted = np.flatnonzero(moves > 1e-9 * max(float(np.max(np.abs(gradient[:-1]))), 1e-300))
        room = max(self.first, 2 * kept.size)
        newcomers = wanted
        if wanted.size > room:
            newcomers = wanted[np.argpartition(moves[wanted], -room)[-room:]]
        return np.sort(np.concatenate([kept, newcomers])), newcomers.size == wanted.size

    def _target(
        self, problem: Problem, s: ProximalNewtonState, chunk: Chunk, model: Model, rough: bool
    ) -> np.ndarray:
        """Where the quadratic model is smallest."""
        w = s.w[model.chosen]
        if model.chosen.size > self.largest:
            step = step_by_dense_columns if is_dense(chunk.rows) else step_by_columns
            return step(problem, chunk, s.p, model, w, rough)
        sample = self._hessian_rows(problem, s, chunk, model.chosen.size)
        return step_by_matrix(problem, chunk, s.p, model, w, sample)

    def _hessian_rows(
        self, problem: Problem, s: ProximalNewtonState, chunk: Chunk, size: int
    ) -> np.ndarray:
        """A random part of the rows, large enough for a Hessian of this size."""
        enough = max(self.hessian_rows, 50 * size)
        if chunk.order.size <= 4 * enough:
            return chunk.order
        return np.sort(generator(problem.seed, 6, s.step).choice(chunk.order, enough))

    def finish(self, problem: Problem, state: Any) -> LinearFunction:
        if problem.has_tasks:
            return weights_of_tasks(problem, state)
        w = folded(problem.penalty, state.w) if _grouped(problem) else state.w  # type: ignore[arg-type]
        return LinearFunction(w.astype(problem.dtype), state.bias)

    def residual(self, problem: Problem, state: Any, before: Any, after: Any) -> float:
        return state.residual_
