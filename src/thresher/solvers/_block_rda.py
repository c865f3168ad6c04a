r"""Dual averaging over groups: the weights of a group are a closed function of its gradient sums.

With s the sum of the gradients, t steps and :math:`\beta_t` as in ``rda.py``,

.. math:: w_g = \operatorname{prox}_{(t/\beta_t)\psi_g}\bigl(\operatorname{soft}(-s_g/\beta_t,
                \rho)\bigr),

which for the group lasso is :math:`-\tfrac{t}{\beta_t}\operatorname{shrink}(s_g/t,
\lambda\sqrt{d_g})` (DA-GL), for the sparse one DA-SGL, with rho DA-ESGL (Yang, Xu, King and Lyu,
2010).  The adaptive form has one step for each group,
:math:`\beta_g = \gamma(\rho + \sqrt{\sum_\tau\|g_{\tau,g}\|^2})`, so that any proximal map will do.

Only groups that a row touches are worked out.  A *radial* penalty asks for the norm of their sums,
which is kept up as elements are added: an update costs the non-zeros of the batch.  Other penalties
ask for all coordinates of these groups, each once a batch, unless their norm says that they are
zero.

A feature in several groups has one gradient, that of all its copies: there is nothing to copy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._terms import capabilities
from thresher.penalties.blocks import GroupPenalty, folded
from thresher.penalties.blocks import block_weights as block_weights_of
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "Averaging", "BlockDualState", "beta_of", "block_averaging", "block_norms", "block_start",
    "block_weights", "weights_of_copies",
]  # fmt: skip

_SURELY = 1.0 - 1e-9  # norms below this share of the threshold are below it, whatever the rounding
_AGAIN = 1 << 16  # steps between which norms are kept up; then they are summed again


class BlockDualState(NamedTuple):
    gradient: np.ndarray  # (features, outputs): sum of the mini-batch gradients
    norms: np.ndarray  # q, where groups have weights, else empty
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


def is_radial(problem: Problem, how: Averaging) -> bool:
    """Whether norms are all that is asked of groups."""
    plain = problem.outputs == 1 and (how.adaptive or how.rho == 0.0)
    return plain and "radial" in problem.penalty.traits


def block_start(problem: Problem, how: Averaging) -> BlockDualState:
    penalty: Any = problem.penalty
    groups, outputs = penalty.n_groups, problem.outputs
    norms = groups if "weight" in capabilities(penalty) else 0
    return BlockDualState(
        np.zeros((problem.n_features, outputs)), np.zeros(norms),
        np.zeros(groups if how.adaptive else 0), np.zeros(outputs), np.zeros(outputs), 0, 0, 0.0,
    )  # fmt: skip


def block_averaging(
    problem: Problem, state: BlockDualState, chunk: Chunk, how: Averaging, batch: int, origin: float
) -> BlockDualState:
    """The state after the rows of a chunk."""
    penalty: Any = problem.penalty
    inverse = _inverse(penalty) if state.norms.size else np.zeros(0)
    layout = (penalty.starts, penalty.homes, penalty.order, penalty.pointers, inverse)
    if is_radial(problem, how):
        step, seen, paid = _by_norms(
            *chunk, problem.loss, *how, batch, problem.fit_intercept, origin, problem.ridge,
            *layout, penalty.overlaps, state,
        )  # fmt: skip
    else:
        by_codes = problem.outputs > 1 and problem.targets == "classes"
        step, seen, paid = _by_blocks(
            *chunk, problem.loss, penalty, *how, batch, problem.fit_intercept, origin, by_codes,
            penalty.places, *layout, state,
        )  # fmt: skip
    return state._replace(step=step, seen=seen, paid=paid)


@njit(cache=True, nogil=True)
def beta_of(gamma, step, logarithmic):
    """Weight of the proximal term after so many steps."""
    return gamma * (1.0 + math.log(max(step, 1))) if logarithmic else gamma * math.sqrt(step)


# ---------------------------------------------------------------- radial penalties, one output
#
# With q_g = ||s_g||^2 / weight_g^2, the weights of a group are -max(1 - t / sqrt(q_g), 0) s_g /
# (beta + t ridge).  Terms with arrays are slow to reach into: the loops have the arrays.


def _inverse(penalty: GroupPenalty) -> np.ndarray:
    """1 / weight^2; of a group without a weight nearly infinite."""
    return 1.0 / np.maximum(block_weights_of(penalty), 1e-75) ** 2


@njit(cache=True, nogil=True)
def _sum_norms(gradient, order, pointers, inverse, norms):
    for group in range(norms.size):
        total = 0.0
        for k in range(pointers[group], pointers[group + 1]):
            line = gradient[order[k]]
            for c in range(line.size):
                total += line[c] * line[c]
        norms[group] = total * inverse[group]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def _product(rows, i, t, homes, norms, g):
    """-x_i . w times the scale of all weights, where each feature is in one group."""
    p = 0.0
    for k in range(rows.start(i), rows.stop(i)):
        j = rows.column(i, k)
        shrunk = max(1.0 - t / math.sqrt(max(norms[homes[j]], 1e-300)), 0.0)
        p += rows.element(i, k) * shrunk * g[j]
    return p


@njit(cache=True, nogil=True)
def _product_of_copies(rows, i, t, starts, homes, norms, squares, gamma, rho, adaptive, ridge, g):
    """The same with features in several groups, or groups with steps of their own."""
    p = 0.0
    for k in range(rows.start(i), rows.stop(i)):
        j, own = rows.column(i, k), 0.0
        for c in range(starts[j], starts[j + 1]):
            group = homes[c]
            shrunk = max(1.0 - t / math.sqrt(max(norms[group], 1e-300)), 0.0)
            if adaptive:
                shrunk /= gamma * (rho + math.sqrt(squares[group])) + t * ridge
            own += shrunk
        p += rows.element(i, k) * own * g[j]
    return p


@njit(cache=True, nogil=True)
def _add_row(rows, i, slope, homes, inverse, norms, g):
    """g += slope x_i, and with it the norms of the groups."""
    for k in range(rows.start(i), rows.stop(i)):
        j, x = rows.column(i, k), slope * rows.element(i, k)
        group, old = homes[j], g[j]
        norms[group] += inverse[group] * (x * (2.0 * old + x))
        g[j] = old + x


@njit(cache=True, nogil=True)
def _add_row_to_copies(rows, i, slope, starts, homes, inverse, norms, g):
    for k in range(rows.start(i), rows.stop(i)):
        j, x = rows.column(i, k), slope * rows.element(i, k)
        more = x * (2.0 * g[j] + x)
        g[j] += x
        for c in range(starts[j], starts[j + 1]):
            norms[homes[c]] += inverse[homes[c]] * more


@njit(cache=True, nogil=True)
def _add_squares(rows, i, slope, starts, homes, mean, squares):
    """The squares of the batch's gradient at the features of row i; ``mean`` is zero there then."""
    for k in range(rows.start(i), rows.stop(i)):
        j = rows.column(i, k)
        x = slope * rows.element(i, k)
        if mean.size:
            x = mean[j]
            mean[j] = 0.0
        for c in range(starts[j], starts[j + 1]):
            squares[homes[c]] += x * x


