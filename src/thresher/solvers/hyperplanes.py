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
from dataclasses import dataclass, replace
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
from thresher.functions import Planes
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.hyperplane_lanes import (
    SLOTS,
    HyperplaneState,
    averaging,
    check_lanes,
    compacted,
    copy_lane,
    free_lane,
    prune,
    settle,
    widened,
    zero_lane,
)

__all__ = ["Hyperplanes", "PlanesState"]

_LONG = 64  # elements of a row from which on looking for zeros pays


class PlanesState(NamedTuple):
    """The lanes, and where a run of passes stands."""

    lanes: HyperplaneState
    assigned: np.ndarray  # the id of each row's weight of its own class; empty if nobody asks
    passes: int = 0
    violations: int = 0  # before this pass
    start: int = 0  # steps before this pass
    settled: bool = False  # no row has changed its weight: one more pass, to be averaged

    @property
    def step(self) -> int:
        return self.lanes.step


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
    # A plain tuple: an interrupt while Python builds a NamedTuple for compiled code is fatal.
    return (
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
class Hyperplanes(Solver):
    """Multi-hyperplane machine; targets are class numbers, also of two classes.

    The strength of the penalty is lambda.

    Parameters
    ----------
    cap : int, default=50
        Most weights of a class; 1 is multi-class Pegasos.
    every : int, default=10000
        Steps between prunes.
    threshold : float, default=10.0
        Joint norm, in sums of rows, of the weights that one prune may delete; 0: none.
    constant : float, default=1.0
        Value of the constant feature that gives weights an intercept; 0: none.
    clone, decay : float, default=0.0 and 0.99
        Probability of splitting the weight of a row that violates the margin, and its factor after
        each split; 0: never.
    average : bool, default=True
        The model is the average over the last pass (of a stream: over all steps, late ones counting
        more) instead of the last iterate.
    alternating : bool, default=False
        Keep the choice of each row's weight during a pass, and revise it between passes.
    sub_epochs : int, default=1
        Passes between revisions.
    endless : bool, default=False
        Rows come in a stream: average from the start; set by ``for_stream``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import Hinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.hyperplanes import Hyperplanes
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(float)
    >>> problem = Problem(Hinge(), L2(1e-3), 2, outputs=2)
    >>> found = driver.learn(Hyperplanes(), problem, driver.whole(as_rows(X), y), driver.Plan(5))
    >>> bool(np.mean((found.function.scores(X)[:, 0] > 0) == y) > 0.95)
    True
    """

    cap: int = 50
    every: int = 10_000
    threshold: float = 10.0
    constant: float = 1.0
    clone: float = 0.0
    decay: float = 0.99
    average: bool = True
    alternating: bool = False
    sub_epochs: int = 1
    endless: bool = False  # a stream: averages from the start
    penalty_needs = frozenset({"quadratic", "uniform"})
    default_passes = 5
    joint = True
    by_codes = True
    linear = False
    asks_function = False  # with many features it costs as much as a pass

    @property
    def no_merger(self) -> str:
        return (
            "the mean of functions that are each the best of several planes is not the best of a "
            "few planes again"
        )

    def __post_init__(self) -> None:
        positive: dict[str, float] = {
            "cap": self.cap,
            "every": self.every,
            "sub_epochs": self.sub_epochs,
        }
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"Hyperplanes: {name} must be positive, got {value}")
        for name, value in (("threshold", self.threshold), ("constant", self.constant)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Hyperplanes: {name} must be at least 0, got {value}")
        for name, share in (("clone", self.clone), ("decay", self.decay)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"Hyperplanes: {name} must lie in 0 .. 1, got {share}")

    @property
    def streaming(self) -> bool:  # type: ignore[override]
        return not self.alternating

    @property
    def by_rows(self) -> bool:
        return True

    def check(self, problem: Problem) -> None:
        if not (problem.ridge > 0.0 and math.isfinite(problem.ridge)):
            raise ValueError(f"alpha must be positive and finite, got {problem.ridge}")

    def for_stream(self, problem: Problem) -> Solver:
        return replace(self, endless=True)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> PlanesState:
        """No weight yet, one zero weight for each class."""
        classes, dtype = problem.outputs, problem.dtype
        lanes = whole_registers(classes)
        owner = np.full(lanes, -1, dtype=np.int32)
        owner[:classes] = np.arange(classes)
        ids = np.zeros(lanes, dtype=np.int64)
        ids[:classes] = np.arange(classes) * (SLOTS + 1)
        fresh = HyperplaneState(
            aligned((problem.n_features, lanes), dtype), np.zeros(lanes, dtype),
            np.zeros((0, lanes), dtype), np.zeros(lanes), owner, ids,
            np.zeros(lanes, np.int64), np.zeros(lanes), np.zeros(classes, np.int64),
            float(self.clone), 0, 0, 0, classes, 0, 0, 0,
        )  # fmt: skip
        if self.average and self.endless:
            fresh = averaging(fresh)
        rows = chunk.size if self.alternating and chunk is not None else 0
        return PlanesState(fresh, np.full(rows, -1, np.int64))

    def update(self, problem: Problem, state: PlanesState, chunk: Chunk) -> PlanesState:
        """One step for each row of ``chunk.order``."""
        lanes, start = state.lanes, 0
        frozen = self.alternating and state.passes > 0
        rows, weight, order = chunk.rows, chunk.weight, chunk.order
        codes = np.ascontiguousarray(chunk.y, dtype=np.int32)
        while True:
            found, start, full = _visit(
                rows, codes, weight, order, start, state.assigned, frozen, problem.ridge, self.cap,
                self.every, float(self.threshold), float(self.constant), float(self.decay),
                problem.seed, lanes,
            )  # fmt: skip
            lanes = HyperplaneState(*found)
            if full:
                lanes = widened(lanes)
            elif lanes.step % self.every == 0 and np.count_nonzero(lanes.owner < 0) >= LANES:
                lanes = compacted(lanes, state.assigned)
            if start == order.size:
                return state._replace(lanes=lanes)

    def between(
        self, problem: Problem, state: PlanesState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> PlanesState:  # fmt: skip
        """Revise each row's weight, and average the last pass."""
        lanes, settled = state.lanes, False
        if self.alternating and done > 1 and (done - 1) % self.sub_epochs == 0:
            assert chunk is not None
            codes = np.ascontiguousarray(chunk.y, dtype=np.int32)
            settled = not _assign(chunk.rows, codes, chunk.order, lanes, state.assigned)
        last = settled or (planned is not None and done == planned - 1)
        if self.average and not self.endless and last:
            lanes = averaging(lanes)
        return PlanesState(lanes, state.assigned, done, lanes.violations, lanes.step, settled)

    def residual(self, problem: Problem, state: PlanesState, before: Any, after: Any) -> float:
        """The share of the pass's rows that violated their margin."""
        return (state.lanes.violations - state.violations) / max(state.step - state.start, 1)

    def is_sound(self, problem: Problem, state: PlanesState) -> bool:
        return bool(np.all(np.isfinite(state.lanes.sqnorm)))

    def is_done(self, problem: Problem, state: PlanesState, residual: float) -> bool:
        return state.settled

    def finish(self, problem: Problem, state: PlanesState) -> Planes:
        """The weights (of the average, if there is one); a class without any has a zero weight."""
        found = state.lanes
        lanes = np.flatnonzero(found.hits > 0)
        empty = [np.flatnonzero(found.owner == c)[0] for c in np.flatnonzero(found.sizes == 0)]
        lanes = np.concatenate([lanes, np.array(empty, dtype=lanes.dtype)])
        lanes = lanes[np.lexsort((found.ids[lanes], found.owner[lanes]))]
        coef = found.sums[:, lanes].T.astype(np.float64)
        intercept = found.bias[lanes].astype(np.float64)
        if found.averaged:
            coef -= found.late[:, lanes].T / found.averaged
            intercept -= found.late_bias[lanes] / found.averaged
        # u = lambda t w: divide by the mean t of what was averaged.
        unit = 1.0 / (problem.ridge * max(found.step - 0.5 * max(found.averaged - 1, 0), 1.0))
        coef = np.ascontiguousarray(unit * coef).astype(found.sums.dtype)
        return Planes(coef, unit * intercept, found.owner[lanes], found.ids[lanes] // SLOTS)

    def check_state(self, problem: Problem, state: PlanesState) -> None:
        if not isinstance(state, PlanesState) or self.alternating:
            raise ValueError("the state is not one of a stream of hyperplanes")
        check_lanes(state.lanes, self.init(problem).lanes, problem.outputs, self.cap)
        counts = (state.passes, state.violations, state.start)
        if not all(type(n) is int and n >= 0 for n in counts) or state.assigned.size:
            raise ValueError("the state's counts are damaged")
