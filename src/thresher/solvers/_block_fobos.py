r"""Stochastic proximal gradient over groups (``proximal.py``), each group waiting for its turn.

A group that no row touches is only shrunk, and shrinking adds up: shrink(shrink(v, a), b) =
shrink(v, a + b).  So a group waits until a row needs it.  Its weights are

.. math:: w_k = s\,\sigma_g\,v_k ,

where s carries the ridge for all, :math:`\sigma_g` what the group was shrunk by, and the norm of
:math:`v_g` is kept up as elements are added.  An update costs O(non-zeros of the batch): of a group
that becomes zero not even the weights are visited, its generation ends, and coordinates of an
earlier generation count as zero.

Penalties that are not *radial* (the sparse group lasso, whose steps do not add up) are applied to
all groups after every mini-batch.

A feature in several groups has a weight in each, and its copies get the same gradient.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.penalties.blocks import block_weights, folded
from thresher.schedules import Schedule
from thresher.solvers._states import copied
from thresher.solvers.base import Chunk, Problem

__all__ = ["BlockProximalState", "block_copies", "block_fobos", "block_fobos_start", "settled"]

_AGAIN = 1 << 16  # steps between which norms are kept up; then they are summed again
_SMALL = 1e-9


class BlockProximalState(NamedTuple):
    direction: np.ndarray  # of the copies, group after group
    born: np.ndarray  # the generation that a coordinate is of
    generation: np.ndarray  # of each group
    shrunk: np.ndarray  # sigma
    norms: np.ndarray  # squared, of the directions of this generation
    due: np.ndarray  # the steps that a group was settled at
    scale: float
    steps: float
    bias: float
    step: int
    seen: int
    paid: float


def block_fobos_start(problem: Problem, bias: float) -> BlockProximalState:
    penalty: Any = problem.penalty
    copies = penalty.order.size
    if "radial" not in penalty.traits:
        waiting, groups = 0, 0  # nobody waits
    else:
        waiting, groups = copies, penalty.n_groups
    return BlockProximalState(
        np.zeros(copies), np.zeros(waiting, np.int64), np.zeros(groups, np.int64), np.ones(groups),
        np.zeros(groups), np.zeros(groups), 1.0, 0.0, bias, 0, 0, 0.0,
    )  # fmt: skip


def block_fobos(
    problem: Problem, state: BlockProximalState, chunk: Chunk, schedule: Schedule, batch: int
) -> BlockProximalState:
    """The state after the rows of a chunk."""
    penalty: Any = problem.penalty
    if "radial" not in penalty.traits:
        bias, step, seen, paid = _eager(
            *chunk, problem.loss, penalty, schedule, batch, problem.fit_intercept, state
        )
        return state._replace(bias=bias, step=step, seen=seen, paid=paid)
    scale, steps, bias, step, seen, paid = _lazy(
        *chunk, problem.loss, schedule, batch, problem.fit_intercept, problem.ridge,
        block_weights(penalty), penalty.starts, penalty.places, penalty.homes, penalty.pointers,
        state,
    )  # fmt: skip
    return state._replace(
        scale=scale, steps=steps, bias=bias, step=step, seen=seen, paid=paid
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _settle(group, steps, weights, generation, shrunk, norms, due):
    """Shrink a group by the steps that it has waited for."""
    norm = shrunk[group] * math.sqrt(max(norms[group], 0.0))
    pull = (steps - due[group]) * weights[group]
    due[group] = steps
    if norm > pull:
        shrunk[group] *= 1.0 - pull / norm
    elif steps > 0.0 and (pull > 0.0 or norm == 0.0):
        generation[group] += 1
        shrunk[group], norms[group] = 1.0, 0.0


@njit(cache=True, nogil=True)
def _rewrite(group, scale, pointers, v, born, generation, shrunk, norms):
    """The group's weights, times ``scale``, as its directions; and their norm anew."""
    total = 0.0
    for k in range(pointers[group], pointers[group + 1]):
        x = scale * shrunk[group] * v[k] if born[k] == generation[group] else 0.0
        v[k] = x
        born[k] = generation[group]
        total += x * x
    shrunk[group], norms[group] = 1.0, total


