r"""Regularised dual averaging: the weights are a closed function of the *sum* of all gradients.

.. math:: w_{t+1} = \arg\min_w\ \langle \bar g_t, w\rangle + \psi(w)
                    + \tfrac{\beta_t}{t}\bigl(\tfrac12\|w\|^2 + \rho\|w\|_1\bigr)
          = \operatorname{prox}_{(t/\beta_t)\psi}\Bigl(\operatorname{soft}\bigl(-\tfrac{1}{\beta_t}
                    \sum_{\tau\le t} g_\tau,\ \rho\bigr)\Bigr)

(the composition holds because psi is smallest at zero).  Averaged gradients settle where single
ones never do, so the sparsity pattern is identified after finitely many steps.  Xiao (2010);
S. Lee's thesis, chapter 2; V. Jumutc's thesis, section 4.1.

Only the gradient sum is stored and weights are worked out when a row asks for them: an update
costs O(non-zeros of the batch) with any penalty that has a proximal map.  Penalties over groups are
in a file of their own, ``_block_rda.py``, and so are many tasks, ``_task_rda.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.dimensions import Float
from thresher.functions import LinearFunction
from thresher.solvers import driver
from thresher.solvers._block_rda import (
    Averaging,
    beta_of,
    block_averaging,
    block_norms,
    block_start,
    block_weights,
    weights_of_copies,
)
from thresher.solvers._states import combined, present
from thresher.solvers._targets import are_signs, with_origin, with_origin_of_stream
from thresher.solvers._task_rda import task_averaging, task_start, task_sums, task_weights
from thresher.solvers.base import Chunk, Problem, Solver, check_batch
from thresher.solvers.step_lengths import mean_sqnorm
from thresher.solvers.tasks import levels_of, mean_target

__all__ = ["RDA", "AdaptiveRDA", "with_gamma"]

_RARER = 250  # rows of the rarer class that gamma is chosen on
_SAMPLE, _ROUNDS = 0.04, 4  # of many tasks: share of the rows, and rows of each task at least


class DualState(NamedTuple):
    gradient: np.ndarray  # sum of the mini-batch gradients
    squares: np.ndarray  # sum of their squares (adaptive), else empty
    bias_gradient: float
    bias_squares: float
    step: int
    seen: int
    paid: float


@njit(cache=True, nogil=True)
def _weight(gradient, beta, step, rho, penalty, j):
    u = -gradient / beta
    u = math.copysign(max(abs(u) - rho, 0.0), u)
    return penalty.prox(u, step / beta, j)


@njit(cache=True, nogil=True)
def _dual_averaging(
    rows, y, weight, order, loss, penalty, gamma, rho, logarithmic, adaptive, batch, fit_bias,
    origin, state,
):  # fmt: skip
    g, squares = state.gradient, state.squares
    bias_g, bias_squares = state.bias_gradient, state.bias_squares
    step, seen, paid = state.step, state.seen, state.paid
    slopes = np.empty(batch)
    mean = np.zeros(g.size if adaptive and batch > 1 else 0)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        beta = beta_of(gamma, step, logarithmic)
        bias, slope_sum = origin, 0.0
        if fit_bias and step > 0:
            bias -= bias_g / (gamma * (rho + math.sqrt(bias_squares)) if adaptive else beta)
        for r in range(size):
            i = order[first + r]
            p = bias
            if step > 0:
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    if adaptive:
                        w = _weight(
                            g[j], gamma * (rho + math.sqrt(squares[j])), step, 0.0, penalty, j
                        )
                    else:
                        w = _weight(g[j], beta, step, rho, penalty, j)
                    p += rows.element(i, k) * w
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
            slope_sum += slopes[r]
        seen += size
        step += 1
        bias_g += slope_sum
        for r in range(size):
            if slopes[r] != 0.0:
                i = order[first + r]
                rows.add(i, slopes[r], g)
                if adaptive and batch == 1:
                    for k in range(rows.start(i), rows.stop(i)):
                        x = slopes[r] * rows.element(i, k)
                        squares[rows.column(i, k)] += x * x
                elif adaptive:
                    rows.add(i, slopes[r], mean)
        if adaptive:
            bias_squares += slope_sum * slope_sum
            for j in range(mean.size):
                squares[j] += mean[j] * mean[j]
                mean[j] = 0.0
    return g, squares, bias_g, bias_squares, step, seen, paid


@njit(cache=True, nogil=True)
def _weights(state, penalty, gamma, rho, logarithmic, adaptive, w):
    step = state.step
    beta = beta_of(gamma, step, logarithmic)
    for j in range(w.size):
        if adaptive:
            scale = gamma * (rho + math.sqrt(state.squares[j]))
            w[j] = _weight(state.gradient[j], scale, step, 0.0, penalty, j)
        else:
            w[j] = _weight(state.gradient[j], beta, step, rho, penalty, j)


def with_gamma(solver: Solver, problem: Problem, chunk: Chunk, scale: float) -> Solver:
    """The best of a few gammas around ``scale`` on a sample of the rows.

    The ideal is ||gradient|| / ||solution||.  Where one class is rare, gradients are short beside
    the rows, and it is small.
    """
    gammas = [scale * m for m in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)]
    candidates = driver.variants(solver, "gamma", gammas)
    if problem.has_tasks:  # some rows of each
        rounds = 1 if problem.targets == "matrix" else problem.outputs
        share = max(_SAMPLE, _ROUNDS * rounds / max(chunk.order.size, 1))
        return driver.best_on_sample(candidates, problem, chunk, share)
    # Of few rows of a rare class nothing is learned but the other one, best by short steps.
    rarer = _RARER if are_signs(chunk) else 0
    return driver.best_on_sample(candidates, problem, chunk, rarer=rarer)


class _DualAveraging(Solver):
    default_passes = 10
    default_penalty = "l1"
    sum_fields = frozenset({"seen", "paid"})
    joins_blocks = True
    adaptive = False

    gamma: float | None
    rho: float
    origin: float | None = None
    floor: float | None = None

    def _begins(self) -> tuple[float, float]:
        """Of many tasks: where biases and beta start."""
        return self.origin or 0.0, self.floor or 0.0

    def _terms(self) -> Averaging:
        logarithmic = getattr(self, "growth", "root") == "log"
        return Averaging(self.gamma or 1.0, self.rho, logarithmic, self.adaptive)

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        check_batch(self)
        if self.gamma is not None and not self.gamma > 0.0:
            raise ValueError(f"{name}: gamma must be positive, got {self.gamma}")
        if not self.rho >= 0.0:
            raise ValueError(f"{name}: rho must be at least 0, got {self.rho}")
        if problem.has_tasks:
            levels_of(problem)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        solver = with_origin(self, problem, chunk)
        if self.gamma is not None:
            return solver, problem
        scale = 1.0 if self.adaptive else math.sqrt(mean_sqnorm(chunk) + 1e-12)
        return with_gamma(solver, problem, chunk, scale), problem

    def for_stream(self, problem: Problem) -> Solver:
        return with_origin_of_stream(self, self.gamma is not None)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> Any:
        if problem.has_tasks:
            return task_start(problem)
        if "grouped" in problem.penalty.traits:
            return block_start(problem, self._terms())
        d = problem.n_features
        return DualState(np.zeros(d), np.zeros(d if self.adaptive else 0), 0.0, 0.0, 0, 0, 0.0)

    def update(self, problem: Problem, state: Any, chunk: Chunk) -> Any:
        if problem.has_tasks:
            return task_averaging(problem, state, chunk, self._terms(), self.batch, *self._begins())
        if "grouped" in problem.penalty.traits:
            origin = self.origin or 0.0
            return block_averaging(problem, state, chunk, self._terms(), self.batch, origin)
        return DualState(*_dual_averaging(
            *chunk, problem.loss, problem.penalty, *self._terms(), self.batch,
            problem.fit_intercept, self.origin or 0.0, state,
        ))  # fmt: skip

    def check_state(self, problem: Problem, state: Any) -> None:
        super().check_state(problem, state)
        if problem.has_tasks:
            return
        if not (np.all(state.squares >= 0.0) and np.all(np.asarray(state.bias_squares) >= 0.0)):
            raise ValueError("the state's sums of squares are negative")

    def finish(self, problem: Problem, state: Any) -> LinearFunction:
        if problem.has_tasks:
            return LinearFunction(*task_weights(problem, state, self._terms(), *self._begins()))
        if "grouped" in problem.penalty.traits:
            origin = self.origin or 0.0
            return LinearFunction(*block_weights(problem, state, self._terms(), origin))
        w = np.zeros(problem.n_features)
        if state.step == 0:
            return LinearFunction(w.astype(problem.dtype), self.origin or 0.0)
        gamma, rho, logarithmic, adaptive = self._terms()
        _weights(state, problem.penalty, gamma, rho, logarithmic, adaptive, w)
        root = math.sqrt(state.bias_squares)
        beta = gamma * (rho + root) if adaptive else beta_of(gamma, state.step, logarithmic)
        bias = (self.origin or 0.0) - state.bias_gradient / beta
        return LinearFunction(w.astype(problem.dtype), bias if problem.fit_intercept else 0.0)

    def coordinates(self, problem: Problem, state: Any) -> np.ndarray:
        """The weights of all outputs; where groups share features, those of the copies."""
        if problem.penalty.overlaps:
            return weights_of_copies(problem, state, self._terms())
        return self.finish(replace(problem, dtype=np.float64), state).coef

    def merge(self, problem: Problem, states: Any, base: Any, weights: Any) -> Any:
        """g = sum_k p_k g_k, likewise the squares and the steps t, weighted by the masses p of the
        rows: the mean gradient of all rows, by the clock of one shard.

        With sums in place of the means every shard would take back all that is wrong with the
        weights they began with, and all together K times as much: from some three shards on that
        diverges.
        """
        states, shares = present(states, weights)
        merged = combined(states, base, shares, self.sum_fields) if states else self.copy(base)
        if problem.has_tasks:
            return task_sums(problem, merged)
        return block_norms(problem, merged) if "grouped" in problem.penalty.traits else merged


@dataclass(frozen=True)
class RDA(_DualAveraging):
    """Dual averaging with any penalty: l1-RDA with ``L1``, DA-GL with ``GroupL2``, and so on.

    Parameters
    ----------
    gamma : float or None, default=None
        Weight of the proximal term, beta_t = gamma sqrt(t) (or gamma (1 + ln t)); the ideal is
        ||gradient|| / ||solution||.  None: chosen on a sample of the rows.
    rho : float, default=0.0
        Extra soft-threshold of the proximal term; more zeros early on ("enhanced" l1-RDA, and
        DA-ESGL with ``SparseGroupL2``).  Of many tasks beta grows with their rounds.
    growth : {"root", "log"}, default="root"
        "log" is for a strongly convex penalty such as the elastic net.
    batch : int, default=1
        Rows per update.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with gamma given, at zero.
    floor : float or None, default=None
        Of many tasks: what beta starts from, beta_t = floor + gamma sqrt(t).  None: zero with gamma
        given, else the curvature of the loss times the mean squared length of the rows.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="rda", alpha=0.05, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85), model.density_ < 0.5
    (True, True)
    """

    gamma: float | None = None
    rho: float = 0.0
    target_kinds = frozenset({"classes", "matrix", "pairs"})
    space = {"gamma": Float(0.01, 100.0, log=True)}
    growth: str = "root"
    batch: int = 1
    origin: float | None = None
    floor: float | None = None

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        if not problem.has_tasks:
            return super(RDA, replace(self, floor=self.floor or 0.0)).prepare(problem, chunk)
        solver, floor = self, self.floor
        if self.origin is None:
            numbers = problem.fit_intercept and "regression" in problem.loss.tasks
            solver = replace(solver, origin=mean_target(problem, chunk) if numbers else 0.0)
        # Slopes of targets that are numbers grow with the rows, too.
        scale = mean_sqnorm(chunk) + (1.0 if problem.fit_intercept else 1e-300)
        if floor is None:
            smooth = self.gamma is None and math.isfinite(problem.loss.smoothness)
            floor = problem.loss.smoothness * scale if smooth else 0.0
        solver = replace(solver, floor=floor)
        return (
            with_gamma(solver, problem, chunk, scale) if self.gamma is None else solver
        ), problem

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.floor is not None and not self.floor >= 0.0:
            raise ValueError(f"RDA: floor must be at least 0, got {self.floor}")
        if self.growth not in ("root", "log"):
            raise ValueError(f"RDA: growth must be 'root' or 'log', got {self.growth!r}")


@dataclass(frozen=True)
class AdaptiveRDA(_DualAveraging):
    r"""Dual averaging with a step of its own for every coordinate (AdaGrad; Duchi et al., 2011).

    The proximal term is :math:`\tfrac{1}{2t}\langle w, Hw\rangle` with
    :math:`H_j = \gamma(\rho + \sqrt{\sum_\tau g_{\tau,j}^2})`; gamma is the inverse of the learning
    rate eta of the literature.  Rare features keep long steps: good on text.  With a penalty over
    groups the features of a group share a step, by the norms of their gradients.

    Parameters
    ----------
    gamma : float or None, default=None
        Inverse of the learning rate.  None: chosen on a sample of the rows.
    rho : float, default=1.0
        What every H_j starts from; positive.
    batch : int, default=1
        Rows per update.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with gamma given, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="adaptive_rda", alpha=0.05, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85), model.density_ < 0.5
    (True, True)
    """

    gamma: float | None = None
    rho: float = 1.0
    space = {"gamma": Float(0.01, 100.0, log=True), "rho": Float(1e-3, 10.0, log=True)}
    batch: int = 1
    origin: float | None = None
    adaptive = True

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not self.rho > 0.0:
            raise ValueError(f"AdaptiveRDA: rho must be positive, got {self.rho}")
