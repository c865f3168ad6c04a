r"""Proximal Newton over groups: the steps of ``proximal_newton.py`` on a working set of groups.

The state holds the weights of the copies of features, group after group.  Newcomers to the working
set are the groups that a proximal gradient step would move most, for their size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.penalties.blocks import GroupPenalty
from thresher.solvers._block_descent import Blocks, blocks_by_columns, blocks_by_matrix, widest
from thresher.solvers._working_set import is_dense, model_of
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.newton import derivatives, predicted_move, shifted_loss

__all__ = ["BlockStep", "block_step"]

_FEW = 10  # groups that a working set begins with, whatever their size


@njit(cache=True, nogil=True)
def _moves(v, gradient, penalty, moves, alive):
    """How far a proximal gradient step of length one would move each group, for its size."""
    room = np.empty(widest(penalty.pointers))
    for group in range(moves.size):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        block, total = room[: stop - start], 0.0
        alive[group] = False
        for k in range(start, stop):
            block[k - start] = v[k] - gradient[penalty.order[k]]
            alive[group] = alive[group] or v[k] != 0.0
        penalty.prox_block(block, 1.0, group, block)
        for k in range(start, stop):
            total += (block[k - start] - v[k]) ** 2
        moves[group] = math.sqrt(total / (stop - start))


@njit(cache=True, nogil=True)
def _value(penalty, groups, bounds, v, target, t):
    """The penalty of these groups at share t of the way from v to target."""
    total = 0.0
    room = np.empty(v.size)
    for g in range(groups.size):
        start, stop = bounds[g], bounds[g + 1]
        for a in range(start, stop):
            room[a] = target[a] if t == 1.0 else v[a] + t * (target[a] - v[a])
        total += penalty.value_block(room[start:stop], groups[g])
    return total


class _Ends(NamedTuple):
    """A step along the working set, from v to target."""

    penalty: Any
    groups: np.ndarray
    bounds: np.ndarray
    v: np.ndarray
    target: np.ndarray


class BlockStep(NamedTuple):
    """Where a step has led, the decrease that it predicted, and the objective before it."""

    v: np.ndarray  # weights of the copies
    bias: float
    p: np.ndarray
    decrease: float
    value: float


def block_step(
    problem: Problem, chunk: Chunk, v: np.ndarray, bias: float, p: np.ndarray, first: int,
    largest: int, sampled: Any,
) -> BlockStep:  # fmt: skip
    """One step of proximal Newton; ``sampled(size)`` gives rows for a Hessian of this size.

    The decrease that is predicted is infinite while groups outside the working set want to move.
    """
    _, _, weight, order = chunk
    penalty: Any = problem.penalty
    d, n = problem.n_features, float(np.sum(weight[order]))
    gradient = np.zeros(d + 1)
    value = derivatives(*chunk, problem.loss, p, gradient, np.zeros((0, 0)), False) / n
    gradient /= n
    everyone = np.arange(penalty.n_groups)
    value += _value(penalty, everyone, penalty.pointers, v, v, 1.0)
    chosen, complete = _working_set(penalty, v, gradient, first)
    blocks, copies, features = _blocks(penalty, chosen)
    model = model_of(problem, chunk, p, features, gradient)
    own = v[copies]
    # Of fewer dense rows than features their columns are the smaller copy.
    if is_dense(chunk.rows):
        largest = min(largest, order.size)
    if features.size > largest:
        target = blocks_by_columns(problem, chunk, p, model, blocks, own, not complete)
    else:
        target = blocks_by_matrix(problem, chunk, p, model, blocks, own, sampled(features.size))
    delta = np.bincount(blocks.at, target - own, features.size)
    shift = model.bias(delta) if problem.fit_intercept else 0.0
    along = predicted_move(chunk, features, delta, shift)
    ends = _Ends(penalty, blocks.groups, blocks.bounds, own, target)
    at_start = _value(*ends, 0.0)
    slope = float(gradient[features] @ delta + gradient[d] * shift)
    predicted = -(slope + _value(*ends, 1.0) - at_start)
    t = _searched(problem, chunk, p, along, ends, predicted, value, n)
    moved = v.copy()
    moved[copies] = target if t == 1.0 else own + t * (target - own)
    return BlockStep(
        moved, bias + t * shift, p + t * along, predicted if complete else math.inf, value
    )


def _searched(
    problem: Problem, chunk: Chunk, p: np.ndarray, along: np.ndarray, ends: _Ends, predicted: float,
    value: float, n: float,
) -> float:  # fmt: skip
    """The share of the step to take: halved until the objective falls as it should."""
    _, y, weight, order = chunk
    at_start = _value(*ends, 0.0)
    base = shifted_loss(y, weight, order, problem.loss, p, along, 0.0) / n
    t = 1.0
    while t > 1e-25:
        new = shifted_loss(y, weight, order, problem.loss, p, along, t) / n
        change = new - base + _value(*ends, t) - at_start
        if change <= -1e-3 * t * predicted + 1e-14 * value:
            return t
        t *= 0.5
    return 0.0


def _working_set(
    penalty: GroupPenalty, v: np.ndarray, gradient: np.ndarray, first: int
) -> tuple[np.ndarray, bool]:
    """Non-zero groups and the likeliest newcomers; whether nobody else wants to move."""
    moves, alive = np.empty(penalty.n_groups), np.empty(penalty.n_groups, np.bool_)
    _moves(v, gradient, penalty, moves, alive)
    moves[alive] = 0.0
    wanted = np.flatnonzero(moves > 1e-9 * max(float(np.max(np.abs(gradient[:-1]))), 1e-300))
    wanted = wanted[np.argsort(-moves[wanted], kind="stable")]
    sizes = np.diff(penalty.pointers)
    room = max(first, 2 * int(sizes[alive].sum()))
    # As many as fit, and a few at least.
    taken = wanted[: max(int(np.searchsorted(np.cumsum(sizes[wanted]), room, "right")), _FEW)]
    return np.sort(np.concatenate([np.flatnonzero(alive), taken])), taken.size == wanted.size


def _blocks(penalty: GroupPenalty, groups: np.ndarray) -> tuple[Blocks, np.ndarray, np.ndarray]:
    """The working set of these groups, where its copies are among all, and its features."""
    sizes = np.diff(penalty.pointers)[groups]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], sizes)
    copies = np.repeat(penalty.pointers[groups], sizes) + within
    features = penalty.order[copies]
    at = np.arange(features.size)
    if penalty.overlaps:
        features, at = np.unique(features, return_inverse=True)
    return Blocks(groups, bounds, at), copies, features
