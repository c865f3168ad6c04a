r"""Reweighted dual averaging: the penalty of a coordinate follows its own weight, towards l0.

Each step penalises :math:`\psi_t(w) = \lambda\|\Theta_t w\|_1` (or :math:`\|\Theta_t^{1/2} w\|^2`)
with :math:`\Theta_{t+1,j} = 1/(|w_{t+1,j}| + \epsilon)` (or :math:`1/(w_{t+1,j}^2 + \epsilon)`):
large weights become cheap, small ones expensive.  With :math:`\bar\Theta_t` the running mean,

.. math:: \text{l1:}\quad w_{t+1} = -\tfrac{\sqrt t}{\gamma}\,
          \operatorname{soft}\bigl(\bar g_t,\ \lambda\bar\Theta_t + \gamma\rho/\sqrt t\bigr)
          \qquad \text{l2:}\quad w_{t+1} = -\bar g_t / (\lambda + \bar\Theta_t)

Jumutc and Suykens, "Reweighted l1 / l2 dual averaging" and "Reweighted stochastic learning";
V. Jumutc's thesis, Algs. 9 and 10.

All weights move at every step, but a coordinate at zero that no row touches stays there (its
threshold t * (...) never falls while its gradient sum rests), and its Theta is 1/epsilon all the
while.  So an update costs O(non-zeros of the batch + non-zeros of w), not O(d).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._terms import Term
from thresher.dimensions import Float
from thresher.functions import LinearFunction
from thresher.solvers import driver
from thresher.solvers._states import combined, present
from thresher.solvers._targets import with_origin, with_origin_of_stream
from thresher.solvers.auto import largest_useful_strength
from thresher.solvers.base import Chunk, Problem, Solver, check_batch
from thresher.solvers.rda import with_gamma
from thresher.solvers.step_lengths import mean_sqnorm

__all__ = ["ReweightedL1", "ReweightedL2"]


@dataclass(frozen=True)
class L1Rule(Term):
    """Weight from mean gradient and Theta, and Theta from weight, for the l1 method."""

    strength: float
    gamma: float
    rho: float
    epsilon: float
    newest_only: bool

    def weight(self, gradient, mean_theta, theta, t):
        root = math.sqrt(t)
        kept = theta if self.newest_only else mean_theta
        threshold = self.strength * kept + self.gamma * self.rho / root
        return -(root / self.gamma) * math.copysign(max(abs(gradient) - threshold, 0.0), gradient)

    def theta(self, w):
        return 1.0 / (abs(w) + self.epsilon)

    def start(self):
        # With only the newest Theta, starting below that of a zero would let waiting zeros return.
        return 1.0 / self.epsilon if self.newest_only else 1.0


@dataclass(frozen=True)
class L2Rule(Term):
    """The same for the l2 methods: w = -g / (ridge + reweight * Theta + gamma / sqrt(t))."""

    ridge: float
    reweight: float
    gamma: float
    epsilon: float
    newest_only: bool

    def weight(self, gradient, mean_theta, theta, t):
        kept = theta if self.newest_only else mean_theta
        return -gradient / (self.ridge + self.reweight * kept + self.gamma / math.sqrt(t))

    def theta(self, w):
        return 1.0 / (w * w + self.epsilon)

    def start(self):
        return 1.0


class ReweightedState(NamedTuple):
    w: np.ndarray
    gradient: np.ndarray  # sum of gradients
    thetas: np.ndarray  # sum of Theta_1 .. Theta_since[j]
    since: np.ndarray
    active: np.ndarray  # the coordinates with w != 0, in the first ``n_active`` places
    place: np.ndarray  # where in ``active`` a coordinate stands, or -1
    n_active: int
    bias_gradient: float
    bias: float
    peak: float  # largest mean gradient so far
    step: int
    seen: int
    paid: float


@njit(cache=True, nogil=True)
def _reweighted(rows, y, weight, order, loss, rule, bias_scale, batch, fit_bias, origin, state):
    w, g, thetas, since = state.w, state.gradient, state.thetas, state.since
    active, place, n_active = state.active, state.place, state.n_active
    bias_g, bias, peak = state.bias_gradient, state.bias, state.peak
    step, seen, paid = state.step, state.seen, state.paid
    at_zero = rule.theta(0.0)
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        for r in range(size):
            i = order[first + r]
            p = rows.dot(i, w) + bias
            paid += weight[i] * loss.value(y[i], p)
            slopes[r] = weight[i] * loss.deriv(y[i], p) / size
        seen += size
        step += 1
        for r in range(size):
            if slopes[r] != 0.0:
                i = order[first + r]
                bias_g += slopes[r]
                rows.add(i, slopes[r], g)
                for k in range(rows.start(i), rows.stop(i)):
                    j = rows.column(i, k)
                    if place[j] < 0:
                        place[j] = n_active
                        active[n_active] = j
                        n_active += 1
        a = 0
        while a < n_active:
            j = active[a]
            # At zero since step since[j], each later Theta was 1 / epsilon.
            theta = rule.theta(w[j]) if step > 1 else rule.start()
            if since[j] < step - 1:
                thetas[j] += (step - 1 - since[j]) * at_zero
            thetas[j] = thetas[j] + theta if step > 1 else theta
            since[j] = step
            peak = max(peak, abs(g[j]) / step)
            w[j] = rule.weight(g[j] / step, thetas[j] / step, theta, step)
            if w[j] == 0.0:
                n_active -= 1
                place[j] = -1
                if a < n_active:
                    active[a] = active[n_active]
                    place[active[a]] = a
            else:
                a += 1
        if fit_bias:
            bias = origin - bias_g / (bias_scale * math.sqrt(step))
    return w, g, thetas, since, active, place, n_active, bias_g, bias, peak, step, seen, paid


@njit(cache=True, nogil=True)
def _weights_of_sums(rule, gradient, thetas, step, w):
    """The weights that follow from the sums.  Where only the newest Theta counts they do not: then
    weights stay, but for zeros, whose Theta is known."""
    at_zero = rule.theta(0.0)
    for j in range(w.size):
        if w[j] == 0.0 or not rule.newest_only:
            w[j] = rule.weight(gradient[j] / step, thetas[j] / step, at_zero, step)


def _caught_up(rule: Any, s: ReweightedState) -> ReweightedState:
    """With the Thetas of all steps in their sums, also of zeros that no row has touched since."""
    if s.step == 0:  # no Theta has been used yet
        return s._replace(thetas=np.zeros_like(s.thetas))
    return s._replace(thetas=s.thetas + (s.step - s.since) * rule.theta(0.0))


class _Reweighted(Solver):
    default_passes = 10
    default_penalty = "l1"
    index_fields = frozenset({"active", "place"})
    sum_fields = frozenset({"seen", "paid"})
    epsilon: float | None
    origin: float | None = None

    def for_stream(self, problem: Problem) -> Solver:
        return with_origin_of_stream(self, self._has_steps())

    def _has_steps(self) -> bool:
        """Whether all that sets the length of a step was given."""
        raise NotImplementedError

    def rule(self, problem: Problem) -> Term:
        raise NotImplementedError

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        check_batch(self)
        if self.epsilon is not None and not self.epsilon > 0.0:
            raise ValueError(f"{name}: epsilon must be positive, got {self.epsilon}")

    def init(self, problem: Problem, chunk: Chunk | None = None) -> ReweightedState:
        d = problem.n_features
        return ReweightedState(
            np.zeros(d), np.zeros(d), np.ones(d), np.ones(d, np.int64), np.zeros(d, np.int64),
            np.full(d, -1, np.int64), 0, 0.0, self.origin or 0.0, 0.0, 0, 0, 0.0,
        )  # fmt: skip

    def update(self, problem: Problem, state: ReweightedState, chunk: Chunk) -> ReweightedState:
        return ReweightedState(*_reweighted(
            *chunk, problem.loss, self.rule(problem), self.bias_scale(), self.batch,
            problem.fit_intercept, self.origin or 0.0, state,
        ))  # fmt: skip

    def check_state(self, problem: Problem, state: ReweightedState) -> None:
        """The active coordinates and their places must be inverse to each other: the loops write
        where they lead."""
        super().check_state(problem, state)
        n, d = state.n_active, problem.n_features
        if n > d:
            raise ValueError("the state counts more features than there are")
        places = np.full(d, -1)
        places[state.active[:n]] = np.arange(n)
        if np.any(state.active[:n] < 0) or not np.array_equal(places, state.place):
            raise ValueError("the state's active features and their places disagree")

    def bias_scale(self) -> float:
        return 1.0

    def finish(self, problem: Problem, state: ReweightedState) -> LinearFunction:
        return LinearFunction(state.w.astype(problem.dtype), state.bias)

    def merge(
        self, problem: Problem, states: Any, base: ReweightedState, weights: Any
    ) -> ReweightedState:
        """The means of g, of the sums of Theta and of the steps, weighted by the masses of the
        rows as in ``rda.py``; the weights follow from these.

        With ``average_weights=False`` the newest Theta is no sum; then the weights are averaged
        until the next step.
        """
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        rule: Any = self.rule(problem)
        current = [_caught_up(rule, s) for s in states]
        merged = combined(current, base, shares, self.sum_fields)
        if merged.step == 0:
            return self.copy(base)
        _weights_of_sums(rule, merged.gradient, merged.thetas, merged.step, merged.w)
        active = np.flatnonzero(merged.w)
        merged.since[:], merged.active[:], merged.place[:] = merged.step, 0, -1
        merged.active[: active.size] = active
        merged.place[active] = np.arange(active.size)
        bias = -merged.bias_gradient / (self.bias_scale() * math.sqrt(merged.step))
        bias += self.origin or 0.0
        return merged._replace(
            n_active=active.size, bias=bias if problem.fit_intercept else 0.0,
            peak=max(s.peak for s in states),
        )  # fmt: skip


@dataclass(frozen=True)
class ReweightedL1(_Reweighted):
    """Reweighted l1-RDA; lambda is the strength of the (l1) penalty, exact zeros.

    Parameters
    ----------
    gamma : float or None, default=None
        Weight of the proximal term.  None: chosen on a sample of the rows.
    rho : float, default=0.0
        Extra soft-threshold of the proximal term.
    epsilon : float, default=0.1
        Smoothing of 1/(|w| + epsilon).  A coordinate at zero is held there by the threshold
        strength / epsilon: keep that near the strength you would use without reweighting.
    average_weights : bool, default=True
        Use the mean of all Theta (as the theory does) or only the newest.
    batch : int, default=1
        Rows per update.
    hold : float or None, default=None
        The threshold strength / epsilon as a share of the largest mean gradient at zero; epsilon
        follows from it and from the strength.  Beyond 1 a weight once zero never returns.  Searches
        try it in place of epsilon, which means something else at every strength.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with gamma given, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="rw_l1_rda", alpha=0.005, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85), model.density_ < 0.5
    (True, True)
    """

    gamma: float | None = None
    rho: float = 0.0
    epsilon: float = 0.1
    average_weights: bool = True
    space = {"gamma": Float(0.01, 100.0, log=True), "hold": Float(1e-3, 1.0, log=True)}
    batch: int = 1
    hold: float | None = None
    origin: float | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.gamma is not None and not self.gamma > 0.0:
            raise ValueError(f"ReweightedL1: gamma must be positive, got {self.gamma}")
        if not self.rho >= 0.0:
            raise ValueError(f"ReweightedL1: rho must be at least 0, got {self.rho}")
        if self.hold is not None and not self.hold > 0.0:
            raise ValueError(f"ReweightedL1: hold must be positive, got {self.hold}")
        _strength(problem)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        solver = self if self.hold is None else self._holding(self.hold, problem, chunk)
        solver = with_origin(solver, problem, chunk)
        if self.gamma is not None:
            return solver, problem
        norm = math.sqrt(mean_sqnorm(chunk) + 1e-12)
        gammas = [norm * m for m in (0.1, 0.3, 1.0, 3.0, 10.0)]
        return driver.best_on_sample(
            driver.variants(solver, "gamma", gammas), problem, chunk
        ), problem

    def _holding(self, hold: float, problem: Problem, chunk: Chunk) -> ReweightedL1:
        threshold = hold * largest_useful_strength(problem, chunk)
        usable = threshold > 0.0 and _strength(problem) > 0.0
        return replace(self, epsilon=_strength(problem) / threshold) if usable else self

    def rule(self, problem: Problem) -> L1Rule:
        gamma = self.gamma or 1.0
        return L1Rule(_strength(problem), gamma, self.rho, self.epsilon, not self.average_weights)

    def bias_scale(self) -> float:
        return self.gamma or 1.0

    def _has_steps(self) -> bool:
        return self.gamma is not None and self.hold is None

    def polish(self, problem: Problem, state: ReweightedState, chunk: Chunk) -> ReweightedState:
        held = _strength(problem) / self.epsilon
        if held > state.peak:
            warnings.warn(
                f"reweighted l1-RDA: strength / epsilon = {held:.3g} exceeds the largest mean "
                f"gradient of the run, {state.peak:.3g}: a weight once zero can never "
                "return; lower alpha or raise epsilon",
                stacklevel=2,
            )
        return state


@dataclass(frozen=True)
class ReweightedL2(_Reweighted):
    """Reweighted l2-RDA, truncated at the end: small weights become exact zeros.

    Parameters
    ----------
    epsilon : float or None, default=None
        Smoothing of 1/(w^2 + epsilon).  On small weights the reweighting acts as a ridge of
        strength 1/epsilon (strength/epsilon in the other variants).  None: so weak a ridge that it
        is a thousandth of the mean curvature that the rows give the loss, mean ||x||^2 / min(n, d),
        but strong enough for a row of the last pass to move its own prediction by at most one.
        Such a ridge no longer keeps the first steps short: gamma must.
    truncate : float, default=1e-3
        Weights of at most this size are zero in the model.
    variant : {"thesis", "literal", "ridge"}, default="thesis"
        The denominator: lambda + mean Theta (Alg. 10), lambda * mean Theta + gamma/sqrt(t), or
        lambda (1 + mean Theta) + gamma/sqrt(t).
    gamma : float or None, default=None
        Weight of the proximal term, which Alg. 10 goes without.  None: zero where epsilon is given,
        else chosen on a sample of the rows.
    average_weights : bool, default=True
        Use the mean of all Theta or only the newest.
    batch : int, default=1
        Rows per update.
    origin : float or None, default=None
        Where the bias starts.  None: at the mean target where targets are numbers, else at zero; in
        a stream with epsilon given, at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", solver="rw_l2_rda", alpha=0.01, random_state=0)
    >>> bool(model.fit(X, y).score(X, y) > 0.85)
    True
    """

    epsilon: float | None = None
    truncate: float = 1e-3
    variant: str = "thesis"
    gamma: float | None = None
    average_weights: bool = True
    space = {"epsilon": Float(1e-2, 1e4, log=True), "truncate": Float(1e-6, 1e-1, log=True)}
    batch: int = 1
    origin: float | None = None

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.variant not in ("thesis", "literal", "ridge"):
            raise ValueError(
                "ReweightedL2: variant must be 'thesis', 'literal' or 'ridge', "
                f"got {self.variant!r}"
            )
        if not ((self.gamma or 0.0) >= 0.0 and self.truncate >= 0.0):
            raise ValueError("ReweightedL2: gamma and truncate must be at least 0")
        _strength(problem)

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        solver = with_origin(self, problem, chunk)
        if self.epsilon is not None:
            return solver, problem
        n, length = chunk.order.size, max(mean_sqnorm(chunk), 1e-12)
        weak, calm = 1000.0 * min(n, problem.n_features), float(self.default_passes * n)
        _, reweight = self._strengths(problem)
        solver = replace(solver, epsilon=(reweight or 1.0) * min(weak, calm) / length)
        if self.gamma is not None:
            return solver, problem
        return with_gamma(solver, problem, chunk, math.sqrt(length)), problem

    def _has_steps(self) -> bool:
        return self.epsilon is not None

    def _strengths(self, problem: Problem) -> tuple[float, float]:
        """Of the ridge, and of the reweighted part."""
        lam = _strength(problem)
        return {"thesis": (lam, 1.0), "literal": (0.0, lam), "ridge": (lam, lam)}[self.variant]

    def rule(self, problem: Problem) -> L2Rule:
        epsilon, newest = self.epsilon or 0.1, not self.average_weights
        return L2Rule(*self._strengths(problem), self.gamma or 0.0, epsilon, newest)

    def finish(self, problem: Problem, state: ReweightedState) -> LinearFunction:
        coef, bias = super().finish(problem, state)
        coef[np.abs(coef) <= self.truncate] = 0.0
        return LinearFunction(coef, bias)


def _strength(problem: Problem) -> float:
    strength = getattr(problem.penalty, "strength", None)
    own = hasattr(problem.penalty, "weights") or "grouped" in problem.penalty.traits
    if strength is None or own:
        raise ValueError(
            "the reweighted solvers bring their own penalty and take only its strength: "
            "use penalty='l1' (or 'l2') with alpha"
        )
    return float(strength)
