r"""A visit of block descent: the quadratic model minimised over one group, all others held.

Where the group's term is a norm and a ridge (the trait ``radial``) and the group not too large, the
minimum is known.  In the axes of its own block of S, which are turned once a step, the block is
diagonal, and turning changes no norm: with the curvatures h along them it is the problem of a row
of many tasks (``_task_descent.py``), one equation for one number.  So features of a group may have
units as different as they like.  Otherwise a visit takes proximal gradient steps, which the block's
largest eigenvalue bounds, until the group has settled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.penalties.blocks import GroupPenalty, block_weights
from thresher.solvers._task_descent import solve_row

__all__ = ["EXACT", "Norms", "axes_of", "largest_eigenvalue", "minimise", "norms_of", "settle"]

EXACT = 64  # features of a group up to which its eigenvalues are worked out
_WITHIN = 20  # steps within a group before the others are told
_FLAT, _FLAT_SINGLE = 1e-12, 1e-6  # of each feature's curvature: what is added to it
_STILL = 1e-28  # of the squared weights of a group: moves below it are rounding


class Norms(NamedTuple):
    """Of a penalty whose terms are weight ||v|| + ridge / 2 ||v||^2: the weights of some groups.

    Without weights it is another.
    """

    weights: np.ndarray
    ridge: float


def norms_of(penalty: Any, groups: np.ndarray) -> Norms:
    """The terms of some groups, where they are multiples of their norms and a ridge."""
    assert isinstance(penalty, GroupPenalty)
    if "radial" not in penalty.traits:
        return Norms(np.zeros(0), 0.0)
    return Norms(block_weights(penalty)[groups], float(penalty.ridge))


@njit(cache=True, nogil=True)
def largest_eigenvalue(own):
    """Of a small symmetric matrix, or a bound of it."""
    size = own.shape[0]
    if size == 1:
        return own[0, 0]
    if size <= EXACT:
        return np.linalg.eigvalsh(own)[size - 1]
    most, total = 0.0, 0.0
    for a in range(size):
        line = 0.0
        for b in range(size):
            line += abs(own[a, b])
            total += own[a, b] * own[a, b]
        most = max(most, line)
    return min(most, math.sqrt(total))


@njit(cache=True, nogil=True)
def settle(own, bound, penalty, group, point, slope, trial):
    """Minimise over one group; ``slope`` and ``point`` move along.  The first move, squared."""
    first, size = 0.0, point.size
    for turn in range(_WITHIN):
        for k in range(size):
            trial[k] = point[k] - slope[k] / bound
        penalty.prox_block(trial[:size], 1.0 / bound, group, trial[:size])
        change = 0.0
        for k in range(size):
            trial[k] -= point[k]
            change += trial[k] * trial[k]
        if change == 0.0:
            break
        for a in range(size):
            move = trial[a]
            if move != 0.0:
                point[a] += move
                for b in range(size):
                    slope[b] += move * own[a, b]
        if turn == 0:
            first = change
        if size == 1 or change <= 1e-8 * first:
            break
    return first


@njit(cache=True, nogil=True)
def axes_of(own, single, curves):
    """The axes of a block, as columns in its place, and its curvatures along them."""
    size = own.shape[0]
    for a in range(size):  # beyond what rounding may take away from a sum of features
        own[a, a] *= 1.0 + (_FLAT_SINGLE if single else _FLAT)
    values, vectors = np.linalg.eigh(own)
    for a in range(size):
        curves[a] = max(values[a], 0.0)
        for b in range(size):
            own[a, b] = vectors[a, b]


@njit(cache=True, nogil=True)
def minimise(axes, curves, weight, ridge, point, slope, room):
    """Minimise over one group whose term is weight ||v|| + ridge / 2 ||v||^2; ``point`` moves."""
    size = point.size
    before, c, new = room[0, :size], room[1, :size], room[2, :size]
    before[:], c[:] = 0.0, 0.0
    for a in range(size):
        for b in range(size):
            before[b] += axes[a, b] * point[a]
            c[b] -= axes[a, b] * slope[a]
    for b in range(size):
        c[b] += curves[b] * before[b]
        new[b] = before[b]
    solve_row(c, curves, weight, 0.0, ridge, new)
    square, change = 0.0, 0.0
    for b in range(size):
        square += new[b] * new[b]
        change += (new[b] - before[b]) ** 2
    if change <= _STILL * square:
        return
    for a in range(size):
        point[a] = 0.0
        for b in range(size):
            point[a] += axes[a, b] * new[b]
