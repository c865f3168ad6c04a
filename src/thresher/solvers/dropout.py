r"""Pegasos with a random, weight-dependent penalty: "probabilistic reweighted" or dropout Pegasos.

.. math:: r_j \sim \mathrm{Bernoulli}\!\left(\frac{w_j^2}{1+w_j^2}\right),\qquad
          w \leftarrow w - \eta_t(\lambda\, r\circ w + g),\qquad \eta_t = 1/(\lambda t)

Large weights are shrunk almost every time, tiny ones almost never.  V. Jumutc's thesis, Alg. 11
(sign of g corrected), and section 3.8 of Jumutc and Suykens, "Reweighted stochastic learning".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher.functions import LinearFunction
from thresher.solvers._batch import add_rows, slopes_at
from thresher.solvers._states import combined, present
from thresher.solvers._targets import (
    SIGNS,
    TargetUnits,
    is_on_ball,
    never_rests,
    reach,
    shortened,
    units_of,
)
from thresher.solvers.base import Chunk, Problem, Solver, check_batch

__all__ = ["DropoutPegasos"]


class DropoutState(NamedTuple):
    w: np.ndarray
    bias: float
    mean: np.ndarray  # of the iterates, weighted by t; empty where the last one is the model
    mean_bias: float
    step: int
    seen: int
    paid: float
    constant: float  # loss of the best constant prediction: it sets the radius of the ball
    weights: float  # of the rows so far


@njit(cache=True, nogil=True)
def _dropout(rows, y, weight, order, loss, lam, units, batch, project, fit_bias, seed, state):
    w, bias, step, seen, paid = state.w, state.bias, state.step, state.seen, state.paid
    mean, mean_bias = state.mean, state.mean_bias
    constant, weights = state.constant, state.weights
    radius, delay = 1.0 / math.sqrt(lam), units.delay
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = 1.0 / (lam * (step + delay))
        slope_sum, loss_sum = slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes)
        paid += loss_sum
        if units.limit < math.inf:
            slope_sum = 0.0
            for r in range(size):
                i = order[first + r]
                slopes[r] = shortened(rows, i, slopes[r], eta, units)
                slope_sum += slopes[r]
        seen += size
        for j in range(w.size):
            square = w[j] * w[j]
            if square > 0.0 and uniform(seed, step, j) * (1.0 + square) < square:
                w[j] *= 1.0 - 1.0 / (step + delay)
        add_rows(rows, order, first, size, -eta, slopes, w)
        if fit_bias:
            # Steps that begin in the units of the targets are safe for a bias too.
            bias -= (eta if delay > 0.0 else min(eta, 1.0 / math.sqrt(step))) * slope_sum
        if project:
            for r in range(size):
                i = order[first + r]
                constant += weight[i] * loss.value(y[i], units.origin)
                weights += weight[i]
            sqnorm, longest = 0.0, radius * reach(constant, weights, units.floor)
            for j in range(w.size):
                sqnorm += w[j] * w[j]
            if sqnorm > longest * longest:
                shrink = longest / math.sqrt(sqnorm)
                for j in range(w.size):
                    w[j] *= shrink
        share = 2.0 / (step + 1.0)
        for j in range(mean.size):
            mean[j] += share * (w[j] - mean[j])
        mean_bias += share * (bias - mean_bias)
    return w, bias, mean, mean_bias, step, seen, paid, constant, weights


@dataclass(frozen=True)
class DropoutPegasos(Solver):
    """Dropout Pegasos: large weights are shrunk almost every time, tiny ones almost never.

    No theory backs it and it produces no zeros; on data with a few strong features it can beat
    Pegasos (Spambase and CNAE-9 in the thesis).  Cost per update O(d + non-zeros of the batch):
    raise ``batch`` for large d.

    Parameters
    ----------
    batch : int, default=1
        Rows per update.
    project : bool, default=True
        Keep the weights in a ball, as ``Pegasos`` does.
    average : bool or None, default=None
        The model is the mean of the iterates, weighted by t, instead of the last one.  None: as for
        ``Pegasos``.
    units : TargetUnits or None, default=None
        Start of the bias, length and delay of the steps.  None: as for ``Pegasos``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> from thresher.solvers import DropoutPegasos
    >>> solver = DropoutPegasos(batch=10)
    >>> model = LinearClassifier("logistic", solver=solver, alpha=0.1, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    batch: int = 1
    project: bool = True
    average: bool | None = None
    units: TargetUnits | None = None
    penalty_needs = frozenset({"quadratic", "uniform"})
    sum_fields = frozenset({"seen", "paid", "constant", "weights"})

    def check(self, problem: Problem) -> None:
        check_batch(self)
        if not problem.ridge > 0.0:
            raise ValueError("DropoutPegasos steps are 1/(alpha t): alpha must be positive")

    def prepare(self, problem: Problem, chunk: Chunk) -> tuple[Solver, Problem]:
        """Steps for targets that are numbers; those of signs are as published."""
        units = self.units or units_of(problem, chunk.rows, chunk, problem.ridge)
        average = never_rests(problem, units) if self.average is None else self.average
        return replace(self, average=average, units=units), problem

    def init(self, problem: Problem, chunk: Chunk | None = None) -> DropoutState:
        d, dtype = problem.n_features, problem.dtype
        mean = np.zeros(d if self.average else 0, dtype)
        bias = (self.units or SIGNS).origin
        return DropoutState(np.zeros(d, dtype), bias, mean, bias, 0, 0, 0.0, 0.0, 0.0)

    def update(self, problem: Problem, state: DropoutState, chunk: Chunk) -> DropoutState:
        return DropoutState(*_dropout(
            *chunk, problem.loss, problem.ridge, self.units or SIGNS, self.batch, self.project,
            problem.fit_intercept, problem.seed, state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: DropoutState) -> LinearFunction:
        if self.average:
            return LinearFunction(state.mean.copy(), state.mean_bias)
        return LinearFunction(state.w.copy(), state.bias)

    def is_at_bound(self, problem: Problem, state: DropoutState) -> bool:
        norm, units = float(np.linalg.norm(state.w)), self.units or SIGNS
        return self.project and is_on_ball(
            norm, problem.ridge, state.constant, state.weights, units
        )

    def merge(
        self, problem: Problem, states: Any, base: DropoutState, weights: Any
    ) -> DropoutState:
        """w = sum_k m_k w_k / sum_k m_k, within the ball as all of them; the mean likewise.

        ``step``, the clock of the steps, is a weighted mean too; ``seen`` and ``paid`` add up.
        """
        states, shares = present(states, weights)
        return combined(states, base, shares, self.sum_fields) if states else self.copy(base)
