r"""Dual averaging over groups: the weights of a group are a closed function of its gradient sums.

With s the sum of the gradients, t steps and :math:`\beta_t` as in ``rda.py``,

.. math:: w_g = \operatorname{prox}_{(t/\beta_t)\psi_g}\big(\operatorname{soft}(-s_g/\beta_t,
                \rho)\big),

which for the group lasso is :math:`-\tfrac{t}{\beta_t}\operatorname{shrink}(s_g/t,
\lambda\sqrt{d_g})` (DA-GL), for the sparse one DA-SGL, with rho DA-ESGL (Yang, Xu, King and Lyu,
2010).  The adaptive form has one step for each group,
:math:`\beta_g = \gamma(\rho + \sqrt{\sum_\tau\|g_{\tau,g}\|^2})`, so that any proximal map will do.

Only groups that a row touches are worked out.  A *radial* penalty asks for the norm of their sums,
which is kept up as elements are added: an update costs the non-zeros of the batch.  Other penalties
ask for all coordinates of these groups, each once a batch.

A feature in several groups has one gradient, that of all its copies: there is nothing to copy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.penalties.blocks import GroupPenalty, folded
from thresher.solvers.base import Chunk, Problem

__all__ = ["BlockDualState", "block_averaging", "block_norms", "block_start", "block_weights"]

_AGAIN = 1 << 16  # steps between which norms are kept up; then they are summed again


class BlockDualState(NamedTuple):
    gradient: np.ndarray  # (features, outputs): sum of the mini-batch gradients
    norms: np.ndarray  # of radial penalties: squared norms of the groups' sums, else empty
    squares: np.ndarray  # adaptive: sums of squared norms of the groups' gradients, else empty
    bias_gradient: np.ndarray
    bias_squares: np.ndarray
    step: int
    seen: int
    paid: float


class Averaging(NamedTuple):
    """How a solver of this family goes: its hyper-parameters, for compiled code."""

    gamma: float
    rho: float
    logarithmic: bool
    adaptive: bool


def is_radial(problem: Problem, rho: float, adaptive: bool) -> bool:
    """Whether norms are all that is asked of groups."""
    plain = problem.outputs == 1 and (adaptive or rho == 0.0)
    return plain and "radial" in problem.penalty.traits


def block_start(problem: Problem, how: Averaging) -> BlockDualState:
    penalty: Any = problem.penalty
    groups, outputs = penalty.n_groups, problem.outputs
    norms = groups if is_radial(problem, how.rho, how.adaptive) else 0
    return BlockDualState(
        np.zeros((problem.n_features, outputs)), np.zeros(norms),
        np.zeros(groups if how.adaptive else 0), np.zeros(outputs), np.zeros(outputs), 0, 0, 0.0,
    )  # fmt: skip


def block_averaging(
    problem: Problem, state: BlockDualState, chunk: Chunk, how: Averaging, batch: int, origin: float
) -> BlockDualState:
    """The state after the rows of a chunk."""
    penalty: Any = problem.penalty
    common = (*chunk, problem.loss, penalty, *how, batch, problem.fit_intercept, origin)
    if state.norms.size:
        step, seen, paid = _by_norms(*common, penalty.overlaps, problem.ridge, state)
    else:
        by_codes = problem.outputs > 1 and problem.targets == "classes"
        step, seen, paid = _by_blocks(*common, by_codes, state)
    return state._replace(step=step, seen=seen, paid=paid)


@njit(cache=True, nogil=True)
def _beta(gamma, step, logarithmic):
    return gamma * (1.0 + math.log(max(step, 1))) if logarithmic else gamma * math.sqrt(step)


# ---------------------------------------------------------------- radial penalties, one output


@njit(cache=True, nogil=True)
def _sum_norms(g, penalty, norms):
    for group in range(norms.size):
        total = 0.0
        for k in range(penalty.pointers[group], penalty.pointers[group + 1]):
            x = g[penalty.order[k]]
            total += x * x
        norms[group] = total


@njit(cache=True, nogil=True)
def _multiplier(norms, squares, beta, step, gamma, rho, adaptive, penalty, ridge, group):
    """w_j = multiplier s_j in this group."""
    if adaptive:
        beta = gamma * (rho + math.sqrt(squares[group]))
    norm = math.sqrt(max(norms[group], 0.0))
    shrunk = penalty.factor(norm / beta, step / beta, group)
    return -shrunk / (beta + step * ridge)


@njit(cache=True, nogil=True)
def _add_element(j, x, overlaps, penalty, g, norms):
    """g_j += x, and with it the norms of the groups."""
    more = x * (2.0 * g[j] + x)
    g[j] += x
    if not overlaps:
        norms[penalty.groups[j]] += more
        return
    for c in range(penalty.starts[j], penalty.starts[j + 1]):
        norms[penalty.owners[penalty.places[c]]] += more


@njit(cache=True, nogil=True)
def _add_square(j, x, overlaps, penalty, squares):
    if not overlaps:
        squares[penalty.groups[j]] += x * x
        return
    for c in range(penalty.starts[j], penalty.starts[j + 1]):
        squares[penalty.owners[penalty.places[c]]] += x * x


@njit(cache=True, nogil=True)
def _by_norms(
    rows, y, weight, order, loss, penalty, gamma, rho, logarithmic, adaptive, batch, fit_bias,
    origin, overlaps, ridge, state,
):  # fmt: skip
    g, norms, squares = state.gradient.reshape(-1), state.norms, state.squares
    bias_g, bias_squares = state.bias_gradient, state.bias_squares
    step, seen, paid = state.step, state.seen, state.paid
    slopes = np.empty(batch)
    known = np.full(norms.size, -1)  # the step that a group's multiplier is of
    multipliers = np.empty(norms.size)
    mean = np.zeros(g.size if adaptive and batch > 1 else 0)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta = _beta(gamma, step, logarithmic)
        bias, slope_sum = origin, 0.0
        if fit_bias and step > 0:
            scale = gamma * (rho + math.sqrt(bias_squares[0])) if adaptive else beta
            bias -= bias_g[0] / scale
        for r in range(size):
            i = order[first + r]
            p = bias
            if step > 0:
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    own = 0.0
                    if not overlaps:
                        group = penalty.groups[j]
                        if known[group] != step:
                            known[group] = step
                            multipliers[group] = _multiplier(
                                norms, squares, beta, step, gamma, rho, adaptive, penalty, ridge,
                                group,
                            )  # fmt: skip
                        own = multipliers[group]
                    else:
                        for c in range(penalty.starts[j], penalty.starts[j + 1]):
                            group = penalty.owners[penalty.places[c]]
                            if known[group] != step:
                                known[group] = step
                                multipliers[group] = _multiplier(
                                    norms, squares, beta, step, gamma, rho, adaptive, penalty,
                                    ridge, group,
                                )  # fmt: skip
                            own += multipliers[group]
                    p += rows.element(i, k) * own * g[j]
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        step += 1
        bias_g[0] += slope_sum
        for r in range(size):
            if slopes[r] != 0.0:
                i = order[first + r]
                for k in range(rows.start(i), rows.stop(i)):
                    j, x = rows.column(i, k), slopes[r] * rows.element(i, k)
                    _add_element(j, x, overlaps, penalty, g, norms)
                    if adaptive and batch == 1:
                        _add_square(j, x, overlaps, penalty, squares)
                    elif adaptive:
                        mean[j] += x
        if adaptive:
            bias_squares[0] += slope_sum * slope_sum
            for r in range(size if batch > 1 else 0):
                i = order[first + r]
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    _add_square(j, mean[j], overlaps, penalty, squares)
                    mean[j] = 0.0
        if step % _AGAIN == 0:
            _sum_norms(g, penalty, norms)
    return step, seen, paid


# ---------------------------------------------------------------- any penalty, any outputs


@njit(cache=True, nogil=True)
def _block(gradient, squares, beta, step, gamma, rho, adaptive, penalty, group, v):
    """The weights of a group's copies in its part of v: those of the first output, the next, ..."""
    start, stop = penalty.pointers[group], penalty.pointers[group + 1]
    outputs, size = gradient.shape[1], stop - start
    if adaptive:
        beta = gamma * (rho + math.sqrt(squares[group]))
    soft = 0.0 if adaptive else rho
    part = v[start * outputs : stop * outputs]
    for k in range(size):
        j = penalty.order[start + k]
        for c in range(outputs):
            u = -gradient[j, c] / beta
            part[c * size + k] = math.copysign(max(abs(u) - soft, 0.0), u)
    penalty.prox_block(part, step / beta, group, part)


