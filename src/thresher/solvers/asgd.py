r"""Averaged SGD with a step size found on a sample: the default where rows far outnumber features.

.. math:: w \leftarrow (1-\eta_t\lambda) w - \eta_t \ell'(y_i, w\cdot x_i + b)\,x_i, \qquad
          \eta_t = \eta_0 (1 + \lambda\eta_0 t)^{-3/4}\,(1 - t/T)

(T the planned number of visits, infinite in a stream), and the model is a running average of the
iterates that forgets the early ones polynomially (Shamir and Zhang, 2013): good at any time, also
in a stream without end.  The average is taken from a snapshot every K rows, K chosen so that
snapshots cost a quarter of the passes at most.  Xu (2011); Bottou's averaged SGD.

Where the visits are planned, a row's prediction is made before the update by the row before it, but
for every ``WINDOW``-th row: a processor then does both at once, instead of waiting for the weights
and for the slope in turn.  The models are as good, and passes take up to a third less time.  A
stream may be cut anywhere, which would show in its model: there rows wait for each other.  Several
classes keep a processor busy anyway.  Langford, Smola and Zinkevich, Slow learners are fast (2009).

Cost per row O(non-zeros).  With several classes all one-vs-rest models share each visit of a row:
weights are stored feature-major, so that one non-zero serves all classes by one vector operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import AHEAD
from thresher.functions import LinearFunction
from thresher.solvers import driver
from thresher.solvers._joint import add_to_all, list_nonzeros, predict_all, room
from thresher.solvers._states import combined, present
from thresher.solvers._targets import origin_of
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.step_lengths import mean_sqnorm

__all__ = ["WINDOW", "AveragedSGD"]

WINDOW = 64  # rows from one prediction with the newest weights to the next


class AveragedState(NamedTuple):
    """w = scale * direction; arrays are (features,), or (features, padded classes)."""

    direction: np.ndarray
    mean: np.ndarray
    bias: np.ndarray
    mean_bias: np.ndarray
    scale: float
    inverse: float  # 1 / scale
    snapshots: int
    step: int


@njit(cache=True, nogil=True)
def _step(eta0, lam, horizon, t):
    return eta0 * (1.0 + lam * eta0 * t) ** -0.75 * max(1.0 - t / horizon, 0.02)


@njit(cache=True, nogil=True)
def _snapshot(v, mean, bias, mean_bias, scale, share):
    part, unit = mean.dtype.type(share), mean.dtype.type(scale)  # singles: twice as many at once
    for j in range(v.size):
        mean[j] += part * (unit * v[j] - mean[j])
    for c in range(bias.size):
        mean_bias[c] += share * (bias[c] - mean_bias[c])


@njit(cache=True, nogil=True)
def _one(
    rows, y, weight, order, loss, lam, eta0, limit, horizon, every, memory, fit_bias, early, state
):
    """The innermost loop avoids divisions: they would be its longest chain of dependent work."""
    v, mean, biases, mean_bias = state.direction, state.mean, state.bias, state.mean_bias
    scale, inverse, snapshots, step = state.scale, state.inverse, state.snapshots, state.step
    bias = biases[0]
    eta = _step(eta0, lam, horizon, step - step % 16)
    shrink, grow = 1.0 - eta * lam, 1.0 / (1.0 - eta * lam)
    countdown = every - step % every
    last = order.size - 1
    next_product = 0.0
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, last)])
        if early and r % WINDOW != 0:
            product = next_product
        else:
            product = rows.dot(i, v)
        if early:
            next_product = rows.dot(order[min(r + 1, last)], v)
        if step % 16 == 0:  # a power per row would cost as much as the row
            eta = _step(eta0, lam, horizon, step)
            shrink, grow = 1.0 - eta * lam, 1.0 / (1.0 - eta * lam)
        slope = weight[i] * loss.deriv(y[i], scale * product + bias)
        scale *= shrink
        inverse *= grow
        if slope != 0.0:
            move = eta
            if limit < math.inf:
                move = min(eta, limit / (weight[i] * (rows.sqnorm(i) + 1.0)))
            rows.add(i, -move * slope * inverse, v)
            if fit_bias:
                bias -= move * slope
        step += 1
        countdown -= 1
        if countdown == 0:
            countdown = every
            snapshots += 1
            biases[0] = bias
            share = (1.0 + memory) / (snapshots + memory)
            _snapshot(v, mean, biases, mean_bias, scale, share)
            if scale < 1e-9:
                for j in range(v.size):
                    v[j] *= scale
                next_product *= scale
                scale, inverse = 1.0, 1.0
    biases[0] = bias
    return v, mean, biases, mean_bias, scale, inverse, snapshots, step


@njit(cache=True, nogil=True)
def _joint(
    rows,
    y,
    weight,
    order,
    loss,
    lam,
    eta0,
    limit,
    horizon,
    every,
    memory,
    fit_bias,
    n_classes,
    state,
):
    """All one-vs-rest models at once; y holds class numbers."""
    W, mean, bias, mean_bias = state.direction, state.mean, state.bias, state.mean_bias
    scale, snapshots, step = state.scale, state.snapshots, state.step
    eta = _step(eta0, lam, horizon, step - step % 16)
    margins = np.zeros_like(bias)
    slopes = np.zeros_like(bias)
    columns = np.zeros(W.shape[0] + 1, dtype=np.int64)
    values = np.zeros(columns.size, dtype=W.dtype)
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        if step % 16 == 0:
            eta = _step(eta0, lam, horizon, step)
        count = list_nonzeros(rows, i, columns, values)
        predict_all(columns, values, count, W, margins)
        moved = False
        for c in range(n_classes):
            target = 1.0 if y[i] == c else -1.0
            slope = weight[i] * loss.deriv(target, scale * margins[c] + bias[c])
            slopes[c] = slope
            moved = moved or slope != 0.0
        scale *= 1.0 - eta * lam
        if moved:
            move = eta
            if limit < math.inf:
                move = min(eta, limit / (weight[i] * (rows.sqnorm(i) + 1.0)))
            for c in range(n_classes):
                if fit_bias:
                    bias[c] -= move * slopes[c]
                slopes[c] *= -move / scale
            add_to_all(columns, values, count, slopes, W)
        step += 1
        if step % every == 0:
            snapshots += 1
            share = (1.0 + memory) / (snapshots + memory)
            _snapshot(W.ravel(), mean.ravel(), bias, mean_bias, scale, share)
        if scale < 1e-9:
            flat = W.ravel()
            for j in range(flat.size):
                flat[j] *= scale
            scale = 1.0
    return W, mean, bias, mean_bias, scale, 1.0 / scale, snapshots, step


@dataclass(frozen=True)
class AveragedSGD(Solver):
    """Averaged SGD: the default where rows far outnumber features.

    Parameters
    ----------
    eta0 : float or None, default=None
        First step size.  None: chosen on a sample of the rows, around 1 / (smoothness * mean
        squared row norm).
    every : int or None, default=None
        Rows between snapshots of the average.  None: max(16, 4 d / mean non-zeros), in a stream
        d / 8 within 16 .. 4096.
    memory : float, default=2.0
        How fast the average forgets: 0 is the plain mean, larger weighs late iterates more.
    horizon : float, default=inf
        Rows to be visited in all, over which the steps fall to zero; set by ``fit``, infinite in a
        stream.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with a given eta0, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="asgd", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    eta0: float | None = None
    every: int | None = None
    memory: float = 2.0
    horizon: float = math.inf
    origin: float | None = None
    penalty_needs = frozenset({"quadratic", "uniform"})
    default_passes = 2
    positive_fields = frozenset({"scale", "inverse"})
    joint = True

    @property
    def seam(self) -> int:
        return WINDOW

    def planned_passes(self, shape: tuple[int, int]) -> int:
        """Two, or as many as give each weight some 600 rows to learn from."""
        return int(min(max(self.default_passes, 600 * shape[1] / max(shape[0], 1)), 20))

    def check(self, problem: Problem) -> None:
        if self.eta0 is not None and not 0.0 < self.eta0 * max(problem.ridge, 1e-300) < 1.0:
            raise ValueError(
                f"AveragedSGD: eta0 must be positive and below 1/alpha, got {self.eta0}"
            )
        if self.every is not None and self.every < 1:
            raise ValueError(f"AveragedSGD: every must be at least 1, got {self.every}")

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        every = self.every or snapshot_interval(problem, chunk)
        origin = origin_of(problem, chunk) if self.origin is None else self.origin
        solver = replace(self, every=every, origin=origin)
        if self.eta0 is not None:
            return solver, problem
        # A step is stable up to 1/(smoothness ||x||^2); for a loss with kinks the scale at which
        # one step moves a prediction by one, 1/||x||^2, takes its place.  The bias counts as 1.
        smoothness = problem.loss.smoothness if math.isfinite(problem.loss.smoothness) else 1.0
        unit = 1.0 / (smoothness * (mean_sqnorm(chunk) + problem.fit_intercept))
        longest = 0.5 / max(problem.ridge, 1e-300)  # a step of 1/alpha forgets everything
        etas = [min(unit * m, longest) for m in (3.0, 1.0, 0.3, 0.1, 0.03)]
        return driver.best_on_sample(driver.variants(solver, "eta0", etas), problem, chunk), problem

    def planned(self, visits: int) -> Solver:
        return replace(self, horizon=float(visits))

    def for_stream(self, problem: Problem) -> Solver:
        every = self.every or min(max(problem.n_features // 8, 16), 4096)
        # With its steps given, nothing of a stream depends on which rows came first.
        origin = 0.0 if self.origin is None and self.eta0 is not None else self.origin
        return replace(self, every=every, origin=origin)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> AveragedState:
        d, k, dtype = problem.n_features, problem.outputs, problem.dtype
        if k == 1:
            weights, mean = np.zeros(d, dtype), np.zeros(d, dtype)
            biases = np.full(1, self.origin or 0.0)
        else:
            weights, mean = room(d, k, dtype), room(d, k, dtype)
            biases = np.zeros(mean.shape[1], dtype)
        return AveragedState(weights, mean, biases, biases.copy(), 1.0, 1.0, 0, 0)

    def update(self, problem: Problem, state: AveragedState, chunk: Chunk) -> AveragedState:
        every = self.every or snapshot_interval(problem, chunk)
        early = math.isfinite(self.horizon) and problem.outputs == 1
        # Two steps may answer the same error: of a row again and again, the longest would swing.
        limit = _limit(problem) * (0.75 if early else 1.0)
        settings = (
            problem.loss, problem.ridge, self.eta0 or 0.1, limit, float(self.horizon), every,
            self.memory, problem.fit_intercept,
        )  # fmt: skip
        if problem.outputs == 1:
            return AveragedState(*_one(*chunk, *settings, early, state))
        return AveragedState(*_joint(*chunk, *settings, problem.outputs, state))

    def finish(self, problem: Problem, state: AveragedState) -> LinearFunction:
        if state.snapshots:
            coef, bias = state.mean, state.mean_bias
        else:
            coef, bias = state.scale * state.direction, state.bias
        if problem.outputs == 1:
            return LinearFunction(coef.astype(problem.dtype), float(bias[0]))
        k = problem.outputs
        return LinearFunction(np.ascontiguousarray(coef[:, :k].T), bias[:k].astype(np.float64))

    def merge(
        self, problem: Problem, states: Any, base: AveragedState, weights: Any
    ) -> AveragedState:
        """w = sum_k m_k w_k / sum_k m_k, and the means likewise (local SGD; Stich, 2019).

        ``step`` and ``snapshots`` are the clock of the steps and of the mean: they become the
        shards' weighted mean, not their sum, since K iterates that were averaged after t rows have
        forgotten the start as one does after t rows.  ``horizon`` is then the visits of one shard.
        """
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        begun = any(s.snapshots for s in states)
        merged = combined([_plain(s, begun) for s in states], base, shares, self.sum_fields)
        return merged._replace(snapshots=max(merged.snapshots, 1)) if begun else merged


def _plain(state: AveragedState, begun: bool) -> AveragedState:
    """With scale one; before its first snapshot the mean is the iterate, where others have one."""
    w = state.scale * state.direction
    state = state._replace(direction=w, scale=1.0, inverse=1.0)
    return state._replace(mean=w, mean_bias=state.bias) if begun and not state.snapshots else state


def _limit(problem: Problem) -> float:
    """Largest stable step times squared row norm, for losses whose slope grows without bound.

    One row far longer than the rest would otherwise throw the weights off: a step beyond
    2 / (smoothness ||x||^2) overshoots that row's own target by more than it started with.
    """
    loss: Any = problem.loss
    bounded = abs(loss.deriv(1.0, -1e6) - loss.deriv(1.0, -1e3)) < 1.0
    return math.inf if bounded or math.isinf(loss.smoothness) else 1.0 / loss.smoothness


def snapshot_interval(problem: Problem, chunk: Chunk) -> int:
    """Rows between snapshots: their cost stays below a quarter of the rows' own."""
    n, d = chunk.rows.shape
    per_row = max(1.0, chunk.rows.stored / max(n, 1))
    return int(min(max(16, 4 * d / per_row), max(1, chunk.order.size // 20)))
