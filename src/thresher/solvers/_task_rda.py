r"""Dual averaging over the weights of many tasks: DA-iMTFS, DA-aMTFS and DA-MTFTS.

With G the sum of the gradients, (features, tasks), t rounds, :math:`\beta_t` as in ``rda.py``,
thresholds :math:`\tau_j = t\,\mathrm{entries}_j + \rho\beta_t` and U = soft(G, tau),

.. math:: W_{jq} = -\max\Bigl(1 - \frac{t\,\mathrm{rows}_j}{\|U_{j\cdot}\|}, 0\Bigr)
                   \frac{U_{jq}}{\beta_t + t\,\mathrm{ridge}}

(Yang, Lyu and King, 2010): entries (iMTFS) where ``rows`` is zero, whole rows (aMTFS) where
``entries`` is, else rows and then tasks within them (MTFTS).  Only the weights that a row asks for
are worked out.  A row with targets for all tasks costs its non-zeros times the tasks.

A row of one task costs its non-zeros, however many tasks there are.  Where entries have no
threshold, the squared norms of the rows of G are kept up as elements are added, exactly.  With one,
:math:`\|U_j\|^2 = \sum (|G_{jq}| - \tau)^2` over the entries beyond tau is kept as three sums over
those beyond an earlier tau, which are taken again when tau has grown by a 64th: in between, an
entry that was overtaken still counts, by the square of less than a 64th of tau.  The weights that
``finish`` gives are exact.

Where beta is left to be found it does not start at zero, but at the curvature that a row can
bring, :math:`\beta_t = L + \gamma\sqrt t` (Dekel, Gilad-Bachrach, Shamir and Xiao, 2012): of every
task the first rows come when t is small, and would throw it far off.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.solvers._block_rda import Averaging
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.tasks import levels_of, targets_of

__all__ = ["TaskDualState", "task_averaging", "task_start", "task_sums", "task_weights"]

_AGAIN = 1 << 16  # rows between which sums are kept up; then they are taken again
_GROWN = 1.0 + 1.0 / 64.0
_SQUARES, _LENGTHS, _COUNT, _SINCE = range(4)


class TaskDualState(NamedTuple):
    gradient: np.ndarray  # (features, tasks)
    sums: np.ndarray  # (features, 4) of entries beyond a threshold: squares, lengths, number; it
    bias_gradient: np.ndarray
    step: int
    seen: int
    paid: float


def task_start(problem: Problem) -> TaskDualState:
    d, tasks = problem.n_features, problem.outputs
    return TaskDualState(
        np.zeros((d, tasks)), np.zeros((d, 4)), np.zeros(tasks), 0, 0, 0.0
    )  # fmt: skip


def task_averaging(
    problem: Problem, state: TaskDualState, chunk: Chunk, how: Averaging, batch: int,
    origin: float, floor: float,
) -> TaskDualState:  # fmt: skip
    """The state after the rows of a chunk."""
    targets = targets_of(problem, chunk.y)
    step, seen, paid = _average(
        chunk.rows, *targets, chunk.weight, chunk.order, problem.loss, *levels_of(problem),
        how.gamma, how.rho, how.logarithmic, floor, batch, problem.fit_intercept, origin, *state,
    )  # fmt: skip
    return state._replace(step=step, seen=seen, paid=paid)


@njit(cache=True, nogil=True)
def _beta(gamma, rounds, logarithmic, floor):
    growth = 1.0 + math.log(max(rounds, 1.0)) if logarithmic else math.sqrt(rounds)
    return floor + gamma * growth


@njit(cache=True, nogil=True)
def _soft(g, tau):
    return math.copysign(max(abs(g) - tau, 0.0), g)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def _sum_again(line, tau, sums):
    """The sums over the entries of a row of G beyond tau."""
    squares, lengths, count = 0.0, 0.0, 0.0
    for q in range(line.size):
        size = abs(line[q])
        if size > tau:
            squares += size * size
            lengths += size
            count += 1.0
    sums[_SQUARES], sums[_LENGTHS], sums[_COUNT], sums[_SINCE] = squares, lengths, count, tau


@njit(cache=True, nogil=True)
def _exchange(old, new, sums):
    """An entry of the row has changed."""
    since = sums[_SINCE]
    a, b = abs(old), abs(new)
    if a > since:
        sums[_SQUARES] -= a * a
        sums[_LENGTHS] -= a
        sums[_COUNT] -= 1.0
    if b > since:
        sums[_SQUARES] += b * b
        sums[_LENGTHS] += b
        sums[_COUNT] += 1.0


@njit(cache=True, nogil=True)
def _factor(pull, tau, sums):
    """max(1 - pull / ||U||, 0)."""
    if pull == 0.0:
        return 1.0
    square = sums[_SQUARES] - 2.0 * tau * sums[_LENGTHS] + tau * tau * sums[_COUNT]
    return max(1.0 - pull / math.sqrt(max(square, 1e-300)), 0.0)


@njit(cache=True, nogil=True)
def _average(
    rows, values, base, factors, share, weight, order, loss, by_row, by_entry, ridge, gamma, rho,
    logarithmic, floor, batch, fit_bias, origin, gradient, sums, bias_gradient, step, seen, paid,
):  # fmt: skip
    width = values.shape[1]
    alone = width == 1
    slopes, p = np.zeros((batch, width)), np.empty(width)
    again = max(_AGAIN, gradient.size)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        t = step * share
        beta = _beta(gamma, t, logarithmic, floor)
        scale = beta + t * ridge
        for r in range(size):
            i = order[first + r]
            q = base[i]
            for c in range(width):
                p[c] = origin - bias_gradient[q + c] / beta if fit_bias and step > 0 else origin
            if step > 0:
                for k in range(rows.start(i), rows.stop(i)):
                    j, x = rows.column(i, k), rows.element(i, k)
                    if x == 0.0:
                        continue
                    tau = t * by_entry[j] + rho * beta
                    if by_row[j] != 0.0 and (not alone or tau > _GROWN * sums[j, _SINCE]):
                        _sum_again(gradient[j], tau, sums[j])
                    factor = x * _factor(t * by_row[j], tau, sums[j]) / scale
                    if factor != 0.0:
                        for c in range(width):
                            p[c] -= factor * _soft(gradient[j, q + c], tau)
            for c in range(width):
                target, slopes[r, c] = values[i, c], 0.0
                if target == target:  # a hole is not
                    mass = weight[i] * factors[q + c]
                    paid += mass * loss.value(target, p[c])
                    slopes[r, c] = mass * loss.deriv(target, p[c]) / size
        seen += size
        step += 1
        for r in range(size):
            i = order[first + r]
            q = base[i]
            for c in range(width):
                bias_gradient[q + c] += slopes[r, c]
            for k in range(rows.start(i), rows.stop(i)):
                j, x = rows.column(i, k), rows.element(i, k)
                if alone:
                    old = gradient[j, q]
                    gradient[j, q] = old + slopes[r, 0] * x
                    if by_row[j] != 0.0:
                        _exchange(old, gradient[j, q], sums[j])
                else:
                    for c in range(width):
                        gradient[j, c] += slopes[r, c] * x
        if alone and step % again == 0:
            for j in range(gradient.shape[0]):
                _sum_again(gradient[j], sums[j, _SINCE], sums[j])
    return step, seen, paid


# ---------------------------------------------------------------- reading a state


def task_weights(
    problem: Problem, state: TaskDualState, how: Averaging, origin: float, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (tasks, features) and intercepts after some steps."""
    tasks = problem.outputs
    start = origin if problem.fit_intercept else 0.0
    if state.step == 0:
        return np.zeros((tasks, problem.n_features), problem.dtype), np.full(tasks, start)
    share = 1.0 if problem.targets == "matrix" else 1.0 / tasks
    rows, entries, ridge = levels_of(problem)
    t = state.step * share
    beta = _beta(how.gamma, t, how.logarithmic, floor)
    tau = t * entries + how.rho * beta
    U = np.abs(state.gradient)
    U -= tau[:, None]
    np.maximum(U, 0.0, out=U)
    norms = np.sqrt(np.einsum("jq,jq->j", U, U))
    factor = np.maximum(1.0 - t * rows / np.maximum(norms, 1e-150), 0.0) / (beta + t * ridge)
    U *= -factor[:, None]
    U *= np.sign(state.gradient)
    U += 0.0  # no negative zeros
    bias = np.full(tasks, start)
    if problem.fit_intercept:
        bias -= state.bias_gradient / beta
    return np.ascontiguousarray(U.T.astype(problem.dtype)), bias


def task_sums(problem: Problem, state: TaskDualState) -> TaskDualState:
    """The same state with sums that are those of its gradients."""
    sums: Any = np.empty_like(state.sums)
    for line, own, since in zip(state.gradient, sums, state.sums[:, _SINCE], strict=True):
        _sum_again(line, since, own)
    return state._replace(sums=sums)
