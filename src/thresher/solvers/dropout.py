r"""Pegasos with a random, weight-dependent penalty: "probabilistic reweighted" or dropout Pegasos.

.. math:: r_j \sim \mathrm{Bernoulli}\!\left(\frac{w_j^2}{1+w_j^2}\right),\qquad
          w \leftarrow w - \eta_t(\lambda\, r\circ w + g),\qquad \eta_t = 1/(\lambda t)

Large weights are shrunk almost every time, tiny ones almost never.  V. Jumutc's thesis, Alg. 11
(sign of g corrected), and section 3.8 of Jumutc and Suykens, "Reweighted stochastic learning".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher.functions import LinearFunction
from thresher.solvers._batch import add_rows, slopes_at
from thresher.solvers._states import combined, present
from thresher.solvers.base import Chunk, Problem, Solver, check_batch

__all__ = ["DropoutPegasos"]


class DropoutState(NamedTuple):
    w: np.ndarray
    bias: float
    step: int
    seen: int
    paid: float


@njit(cache=True, nogil=True)
def _dropout(rows, y, weight, order, loss, lam, batch, radius, fit_bias, seed, state):
    w, bias, step, seen, paid = state.w, state.bias, state.step, state.seen, state.paid
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = 1.0 / (lam * step)
        slope_sum, loss_sum = slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes)
        paid += loss_sum
        seen += size
        for j in range(w.size):
            square = w[j] * w[j]
            if square > 0.0 and uniform(seed, step, j) * (1.0 + square) < square:
                w[j] *= 1.0 - 1.0 / step
        add_rows(rows, order, first, size, -eta, slopes, w)
        if fit_bias:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
        sqnorm = 0.0
        for j in range(w.size):
            sqnorm += w[j] * w[j]
        if sqnorm > radius * radius:
            shrink = radius / math.sqrt(sqnorm)
            for j in range(w.size):
                w[j] *= shrink
    return w, bias, step, seen, paid


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
        Keep ||w|| within 1/sqrt(lambda).

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
    penalty_needs = frozenset({"quadratic", "uniform"})
    sum_fields = frozenset({"seen", "paid"})

    def check(self, problem: Problem) -> None:
        check_batch(self)
        if not problem.ridge > 0.0:
            raise ValueError("DropoutPegasos steps are 1/(alpha t): alpha must be positive")

    def init(self, problem: Problem, chunk: Chunk | None = None) -> DropoutState:
        return DropoutState(np.zeros(problem.n_features, dtype=problem.dtype), 0.0, 0, 0, 0.0)

    def update(self, problem: Problem, state: DropoutState, chunk: Chunk) -> DropoutState:
        radius = 1.0 / math.sqrt(problem.ridge) if self.project else math.inf
        return DropoutState(*_dropout(
            *chunk, problem.loss, problem.ridge, self.batch, radius, problem.fit_intercept,
            problem.seed, state,
        ))  # fmt: skip

    def finish(self, problem: Problem, state: DropoutState) -> LinearFunction:
        return LinearFunction(state.w.copy(), state.bias)

    def merge(
        self, problem: Problem, states: Any, base: DropoutState, weights: Any
    ) -> DropoutState:
        """w = sum_k m_k w_k / sum_k m_k, within the ball as all of them.

        ``step``, the clock of the steps, is a weighted mean too; ``seen`` and ``paid`` add up.
        """
        states, shares = present(states, weights)
        return combined(states, base, shares, self.sum_fields) if states else self.copy(base)
