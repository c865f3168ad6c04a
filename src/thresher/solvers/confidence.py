r"""Confidence-weighted learning: a Gaussian belief over the weights of a linear function.

N(mu, S) says how large each weight is and how well it is known.  A row that the belief is not sure
enough about moves it, unsure weights most; a row that many others have been like moves it little.
There is no step size.

.. math:: \mu \leftarrow \mu + \text{move}\; S x, \qquad
          S^{-1} \leftarrow S^{-1} + \text{gain}\; xx'

The rule (`confidence_rules.py`) gives the two numbers; the form of S is the solver's: diagonal
(`confidence_diagonal.py`), full (`confidence_full.py`), or a precision that is a diagonal and some
directions (`confidence_low_rank.py`).  The prior is N(prior mean, 1 / penalty.precision): the
penalty is the prior.  The intercept is a constant feature with a variance of its own.

*Several classes* have a belief each, and a row acts on two of them: its own class and the strongest
other one, whose difference is the margin (Crammer, Dredze and Kulesza, 2009).  Their belief is
block-diagonal, so that the variance of the margin is the sum of theirs.  Over 17 dense sets of
several classes this makes .8 of the errors of one belief for each class against the rest, over
three of text 1.05.

*Merging* takes beliefs that started as copies of one, ``base``, and saw different rows:

- "product": what the rows said adds up, P = P_base + sum (P_m - P_base) and likewise P mu.  Exact
  where rows act whatever the belief (least squares, full covariance); one stream's confidence.
- "divergence": the Gaussian nearest to all under symmetrised divergence, weighted by the masses
  of the rows (`_gaussian_merge.py`; AROW-MapReduce).  The confidence is a shard's.
- "average": means and variances are averaged, model averaging to compare with.

*Noise.*  r cancels from the mean if the prior goes with it, and as a variance it would be a guess.
The mean squared error of the rows just before each was learned from stands in its place wherever
variances are told, and rows that were visited in several passes count once: then those of recursive
least squares are the textbook's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from thresher._rows import AHEAD
from thresher._terms import Term, reassociate
from thresher.functions import BeliefFunction
from thresher.solvers._gaussian_merge import Gaussian, GaussianSums, inverse
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem, Solver, State, precisions
from thresher.solvers.confidence_rules import AROW, Rule

__all__ = ["COMBINATIONS", "Confidence", "usual_row"]

COMBINATIONS = ("product", "divergence", "average")


@njit(cache=True, nogil=True)
def _usual(rows, weight, order):
    mass, squares, stored = 0.0, 0.0, 0.0
    for i in order:
        mass += weight[i]
        squares += weight[i] * rows.sqnorm(i)
        stored += weight[i] * (rows.stop(i) - rows.start(i))
    return squares / mass, stored / mass


def usual_row(chunk: Chunk) -> tuple[float, float]:
    """Mean squared norm and number of elements of (some 10,000 evenly spaced) rows, by weight."""
    some = chunk.order[:: max(1, chunk.order.size // 10_000)]
    return _usual(chunk.rows, chunk.weight, some)


@njit(cache=True, nogil=True)
def _one(rows, y, weight, order, rule, belief, errors, mass):
    """One output; y holds real targets or signs."""
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        score = belief.score(rows, i, 0)
        error = rule.error(y[i], score)
        errors += weight[i] * error * error
        mass += weight[i]
        if rule.rests(y[i], score):
            continue
        move, gain = rule.step(y[i], score, belief.variance(rows, i, 0, 0), weight[i])
        if move != 0.0 or gain != 0.0:
            belief.learn(rows, i, 0, 0, move, gain)
    return errors, mass


@njit(cache=True, nogil=True)
def _several(rows, y, weight, order, rule, belief, scores, errors, mass):
    """A belief for each class; y holds class numbers."""
    for r in range(order.size):
        i = order[r]
        rows.fetch(order[min(r + AHEAD, order.size - 1)])
        belief.scores(rows, i, scores)
        own = int(y[i])
        rival = 1 if own == 0 else 0
        for c in range(scores.size):
            if c != own and scores[c] > scores[rival]:
                rival = c
        margin = scores[own] - scores[rival]
        error = rule.error(1.0, margin)
        errors += weight[i] * error * error
        mass += weight[i]
        if rule.rests(1.0, margin):
            continue
        variance = belief.variance(rows, i, own, 0) + belief.variance(rows, i, rival, 1)
        move, gain = rule.step(1.0, margin, variance, weight[i])
        if move != 0.0 or gain != 0.0:
            belief.learn(rows, i, own, 0, move, gain)
            belief.learn(rows, i, rival, 1, -move, gain)
    return errors, mass


class MeanScores(Term):
    """What beliefs with a ``mean`` of shape (features + 1, outputs) share."""

    mean: Any
    constant: Any

    @reassociate
    def score(self, rows, i, c):
        mean = self.mean
        total = self.constant * mean[mean.shape[0] - 1, c]
        for k in range(rows.start(i), rows.stop(i)):
            total += rows.element(i, k) * mean[rows.column(i, k), c]
        return total

    def scores(self, rows, i, out):
        for c in range(out.size):
            out[c] = self.score(rows, i, c)


@dataclass(frozen=True, eq=False)
class Confidence(Solver):
    """What the three forms share; see the module's text.

    Their states are NamedTuples of the belief's arrays and, last, ``errors`` (weighted squares of
    the rows' errors, each before it was learned from), ``mass``, ``passes`` and ``step``.  A
    *belief* is a term over these arrays, which writes to them; ``slot`` is where it leaves what
    ``learn`` takes up:

    ==========================================  ====================================================
    ``score(rows, i, c)``                       mu_c . x
    ``scores(rows, i, out)``                    of all outputs
    ``variance(rows, i, c, slot)``              x' S_c x
    ``learn(rows, i, c, slot, move, gain)``     mu_c += move S_c x, and S_c^-1 += gain x x'
    ==========================================  ====================================================
    """

    rule: Term = field(default_factory=AROW)
    constant: float = 1.0
    intercept_variance: float = 1.0
    prior_mean: np.ndarray | None = None
    combine: str = "product"
    penalty_needs = frozenset({"quadratic"})
    default_passes = 10
    joint = True
    linear = False  # what it minimises is no mean loss: it is judged by what it predicts

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.rule, Rule):
            raise TypeError(f"{name}: rule must be a Rule such as AROW(r=1.0), got {self.rule!r}")
        if not 0.0 <= self.constant < math.inf:
            raise ValueError(f"{name}: constant must be at least 0, got {self.constant}")
        if not 0.0 < self.intercept_variance < math.inf:
            given = self.intercept_variance
            raise ValueError(f"{name}: intercept_variance must be positive, got {given}")
        if self.combine not in COMBINATIONS:
            known = ", ".join(COMBINATIONS)
            raise ValueError(f"{name}: combine must be one of {known}, got {self.combine!r}")

    @property
    def sum_fields(self) -> frozenset[str]:  # type: ignore[override]
        accounts = frozenset({"errors", "mass"})
        return accounts | {"step"} if self.combine == "product" else accounts

    def check(self, problem: Problem) -> None:
        name, shape = type(self).__name__, (problem.outputs, problem.n_features + 1)
        prior = precisions(problem)
        if not (np.all(prior > 0.0) and np.all(np.isfinite(prior))):
            raise ValueError(f"{name}: prior variances must be positive and finite")
        if self.prior_mean is not None and self.prior_mean.shape != shape:
            raise ValueError(
                f"{name}: prior_mean has shape {self.prior_mean.shape}, not {shape} (a row for "
                "each output, the intercept last)"
            )

    # ------------------------------------------------------------ for the forms

    def belief(self, problem: Problem, state: State) -> Term:
        """The state's arrays as a term that scores rows and learns from them."""
        raise NotImplementedError

    def gaussian(self, state: State, c: int) -> Gaussian:
        """The belief of one output, in memory of its own."""
        raise NotImplementedError

    def replaced(self, state: State, gaussians: Sequence[Gaussian]) -> State:
        """The state with other beliefs, in memory of its own."""
        raise NotImplementedError

    def spread(self, problem: Problem, state: State) -> Any:
        """Variances of scores, as the function keeps them."""
        raise NotImplementedError

    def means(self, state: State) -> np.ndarray:
        """(outputs, features + 1)"""
        raise NotImplementedError

    def prior(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """Means (outputs, features + 1), and the variances (features + 1,) of all outputs."""
        mean = np.zeros((problem.outputs, problem.n_features + 1))
        if self.prior_mean is not None:
            mean[...] = self.prior_mean
        variance = np.append(1.0 / precisions(problem), self.intercept_variance)
        return mean, variance

    # ------------------------------------------------------------ the protocol

    def update(self, problem: Problem, state: State, chunk: Chunk) -> State:
        """One visit of each row of ``chunk.order``."""
        belief, settings = self.belief(problem, state), (state.errors, state.mass)
        if problem.outputs == 1:
            errors, mass = _one(*chunk, self.rule, belief, *settings)
        else:
            scores = np.zeros(problem.outputs)
            errors, mass = _several(*chunk, self.rule, belief, scores, *settings)
        return state._replace(errors=errors, mass=mass, step=state.step + chunk.order.size)

    def between(
        self, problem: Problem, state: State, chunk: Chunk | None, done: int, planned: int | None
    ) -> State:
        return state._replace(passes=done + 1)

    def finish(self, problem: Problem, state: State) -> BeliefFunction:
        means = self.means(state)
        coef = np.ascontiguousarray(means[:, :-1]).astype(problem.dtype)
        noise = float(state.errors / state.mass) if state.mass > 0.0 else 1.0
        factor = state.passes * self.rule.spread_factor(noise)  # type: ignore[attr-defined]
        told = np.full(means.shape[1], math.sqrt(factor))
        spread = self.spread(problem, state).rescaled(told)
        return BeliefFunction(coef, self.constant * means[:, -1], spread, noise, None)

    def check_state(self, problem: Problem, state: State) -> None:
        super().check_state(problem, state)
        if state.errors < 0.0 or state.mass < 0.0 or state.passes < 1:
            raise ValueError("the state's errors, mass or passes are damaged")

    def merge(
        self, problem: Problem, states: Sequence[State], base: State, weights: Sequence[float]
    ) -> State:
        """By ``combine``; see the module's text."""
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        merged = self.replaced(base, [
            self._combined_or_nothing(
                [self.gaussian(s, c) for s in states], self.gaussian(base, c), shares
            )
            for c in range(problem.outputs)
        ])  # fmt: skip
        steps = [s.step - base.step for s in states]
        added = sum(steps) if self.combine == "product" else round(float(shares @ steps))
        return merged._replace(
            errors=base.errors + sum(s.errors - base.errors for s in states),
            mass=base.mass + sum(s.mass - base.mass for s in states),
            passes=max(s.passes for s in states),
            step=base.step + added,
        )

    def _combined_or_nothing(
        self, beliefs: Sequence[Gaussian], base: Gaussian, shares: np.ndarray
    ) -> Gaussian:
        """NaN, by which the run ends as one that diverged, where no digit of a matrix is left."""
        if all(np.all(np.isfinite(part)) for belief in beliefs for part in belief):
            with suppress(np.linalg.LinAlgError):
                return self._combined(beliefs, base, shares)
        return Gaussian(*(np.full_like(part, np.nan) for part in base))

    def _combined(
        self, beliefs: Sequence[Gaussian], base: Gaussian, shares: np.ndarray
    ) -> Gaussian:
        if self.combine == "divergence":
            return _nearest(beliefs, base, shares)
        if self.combine == "average":
            parts = list(zip(shares, beliefs, strict=True))
            return Gaussian(*(sum(p * belief[k] for p, belief in parts) for k in (0, 1)))
        return _product(beliefs, base)


def _nearest(beliefs: Sequence[Gaussian], base: Gaussian, shares: np.ndarray) -> Gaussian:
    parts = (GaussianSums.of(b, p, base.mean) for b, p in zip(beliefs, shares, strict=True))
    return functools.reduce(GaussianSums.plus, parts).centre()


def _product(beliefs: Sequence[Gaussian], base: Gaussian) -> Gaussian:
    """Natural parameters about the base's mean, where its own are zero, add up."""
    prior = inverse(base.covariance)
    precision, natural = prior.copy(), np.zeros_like(base.mean)
    for belief in beliefs:
        own = inverse(belief.covariance)
        precision += own - prior
        away = belief.mean - base.mean
        natural += own * away if own.ndim == 1 else own @ away
    covariance = inverse(precision)
    away = covariance * natural if covariance.ndim == 1 else covariance @ natural
    return Gaussian(base.mean + away, covariance)