@njit(cache=True, nogil=True)
def _by_norms(
    rows, y, weight, order, loss, gamma, rho, logarithmic, adaptive, batch, fit_bias, origin, ridge,
    starts, homes, members, pointers, inverse, overlaps, state,
):  # fmt: skip
    g, norms, squares = state.gradient.reshape(-1), state.norms, state.squares
    bias_g, bias_squares = state.bias_gradient, state.bias_squares
    step, seen, paid = state.step, state.seen, state.paid
    slopes = np.empty(batch)
    mean = np.zeros(g.size if adaptive and batch > 1 else 0)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta = beta_of(gamma, step, logarithmic)
        bias, slope_sum = origin, 0.0
        if fit_bias and step > 0:
            scale = gamma * (rho + math.sqrt(bias_squares[0])) if adaptive else beta
            bias -= bias_g[0] / scale
        for r in range(size):
            i = order[first + r]
            p, t = bias, float(step)
            if step > 0 and not (adaptive or overlaps):
                p -= _product(rows, i, t, homes, norms, g) / (beta + t * ridge)
            elif step > 0:
                product = _product_of_copies(
                    rows, i, t, starts, homes, norms, squares, gamma, rho, adaptive, ridge, g
                )
                p -= product if adaptive else product / (beta + t * ridge)
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        step += 1
        bias_g[0] += slope_sum
        for r in range(size):
            if slopes[r] != 0.0:
                i = order[first + r]
                if overlaps:
                    _add_row_to_copies(rows, i, slopes[r], starts, homes, inverse, norms, g)
                else:
                    _add_row(rows, i, slopes[r], homes, inverse, norms, g)
                if mean.size:
                    rows.add(i, slopes[r], mean)
        if adaptive:
            bias_squares[0] += slope_sum * slope_sum
            for r in range(size):
                _add_squares(rows, order[first + r], slopes[r], starts, homes, mean, squares)
        if step % _AGAIN == 0:
            _sum_norms(state.gradient, members, pointers, inverse, norms)
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
    origin, by_codes, places, starts, homes, members, pointers, inverse, state,
):  # fmt: skip
    g, norms, squares = state.gradient, state.norms, state.squares
    bias_g, bias_squares = state.bias_gradient, state.bias_squares
    step, seen, paid = state.step, state.seen, state.paid
    outputs = g.shape[1]
    slopes, sums = np.empty((batch, outputs)), np.empty(outputs)
    bias, p = np.empty(outputs), np.empty(outputs)
    v = np.zeros(places.size * outputs)
    known = np.full(pointers.size - 1, -1)  # the step that a group's weights are of
    awake = np.ones(pointers.size - 1, np.bool_)  # whether some of them may be other than zero
    mean = np.zeros((g.shape[0] if adaptive else 0, outputs))
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta = beta_of(gamma, step, logarithmic)
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
                    for at in range(starts[j], starts[j + 1]):
                        place, group = places[at], homes[at]
                        if known[group] != step:
                            known[group] = step
                            if norms.size:
                                awake[group] = norms[group] > _SURELY * step * step
                            if awake[group]:
                                _block(
                                    g, squares, beta, step, gamma, rho, adaptive, penalty, group, v
                                )
                        if not awake[group]:
                            continue
                        start, stop = pointers[group], pointers[group + 1]
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
                more = 0.0
                for c in range(outputs):
                    move = slopes[r, c] * x
                    more += move * (2.0 * g[j, c] + move)
                    g[j, c] += move
                    if adaptive:
                        mean[j, c] += move
                if norms.size:
                    for at in range(starts[j], starts[j + 1]):
                        norms[homes[at]] += inverse[homes[at]] * more
        if adaptive:
            for r in range(size):
                i = order[first + r]
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    for c in range(outputs):
                        for at in range(starts[j], starts[j + 1]):
                            squares[homes[at]] += mean[j, c] * mean[j, c]
                        mean[j, c] = 0.0
        if norms.size and step % _AGAIN == 0:
            _sum_norms(g, members, pointers, inverse, norms)
    return step, seen, paid