@njit(cache=True, nogil=True)
def _by_blocks(
    rows, y, weight, order, loss, penalty, gamma, rho, logarithmic, adaptive, batch, fit_bias,
    origin, by_codes, state,
):  # fmt: skip
    g, squares = state.gradient, state.squares
    bias_g, bias_squares = state.bias_gradient, state.bias_squares
    step, seen, paid = state.step, state.seen, state.paid
    outputs = g.shape[1]
    slopes, sums = np.empty((batch, outputs)), np.empty(outputs)
    bias, p = np.empty(outputs), np.empty(outputs)
    v = np.zeros(penalty.order.size * outputs)
    known = np.full(penalty.pointers.size - 1, -1)  # the step that a group's weights are of
    mean = np.zeros((g.shape[0] if adaptive else 0, outputs))
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta = _beta(gamma, step, logarithmic)
        for c in range(outputs):
            bias[c], sums[c] = origin, 0.0
            if fit_bias and step > 0:
                scale = gamma * (rho + math.sqrt(bias_squares[c])) if adaptive else beta
                bias[c] -= bias_g[c] / scale
        for r in range(size):
            i = order[first + r]
            p[:] = bias
            if step > 0:
                for k in range(rows.start(i), rows.stop(i)):
                    j, x = rows.column(i, k), rows.element(i, k)
                    for at in range(penalty.starts[j], penalty.starts[j + 1]):
                        place = penalty.places[at]
                        group = penalty.owners[place]
                        if known[group] != step:
                            known[group] = step
                            _block(g, squares, beta, step, gamma, rho, adaptive, penalty, group, v)
                        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
                        spot = start * outputs + place - start
                        for c in range(outputs):
                            p[c] += x * v[spot + c * (stop - start)]
            for c in range(outputs):
                if y.ndim == 2:  # known when compiled
                    target = y[i, c]
                elif by_codes:
                    target = 1.0 if y[i] == c else -1.0
                else:
                    target = y[i]
                paid += weight[i] * loss.value(target, p[c])
                slopes[r, c] = weight[i] * loss.deriv(target, p[c]) / size
                sums[c] += slopes[r, c]
        seen += size
        step += 1
        for c in range(outputs):
            bias_g[c] += sums[c]
            if adaptive:
                bias_squares[c] += sums[c] * sums[c]
        for r in range(size):
            i = order[first + r]
            for k in range(rows.start(i), rows.stop(i)):
                j, x = rows.column(i, k), rows.element(i, k)
                for c in range(outputs):
                    g[j, c] += slopes[r, c] * x
                    if adaptive:
                        mean[j, c] += slopes[r, c] * x
        if adaptive:
            for r in range(size):
                i = order[first + r]
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    for c in range(outputs):
                        _add_square(j, mean[j, c], True, penalty, squares)
                        mean[j, c] = 0.0
    return step, seen, paid


