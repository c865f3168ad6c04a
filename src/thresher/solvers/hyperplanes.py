r"""Multi-hyperplane machines: several linear functions per class, trained by stochastic steps.

Class i scores a row by its best weight, and the best class wins:

.. math:: g(i,x) = \max_j w_{ij}\cdot x, \qquad
          \min_W \frac\lambda2\|W\|^2 + \frac1n\sum_n s_n
          \max\bigl(0,\ 1 + \max_{i\ne y_n} g(i,x_n) - g(y_n,x_n)\bigr)

One weight per class is the multi-class SVM of Crammer and Singer (2001), and its stochastic
subgradient method multi-class Pegasos.  The *adaptive multi-hyperplane machine* (AMM; Wang, Djuric,
Crammer and Vucetic, 2011) gives every class one more weight that is still zero.  Being zero it
scores 0, so a row that all weights of its class put below 0 lands on it, and it becomes a weight of
its own (a *birth*) with a new zero weight behind it.  Every ``every`` steps the smallest weights
are *pruned* as long as their joint norm stays within ``threshold / (lambda t)``, at a price in
regret that is bounded (theorem 3 of the paper).  The *growing* machine (GAMM; Djuric, 2014, alg. 6)
also splits weights: a row that violates the margin clones its weight with probability ``clone``,
the clone takes the step, and the probability falls by the factor ``decay``.

With steps 1/(lambda t) the iterates are w = u / (lambda t), where u is the plain sum of the signed
rows that violated the margin: nothing is ever rescaled, the margin is compared with lambda t, and
pruning compares sums with ``threshold`` itself.  The mean of u over the last steps is the mean of w
with weights proportional to t (Lacoste-Julien, Schmidt and Bach, 2012); it is kept lazily, by one
more addition per violation.

Cost per row O(non-zeros x weights), a few vector operations for each non-zero: the weights of all
classes are lanes of one table (`hyperplane_lanes.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._lanes import (
    LANES,
    aligned,
    filled,
    first_own,
    first_rival,
    in_row,
    larger_own,
    larger_rival,
    largest,
    multiply_add,
    plus,
    read,
    whole_registers,
    write,
)
from thresher._random import uniform
from thresher._rows import AHEAD
from thresher.solvers.base import Chunk
from thresher.solvers.hyperplane_lanes import (
    SLOTS,
    HyperplaneState,
    compacted,
    copy_lane,
    free_lane,
    prune,
    settle,
    widened,
    zero_lane,
)

__all__ = ["Hyperplanes", "Planes"]

_LONG = 64  # elements of a row from which on looking for zeros pays


class Planes(NamedTuple):
    """The model: rows of ``coef`` are weights, sorted by the class they belong to."""

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray
    ids: np.ndarray


@njit(cache=True, nogil=True, inline="always")
def _margins(rows, i, label, sums, bias, owner, margins):
    """margins = x_i . u for all lanes; returns the largest of the class, and of all others.

    A block of lanes at a time, in four sums that do not wait for each other.  Four features that
    are zero are passed over in long rows only: in short ones a wrong guess costs more than it
    saves.  Inlined, because a call would pass dozens of fields of arrays through memory; positions
    are unsigned for the reason that column numbers are (`_rows.py`).
    """
    start, stop = rows.start(i), rows.stop(i)
    whole = stop - (stop - start) % 4
    short = stop - start < _LONG
    own, rival = filled(bias, -np.inf), filled(bias, -np.inf)
    for at in range(0, margins.size, LANES):
        a, b, c, d = read(bias, at), filled(bias, 0.0), filled(bias, 0.0), filled(bias, 0.0)
        for k in range(start, whole, 4):
            k0, k1, k2, k3 = np.uint64(k), np.uint64(k + 1), np.uint64(k + 2), np.uint64(k + 3)
            x0, x1 = rows.element(i, k0), rows.element(i, k1)
            x2, x3 = rows.element(i, k2), rows.element(i, k3)
            if short or x0 != 0.0 or x1 != 0.0 or x2 != 0.0 or x3 != 0.0:
                a = multiply_add(a, x0, read(sums, in_row(sums, rows.column(i, k0), at)))
                b = multiply_add(b, x1, read(sums, in_row(sums, rows.column(i, k1), at)))
                c = multiply_add(c, x2, read(sums, in_row(sums, rows.column(i, k2), at)))
                d = multiply_add(d, x3, read(sums, in_row(sums, rows.column(i, k3), at)))
        for k in range(whole, stop):
            k0 = np.uint64(k)
            weights = read(sums, in_row(sums, rows.column(i, k0), at))
            a = multiply_add(a, rows.element(i, k0), weights)
        a = plus(plus(a, b), plus(c, d))
        write(a, margins, at)
        own = larger_own(own, a, owner, at, label)
        rival = larger_rival(rival, a, owner, at, label)
    return largest(own), largest(rival)


@njit(cache=True, nogil=True)
def _where(margins, owner, label, value, same):
    """The first lane of the class (of another class, if not ``same``) with that margin."""
    for at in range(0, margins.size, LANES):
        block = read(margins, at)
        if same:
            lane = first_own(block, value, owner, at, label)
        else:
            lane = first_rival(block, value, owner, at, label)
        if lane < LANES:
            return at + lane
    return 0  # only NaN gets here; the caller finds it in the model


@njit(cache=True, nogil=True)
def _visit(
    rows, y, weight, order, start, assigned, frozen, lam, cap, every, threshold, constant, decay,
    seed, state,
):  # fmt: skip
    """Steps on order[start:]; stops early for want of lanes, or after a prune that freed many.

    ``assigned`` holds the id of each row's weight of its own class: read if ``frozen``, else
    written; empty where nobody asks.  Returns the state, the rows done, and whether lanes
    are wanting.
    """
    sums, late, bias, late_bias = state.sums, state.late, state.bias, state.late_bias
    owner, ids, hits = state.owner, state.ids, state.hits
    sqnorm, sizes, chance = state.sqnorm, state.sizes, state.chance
    step, violations, averaged = state.step, state.violations, state.averaged
    serial, births, prunes, clones = state.serial, state.births, state.prunes, state.clones
    lanes = owner.size
    margins = np.empty(lanes, dtype=sums.dtype)
    free = 0
    for s in range(lanes):
        free += owner[s] < 0
    averaging = late.shape[0] > 0
    done, full = order.size, False
    for r in range(start, order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        label = y[i]
        own, rival = _margins(rows, i, label, sums, bias, owner, margins)
        mine = -1
        if frozen:
            lane = assigned[i] % SLOTS
            if lane < lanes and ids[lane] == assigned[i] and owner[lane] == label:
                mine, own = lane, margins[lane]  # a pruned one is replaced by the best
        if own - rival < lam * step or step == 0:
            if mine < 0:
                mine = _where(margins, owner, label, own, True)
            other = _where(margins, owner, label, rival, False)
            split = chance > 0.0 and hits[mine] > 0 and sizes[label] < cap
            split = split and uniform(seed, step, 0) < chance
            if free < split + (hits[mine] == 0) + (hits[other] == 0):
                done, full = r, True
                break
            if split:
                lane = free_lane(owner)
                if sizes[label] + 1 == cap:  # a full class needs its zero weight no more
                    lane, free = zero_lane(owner, hits, label), free + 1
                serial = settle(owner, ids, hits, lane, label, serial)
                copy_lane(state, mine, lane)
                margins[lane] = margins[mine]
                mine = lane
                sizes[label] += 1
                free -= 1
                clones += 1
                chance *= decay
            violations += 1
            size = weight[i] if weight.size > 1 else 1.0
            up, square = sums.dtype.type(size), rows.sqnorm(i)
            for k in range(rows.start(i), rows.stop(i)):
                x, j = rows.element(i, k), rows.column(i, k)
                sums[j, mine] += up * x
                sums[j, other] -= up * x
            push = size * constant * constant
            bias[mine] += push
            bias[other] -= push
            square += constant * constant
            if averaging:
                past = sums.dtype.type(size * averaged)
                for k in range(rows.start(i), rows.stop(i)):
                    x, j = rows.element(i, k), rows.column(i, k)
                    late[j, mine] += past * x
                    late[j, other] -= past * x
                late_bias[mine] += push * averaged
                late_bias[other] -= push * averaged
            sqnorm[mine] = max(sqnorm[mine] + size * (2.0 * margins[mine] + size * square), 0.0)
            sqnorm[other] = max(sqnorm[other] - size * (2.0 * margins[other] - size * square), 0.0)
            for s in (mine, other):
                hits[s] += 1
                if hits[s] == 1:
                    births += 1
                    sizes[owner[s]] += 1
                    if sizes[owner[s]] < cap:
                        serial = settle(owner, ids, hits, free_lane(owner), owner[s], serial)
                        free -= 1
        if assigned.size:
            assigned[i] = ids[mine if mine >= 0 else _where(margins, owner, label, own, True)]
        step += 1
        averaged += averaging
        if step % every == 0:
            pruned, serial = prune(state, threshold, cap, serial)
            prunes += pruned
            free = 0
            for s in range(lanes):
                free += owner[s] < 0
            if free >= LANES:
                done = r + 1
                break
    return HyperplaneState(
        sums, bias, late, late_bias, owner, ids, hits, sqnorm, sizes, chance, step,
        violations, averaged, serial, births, prunes, clones,
    ), done, full  # fmt: skip


@njit(cache=True, nogil=True)
def _assign(rows, y, order, state, assigned):
    """Give every row the best weight of its class, the zero weight included; count the changes."""
    margins = np.empty(state.owner.size, dtype=state.sums.dtype)
    changes = 0
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        own, _ = _margins(rows, i, y[i], state.sums, state.bias, state.owner, margins)
        new = state.ids[_where(margins, state.owner, y[i], own, True)]
        changes += new != assigned[i]
        assigned[i] = new
    return changes


@dataclass(frozen=True)
class Hyperplanes:
    """Multi-hyperplane machine as a state and an update.

    Parameters
    ----------
    lam : strength of the penalty
    cap : most weights of a class; 1 is multi-class Pegasos
    every : steps between prunes
    threshold : joint norm, in sums of rows, of the weights that one prune may delete; 0: none
    constant : value of the constant feature that gives weights an intercept; 0: none
    clone, decay : probability of splitting the weight of a row that violates the margin, and its
        factor after each split; 0: never
    seed : of the draws for ``clone``
    """

    lam: float = 1e-4
    cap: int = 50
    every: int = 10_000
    threshold: float = 10.0
    constant: float = 1.0
    clone: float = 0.0
    decay: float = 0.99
    seed: int = 0

    def __post_init__(self) -> None:
        positive = {"lam": self.lam, "cap": self.cap, "every": self.every}
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"Hyperplanes: {name} must be positive, got {value}")
        for name, value in (("threshold", self.threshold), ("constant", self.constant)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Hyperplanes: {name} must be at least 0, got {value}")
        for name, value in (("clone", self.clone), ("decay", self.decay)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"Hyperplanes: {name} must lie in 0 .. 1, got {value}")

    def init(self, n_features: int, n_classes: int, dtype: Any) -> HyperplaneState:
        """No weight yet, one zero weight for each class."""
        lanes = whole_registers(n_classes)
        owner = np.full(lanes, -1, dtype=np.int32)
        owner[:n_classes] = np.arange(n_classes)
        ids = np.zeros(lanes, dtype=np.int64)
        ids[:n_classes] = np.arange(n_classes) * (SLOTS + 1)
        return HyperplaneState(
            aligned((n_features, lanes), dtype), np.zeros(lanes, dtype),
            np.zeros((0, lanes), dtype), np.zeros(lanes), owner, ids,
            np.zeros(lanes, np.int64), np.zeros(lanes), np.zeros(n_classes, np.int64),
            float(self.clone), 0, 0, 0, n_classes, 0, 0, 0,
        )  # fmt: skip

    def update(
        self,
        state: HyperplaneState,
        chunk: Chunk,
        assigned: np.ndarray | None = None,
        frozen: bool = False,
    ) -> HyperplaneState:
        """One step for each row of ``chunk.order``; its targets are class numbers (int32).

        ``assigned`` (int64, one per row) takes the id of each row's weight; ``frozen``: steps obey
        the ids it holds instead.
        """
        ids = np.zeros(0, np.int64) if assigned is None else assigned
        start = 0
        while True:
            state, start, full = _visit(
                *chunk, start, ids, frozen, float(self.lam), self.cap, self.every,
                float(self.threshold), float(self.constant), float(self.decay), self.seed, state,
            )  # fmt: skip
            if full:
                state = widened(state)
            elif state.step % self.every == 0 and np.count_nonzero(state.owner < 0) >= LANES:
                state = compacted(state, ids)
            if start == chunk.order.size:
                return state

    def averaging(self, state: HyperplaneState) -> HyperplaneState:
        """The same state, averaging from now on."""
        return state._replace(
            late=aligned(state.sums.shape, state.sums.dtype),
            late_bias=np.zeros_like(state.late_bias),
            averaged=0,
        )

    def assign(self, state: HyperplaneState, chunk: Chunk, assigned: np.ndarray) -> int:
        """Give each row the best weight of its class; returns how many rows changed theirs."""
        return int(_assign(chunk.rows, chunk.y, chunk.order, state, assigned))

    def finish(self, state: HyperplaneState) -> Planes:
        """The weights (of the average, if there is one); a class without any has a zero weight."""
        lanes = np.flatnonzero(state.hits > 0)
        empty = [np.flatnonzero(state.owner == c)[0] for c in np.flatnonzero(state.sizes == 0)]
        lanes = np.concatenate([lanes, np.array(empty, dtype=lanes.dtype)])
        lanes = lanes[np.lexsort((state.ids[lanes], state.owner[lanes]))]
        coef = state.sums[:, lanes].T.astype(np.float64)
        intercept = state.bias[lanes].astype(np.float64)
        if state.averaged:
            coef -= state.late[:, lanes].T / state.averaged
            intercept -= state.late_bias[lanes] / state.averaged
        # u = lambda t w: divide by the mean t of what was averaged.
        unit = 1.0 / (self.lam * max(state.step - 0.5 * max(state.averaged - 1, 0), 1.0))
        coef = np.ascontiguousarray(unit * coef).astype(state.sums.dtype)
        return Planes(coef, unit * intercept, state.owner[lanes], state.ids[lanes] // SLOTS)
