r"""Dual coordinate descent: exact, parameter-free steps on one dual variable at a time.

With costs :math:`c_i = s_i / (\lambda \sum s)` the problem divided by lambda reads

.. math:: \min_w \tfrac12\|w\|^2 + \sum_i c_i\,\ell(y_i, w\cdot x_i)
          \quad\text{with dual}\quad
          \min_b \tfrac12\|\sum_i b_i x_i\|^2 + \sum_i c_i\,\ell^*(y_i, -b_i/c_i),

and :math:`w = \sum_i b_i x_i`.  A visit of row i solves the dual in :math:`b_i` alone (the loss's
``dual_step``) and updates w: O(non-zeros).  Hsieh et al. (2008); Yu, Huang and Lin (2011) for the
logistic loss; Ho and Lin (2012) for regression.

*Stopping*: :math:`\sum_i c_i\ell(y_i,p_i) + c_i\ell^*(y_i,-b_i/c_i) + b_i p_i` is the duality gap;
its terms are at hand as the rows are visited, so a slightly stale gap is free.  Before a run is
called converged the gap is taken once more, of all rows at the final weights.

*Shrinking*, for any loss: a row rests when the loss is one straight line with slope -b_i/c_i on a
window around its prediction wider than the last pass's largest change.  All rows return for the
final verification.

The intercept is a constant feature and so penalised, as in LIBLINEAR; ``intercept_scaling`` weakens
that.  Where targets are numbers it is pulled to their mean, which is the prediction at w = 0: added
to :math:`p_i`, it leaves all of the above as it is.
"""

from __future__ import annotations

import functools
import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import shuffle
from thresher._rows import AHEAD
from thresher.functions import LinearFunction
from thresher.solvers._batch import add_rows
from thresher.solvers._targets import origin_of
from thresher.solvers.base import Chunk, Near, Problem, Solver

__all__ = ["DualDescent"]


class DualDescentState(NamedTuple):
    w: np.ndarray
    bias: np.ndarray  # one number
    dual: np.ndarray
    sqnorm: np.ndarray
    origin: float  # the prediction where all weights are zero
    active: np.ndarray  # all rows; the first n_active still move
    n_active: int
    resting: float  # loss of the other rows when they were last seen
    reach: float  # the last pass's largest change of a prediction: the shrinking window
    step: int
    gap: float  # relative duality gap of the last pass
    verifying: bool  # the next pass visits every row on one thread, to confirm the gap
    verified: bool  # the last pass did


@njit(cache=True, nogil=True)
def _norms(rows, bias_square, sqnorm):
    for i in range(sqnorm.size):
        sqnorm[i] = rows.sqnorm(i) + bias_square


@njit(cache=True, nogil=True)
def _pass(
    rows, y, cost, active, n_active, dual, sqnorm, w, bias, scaling, origin, loss, reach, seed,
    boost,
):  # fmt: skip
    """Visit the active rows once in random order; returns the new count and the gap's parts.

    ``boost`` is the number of threads: each row then counts for as many, so that the sum of the
    threads' steps is safe (CoCoA+).
    """
    shuffle(active[:n_active], seed % 2147483646 + 1)
    gap, primal, rested, largest = 0.0, 0.0, 0.0, 0.0
    r = 0
    while r < n_active:
        i = active[r]
        rows.fetch(active[min(r + AHEAD, n_active - 1)])
        q, c, b = boost * sqnorm[i], cost[i], dual[i]
        if q == 0.0 or c == 0.0:
            r += 1
            continue
        p = rows.dot(i, w) + scaling * bias[0] + origin
        value = c * loss.value(y[i], p)
        gap += value + c * loss.conjugate(y[i], -b / c) + b * p
        primal += value
        new = loss.dual_step(y[i], p, b, q, c)
        change = new - b
        if change != 0.0:
            dual[i] = new
            rows.add(i, boost * change, w)
            bias[0] += boost * scaling * change
            largest = max(largest, abs(change) * q)
        elif c * loss.deriv(y[i], p - reach) == -b and c * loss.deriv(y[i], p + reach) == -b:
            n_active -= 1
            active[r] = active[n_active]
            active[n_active] = i
            rested += value
            continue
        r += 1
    norm = bias[0] * bias[0]
    for j in range(w.size):
        norm += w[j] * w[j]
    return n_active, gap, primal, rested, largest, norm