# ---------------------------------------------------------------- reading a state


@njit(cache=True, nogil=True)
def _all_blocks(gradient, squares, step, gamma, rho, logarithmic, adaptive, penalty, v):
    beta = _beta(gamma, step, logarithmic)
    for group in range(penalty.pointers.size - 1):
        _block(gradient, squares, beta, step, gamma, rho, adaptive, penalty, group, v)


def block_weights(
    problem: Problem, state: BlockDualState, how: Averaging, origin: float
) -> tuple[np.ndarray, Any]:
    """Weights and intercept after some steps: (features,) and a number, or for each output."""
    penalty: Any = problem.penalty
    outputs = problem.outputs
    v = np.zeros(penalty.order.size * outputs)
    bias = np.full(outputs, origin)
    if state.step:
        _all_blocks(state.gradient, state.squares, state.step, *how, penalty, v)
        if problem.fit_intercept:
            bias -= state.bias_gradient / _bias_scales(state, how)
    coef = np.stack([folded(penalty, part) for part in _by_output(penalty, v, outputs)])
    coef = coef.astype(problem.dtype)
    bias = bias if problem.fit_intercept else np.zeros(outputs)
    return (coef, bias) if outputs > 1 else (coef[0], float(bias[0]))


def _bias_scales(state: BlockDualState, how: Averaging) -> Any:
    if how.adaptive:
        return how.gamma * (how.rho + np.sqrt(state.bias_squares))
    return _beta(how.gamma, state.step, how.logarithmic)


def _by_output(penalty: GroupPenalty, v: np.ndarray, outputs: int) -> list[np.ndarray]:
    """The copies of each output, group after group."""
    if outputs == 1:
        return [v]
    sizes = np.diff(penalty.pointers)
    within = np.arange(penalty.order.size) - np.repeat(penalty.pointers[:-1], sizes)
    spots = np.repeat(penalty.pointers[:-1] * outputs, sizes) + within
    return [v[spots + c * np.repeat(sizes, sizes)] for c in range(outputs)]


def block_norms(problem: Problem, state: BlockDualState) -> BlockDualState:
    """The same state with norms that are those of its sums."""
    norms = np.zeros_like(state.norms)
    if norms.size:
        _sum_norms(state.gradient.reshape(-1), problem.penalty, norms)
    return state._replace(norms=norms)