# ---------------------------------------------------------------- reading a state


@njit(cache=True, nogil=True)
def _all_blocks(gradient, squares, step, gamma, rho, logarithmic, adaptive, penalty, v):
    beta = beta_of(gamma, step, logarithmic)
    for group in range(penalty.pointers.size - 1):
        _block(gradient, squares, beta, step, gamma, rho, adaptive, penalty, group, v)


def weights_of_copies(problem: Problem, state: BlockDualState, how: Averaging) -> np.ndarray:
    """Group after group, of several outputs the first one's, then the next one's."""
    penalty: Any = problem.penalty
    v = np.zeros(penalty.order.size * problem.outputs)
    if state.step:
        _all_blocks(state.gradient, state.squares, state.step, *how, penalty, v)
    return v


def block_weights(
    problem: Problem, state: BlockDualState, how: Averaging, origin: float
) -> tuple[np.ndarray, Any]:
    """Weights and intercept after some steps: (features,) and a number, or for each output."""
    penalty: Any = problem.penalty
    outputs = problem.outputs
    v, bias = weights_of_copies(problem, state, how), np.full(outputs, origin)
    if state.step and problem.fit_intercept:
        bias -= state.bias_gradient / _bias_scales(state, how)
    coef = np.stack([folded(penalty, part) for part in _by_output(penalty, v, outputs)])
    coef = coef.astype(problem.dtype)
    bias = bias if problem.fit_intercept else np.zeros(outputs)
    return (coef, bias) if outputs > 1 else (coef[0], float(bias[0]))


def _bias_scales(state: BlockDualState, how: Averaging) -> Any:
    if how.adaptive:
        return how.gamma * (how.rho + np.sqrt(state.bias_squares))
    return beta_of(how.gamma, state.step, how.logarithmic)


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
        penalty: Any = problem.penalty
        _sum_norms(state.gradient, penalty.order, penalty.pointers, _inverse(penalty), norms)
    return state._replace(norms=norms)