@njit(cache=True, nogil=True)
def _duality_gap(rows, y, cost, active, dual, sqnorm, w, bias, scaling, origin, loss):
    """Gap and primal objective at these weights and dual variables."""
    gap, primal = 0.0, 0.5 * bias[0] * bias[0]
    for j in range(w.size):
        primal += 0.5 * w[j] * w[j]
    for r in range(active.size):
        i = active[r]
        c, b = cost[i], dual[i]
        if sqnorm[i] == 0.0 or c == 0.0:
            continue
        p = rows.dot(i, w) + scaling * bias[0] + origin
        value = c * loss.value(y[i], p)
        gap += value + c * loss.conjugate(y[i], -b / c) + b * p
        primal += value
    return gap, primal


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Kept between passes, which may last less than starting a thread."""
    return ThreadPoolExecutor(threads)


@dataclass(frozen=True)
class DualDescent(Solver):
    """Dual coordinate descent: exact, parameter-free steps on one dual variable at a time.

    The default where features outnumber rows, and for the optimum of the hinge and
    epsilon-insensitive losses.

    Parameters
    ----------
    intercept_scaling : float, default=1.0
        Value of the constant feature that carries the intercept.
    origin : float or None, default=None
        What the penalty pulls the intercept to.  None: to the mean target where targets are
        numbers, else to zero; 0.0 is LIBLINEAR's.
    threads : int, default=1
        Rows are split between so many threads, whose steps are made safe to add and added after
        each pass (CoCoA+, Ma et al., 2015), every other pass on one thread.  Reproducible, within
        the tolerance of one thread's result; it takes more passes and seldom pays: several classes
        run in parallel at no such price (``n_jobs`` of the estimators).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("hinge", solver="dcd", tol=1e-3, random_state=0).fit(X, y)
    >>> model.status_.name, bool(model.score(X, y) > 0.85)
    ('CONVERGED', True)
    """

    intercept_scaling: float = 1.0
    threads: int = 1
    origin: float | None = None
    loss_needs = frozenset({"dual_step", "conjugate"})
    penalty_needs = frozenset({"quadratic", "uniform"})
    streaming = False
    default_passes = 1000

    def check(self, problem: Problem) -> None:
        if not problem.ridge > 0.0:
            raise ValueError(
                "DualDescent needs a positive alpha: without a penalty there is no dual"
            )
        if self.threads < 1:
            raise ValueError(f"DualDescent: threads must be at least 1, got {self.threads}")
        if not self.intercept_scaling > 0.0:
            raise ValueError("DualDescent: intercept_scaling must be positive")

    def _scaling(self, problem: Problem) -> float:
        return self.intercept_scaling if problem.fit_intercept else 0.0

    def init(self, problem: Problem, chunk: Chunk | None = None) -> DualDescentState:
        assert chunk is not None
        n = chunk.size
        sqnorm = np.empty(n)
        _norms(chunk.rows, self._scaling(problem) ** 2, sqnorm)
        origin = origin_of(problem, chunk) if self.origin is None else self.origin
        return DualDescentState(
            np.zeros(problem.n_features), np.zeros(1), np.zeros(n), sqnorm, origin,
            chunk.order.astype(np.int64), chunk.order.size, 0.0, math.inf, 0, math.inf, False,
            False,
        )  # fmt: skip

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> DualDescentState | None:
        """Duals in proportion to the costs: what was feasible at another strength stays so."""
        if near.dual is None:
            return None
        state, order = self.init(problem, chunk), chunk.order
        state.dual[:] = near.dual * (near.problem.ridge / problem.ridge)
        moved = state.dual[order]
        add_rows(chunk.rows, order, 0, order.size, 1.0, moved, state.w)
        state.bias[0] = self._scaling(problem) * float(moved.sum())
        return state

    def update(self, problem: Problem, s: DualDescentState, chunk: Chunk) -> DualDescentState:
        n = s.active.size
        cost = chunk.weight * (1.0 / (problem.ridge * n))
        scaling = self._scaling(problem)
        whole = s.n_active == n
        # Every other pass on one thread: it mends what the threads could not know of each other.
        single = self.threads == 1 or s.verifying or s.step % 2 == 1
        common = (s.dual, s.sqnorm, s.w, s.bias, scaling, s.origin, problem.loss, s.reach)
        if single:
            n_active, gap, primal, rested, largest, norm = _pass(
                chunk.rows, chunk.y, cost, s.active, s.n_active, *common,
                problem.seed * 1_000_003 + s.step, 1.0,
            )  # fmt: skip
        else:
            n_active, gap, primal, rested, largest, norm = self._parallel_pass(
                problem, s, chunk, cost, common
            )
        primal += s.resting + 0.5 * norm
        relative, resting = gap / max(primal, 1e-300), s.resting + rested
        reach = largest if largest > 0.0 else math.inf
        tol = problem.tol or 0.0
        verified = whole and single
        if verified and relative <= tol:
            gap, primal = _duality_gap(
                chunk.rows, chunk.y, cost, s.active, s.dual, s.sqnorm, s.w, s.bias, scaling,
                s.origin, problem.loss,
            )  # fmt: skip
            relative = gap / max(primal, 1e-300)
            verified = relative <= tol
        verifying = relative <= tol and not verified
        if verifying:
            n_active, resting, reach = n, 0.0, math.inf
        return s._replace(
            n_active=n_active, resting=resting, reach=reach, step=s.step + 1, gap=relative,
            verifying=verifying, verified=verified,
        )  # fmt: skip

    def _parallel_pass(self, problem, s, chunk, cost, common):  # type: ignore[no-untyped-def]
        """Each thread visits its part of the rows with its own weights; their steps are added."""
        dual, sqnorm, w, bias, *settings = common
        bounds = np.linspace(0, s.n_active, self.threads + 1).astype(int)
        parts = [s.active[a:b] for a, b in itertools.pairwise(bounds)]
        copies = [(w.copy(), bias.copy()) for _ in parts]

        def work(k: int):  # type: ignore[no-untyped-def]
            seed = problem.seed * 1_000_003 + s.step * 101 + k
            return _pass(  # type: ignore[call-arg]
                chunk.rows, chunk.y, cost, parts[k], parts[k].size, dual, sqnorm, *copies[k],
                *settings, seed, float(self.threads),
            )  # fmt: skip

        results = list(_pool(self.threads).map(work, range(self.threads)))
        w[:] = sum(c[0] for c in copies) / self.threads  # w + sum_k (copy_k - w) / threads
        bias[:] = sum(c[1] for c in copies) / self.threads
        kept = [part[: r[0]].copy() for part, r in zip(parts, results, strict=True)]
        rest = [part[r[0] :].copy() for part, r in zip(parts, results, strict=True)]
        s.active[: s.n_active] = np.concatenate(kept + rest)
        n_active, gap, primal, rested, largest, norm = zip(*results, strict=True)
        return sum(n_active), sum(gap), sum(primal), sum(rested), max(largest), norm[-1]

    def finish(self, problem: Problem, state: DualDescentState) -> LinearFunction:
        bias = float(self._scaling(problem) * state.bias[0] + state.origin)
        return LinearFunction(state.w.astype(problem.dtype), bias)

    def residual(self, problem: Problem, state: DualDescentState, before: Any, after: Any) -> float:
        return state.gap if state.verified else math.inf
