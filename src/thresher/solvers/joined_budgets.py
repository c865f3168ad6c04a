r"""Budgeted machines of several shards as one: their mean, brought back under the budget.

The mean of the functions, :math:`\sum_m p_m f_m` with the shares of the rows, has the support
vectors of all.  Those that several shards hold, as they do where they began with the same ones, are
one; of the others as many are given up as exceed the budget, by the rule by which a machine gives
up its own (``merging.py``).  The average of the iterates goes the same way: both are linear in the
vectors.  Vectors are sorted first, so that the order of the shards does not matter.

Cost: O(K B) merges of O(D K B) each, for K shards and a budget of B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from thresher._lanes import LANES
from thresher._random import uniform
from thresher.solvers import merging
from thresher.solvers._states import copied, present
from thresher.solvers.merging import MERGE, PROJECT, RANDOM

__all__ = ["joined"]


def joined(
    states: Sequence[Any], base: Any, weights: Sequence[float], lam: float, rest: float,
    budget: int, maintenance: int, kernel: Any, table: Any, seed: int,
) -> Any:  # fmt: skip
    """One state; ``lam`` and ``rest`` give the length of a step, 1 / (lam step + rest)."""
    states, shares = present(states, weights)
    if len(states) < 2:
        return copied(states[0] if states else base)

    def mean(values: Any) -> Any:
        return sum(share * value for share, value in zip(shares, values, strict=True))

    step = round(mean(s.step for s in states))
    weight, total = mean(s.weight for s in states), mean(s.total for s in states)
    scale = lam * step + rest
    vectors, place = np.unique(
        np.concatenate([s.vectors[:, _used(s)].T for s in states]), axis=0, return_inverse=True
    )
    n, outputs = vectors.shape[0], base.coef.shape[0]
    slots = max(n, budget) + 1
    slots += -slots % LANES
    coef, average = np.zeros((outputs, slots)), np.zeros((outputs, slots))
    bias, average_bias = np.zeros(outputs), np.zeros(outputs)
    start = 0
    for state, share in zip(states, shares, strict=True):
        now, then = scale / max(lam * state.step + rest, 1e-300), 1.0 / max(state.total, 1e-300)
        used = _used(state)
        mine = place.ravel()[start : start + used.size]
        start += used.size
        own = state.coef[:, used].astype(np.float64)
        # No state holds a vector twice, so that places are different.
        coef[:, mine] += share * now * own
        average[:, mine] += share * then * (state.weight * own - state.lag[:, used])
        bias += share * now * state.bias
        average_bias += share * then * (state.weight * state.bias - state.bias_lag)
    large = base._replace(
        vectors=np.zeros((vectors.shape[1], slots), base.vectors.dtype),
        norms=np.zeros(slots, base.norms.dtype),
        coef=coef.astype(base.coef.dtype),
        lag=weight * coef - total * average,
        bias=bias, bias_lag=weight * bias - total * average_bias,
        inverse=np.zeros((slots, slots) if maintenance == PROJECT else (0, 0)),
        size=n, empty=n, step=step, weight=float(weight), total=float(total),
    )  # fmt: skip
    large.vectors[:, :n] = vectors.T
    large.norms[:n] = np.einsum("ij,ij->i", vectors, vectors)
    size = _reduced(kernel, large, n, budget, maintenance, seed, table)
    return _cut(large, base, size)


def _used(state: Any) -> np.ndarray:
    """Slots that hold a support vector."""
    slots = np.arange(state.size + 1)
    return slots[slots != state.empty]


def _cut(large: Any, base: Any, size: int) -> Any:
    """With the room that a state has."""
    slots = base.norms.size
    own = {
        name: np.ascontiguousarray(getattr(large, name)[..., :slots])
        for name in ("vectors", "norms", "coef", "lag")
    }
    inverse = np.zeros_like(base.inverse)
    if inverse.size:
        inverse[:size, :size] = large.inverse[:size, :size]
    return copied(large._replace(**own, inverse=inverse, size=size, empty=size))


@njit(cache=True, nogil=True)
def _reduced(kernel, state, size, budget, maintenance, seed, table):
    """Give up vectors until the budget is kept; those that are left lie side by side."""
    vectors, norms, coef, lag, inverse = (
        state.vectors, state.norms, state.coef, state.lag, state.inverse
    )  # fmt: skip
    columns, values = np.empty(vectors.shape[0], np.uint32), np.empty_like(vectors[:, 0])
    inner, kernels, mass, cost = (
        np.zeros_like(norms), np.zeros_like(norms), np.zeros_like(norms), np.zeros_like(norms)
    )  # fmt: skip
    if maintenance == PROJECT:
        _invert(kernel, vectors, norms, inverse, size)
    while size > budget:
        if maintenance == MERGE:
            gone = merging.merge_lightest(
                kernel, state, size, table, columns, values, inner, kernels, mass, cost
            )
        elif maintenance == PROJECT:
            gone = merging.project(coef, lag, inverse, size, mass)
        elif maintenance == RANDOM:
            gone = int(uniform(seed, state.step, size) * size)
        else:
            gone = merging.lightest(kernel, norms, coef, size, mass)
        size -= 1
        _move(vectors, norms, coef, lag, inverse, size, gone)
    return size


@njit(cache=True, nogil=True)
def _move(vectors, norms, coef, lag, inverse, last, gone):
    """The last vector into the slot of the one that has gone."""
    for d in range(vectors.shape[0]):
        vectors[d, gone] = vectors[d, last]
        vectors[d, last] = 0.0
    norms[gone] = norms[last]
    norms[last] = 0.0
    for c in range(coef.shape[0]):
        coef[c, gone], lag[c, gone] = coef[c, last], lag[c, last]
        coef[c, last], lag[c, last] = 0.0, 0.0
    if inverse.size > 0 and gone != last:
        own = inverse[last, last]
        for j in range(last):
            inverse[gone, j] = inverse[last, j]
            inverse[j, gone] = inverse[j, last]
        inverse[gone, gone] = own
    if inverse.size > 0:
        for j in range(last + 1):
            inverse[last, j] = 0.0
            inverse[j, last] = 0.0


@njit(cache=True, nogil=True)
def _invert(kernel, vectors, norms, inverse, size):
    """Q of all vectors, one after the other."""
    kernels, work = np.zeros_like(norms), np.zeros_like(norms)
    for i in range(size):
        for j in range(i):
            inner = norms.dtype.type(0.0)
            for d in range(vectors.shape[0]):
                inner += vectors[d, i] * vectors[d, j]
            kernels[j] = kernel.of(inner, norms[i], norms[j])
        kernels[i] = 0.0
        own = kernel.of(norms[i], norms[i], norms[i])
        merging.border(inverse, kernels, i, own, i + 1, work)