@njit(cache=True, nogil=True)
def _lazy(
    rows, y, weight, order, loss, schedule, batch, fit_bias, ridge, weights, starts, places, homes,
    pointers, state,
):  # fmt: skip
    v, born, generation = state.direction, state.born, state.generation
    shrunk, norms, due = state.shrunk, state.norms, state.due
    scale, steps = state.scale, state.steps
    bias, step, seen, paid = state.bias, state.step, state.seen, state.paid
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        slope_sum = 0.0
        for r in range(size):
            i = order[first + r]
            total = 0.0
            for k in range(rows.start(i), rows.stop(i)):
                j, own = rows.column(i, k), 0.0
                for at in range(starts[j], starts[j + 1]):
                    place, group = places[at], homes[at]
                    if steps > due[group]:
                        _settle(group, steps, weights, generation, shrunk, norms, due)
                        if shrunk[group] < _SMALL:
                            _rewrite(group, 1.0, pointers, v, born, generation, shrunk, norms)
                    if born[place] == generation[group]:
                        own += shrunk[group] * v[place]
                total += rows.element(i, k) * own
            p = scale * total + bias
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        for r in range(size):
            if slopes[r] == 0.0:
                continue
            i = order[first + r]
            for k in range(rows.start(i), rows.stop(i)):
                j, x = rows.column(i, k), -eta * slopes[r] * rows.element(i, k) / scale
                for at in range(starts[j], starts[j + 1]):
                    place, group = places[at], homes[at]
                    old = v[place] if born[place] == generation[group] else 0.0
                    move = x / shrunk[group]
                    norms[group] += move * (2.0 * old + move)
                    v[place], born[place] = old + move, generation[group]
        steps += eta / scale
        scale /= 1.0 + eta * ridge
        if fit_bias:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
        if scale < _SMALL or step % _AGAIN == 0:
            for group in range(generation.size):
                _settle(group, steps, weights, generation, shrunk, norms, due)
                _rewrite(group, scale, pointers, v, born, generation, shrunk, norms)
                due[group] = 0.0
            scale, steps = 1.0, 0.0
    return scale, steps, bias, step, seen, paid


@njit(cache=True, nogil=True)
def _eager(rows, y, weight, order, loss, penalty, schedule, batch, fit_bias, state):
    """Any penalty: its proximal map on all groups after every mini-batch."""
    v, bias, step, seen, paid = state.direction, state.bias, state.step, state.seen, state.paid
    slopes = np.empty(batch)
    starts, places = penalty.starts, penalty.places
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        slope_sum = 0.0
        for r in range(size):
            i = order[first + r]
            p = bias
            for k in range(rows.start(i), rows.stop(i)):
                j, x = rows.column(i, k), rows.element(i, k)
                for at in range(starts[j], starts[j + 1]):
                    p += x * v[places[at]]
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        for r in range(size):
            i = order[first + r]
            for k in range(rows.start(i), rows.stop(i)):
                j, x = rows.column(i, k), eta * slopes[r] * rows.element(i, k)
                for at in range(starts[j], starts[j + 1]):
                    v[places[at]] -= x
        for group in range(penalty.pointers.size - 1):
            part = v[penalty.pointers[group] : penalty.pointers[group + 1]]
            penalty.prox_block(part, eta, group, part)
        if fit_bias:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
    return bias, step, seen, paid


@njit(cache=True, nogil=True)
def _settle_all(state, weights, pointers):
    for group in range(state.generation.size):
        _settle(group, state.steps, weights, state.generation, state.shrunk, state.norms, state.due)
        _rewrite(
            group, state.scale, pointers, state.direction, state.born, state.generation,
            state.shrunk, state.norms,
        )  # fmt: skip
        state.generation[group], state.due[group] = 0, 0.0
    state.born[:] = 0


def settled(problem: Problem, state: BlockProximalState) -> BlockProximalState:
    """A copy in which no group owes a step, and directions are weights."""
    state = copied(state)
    if "radial" not in problem.penalty.traits:
        return state
    penalty: Any = problem.penalty
    _settle_all(state, block_weights(penalty), penalty.pointers)
    return state._replace(scale=1.0, steps=0.0)


def block_copies(problem: Problem, state: BlockProximalState) -> np.ndarray:
    """The weights of the features."""
    penalty: Any = problem.penalty
    w = folded(penalty, settled(problem, state).direction)
    return w.astype(problem.dtype)
