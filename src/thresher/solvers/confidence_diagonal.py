"""Confidence-weighted learning with a variance for each weight: cost of the row's non-zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thresher._terms import Term, reassociate
from thresher.functions import DiagonalSpread
from thresher.solvers._gaussian_merge import Gaussian
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.confidence import Confidence

__all__ = ["DiagonalConfidence"]


class DiagonalState(NamedTuple):
    """Of each feature the means of all outputs, then their variances; the intercept comes last.

    Side by side, so that one access to memory brings what a feature needs.
    """

    table: np.ndarray
    errors: float
    mass: float
    passes: int
    step: int


@dataclass(frozen=True, eq=False)
class DiagonalBelief(Term):
    """Writes to its table."""

    table: np.ndarray
    constant: float

    @reassociate
    def score(self, rows, i, c):
        table = self.table
        total = self.constant * table[table.shape[0] - 1, c]
        for k in range(rows.start(i), rows.stop(i)):
            total += rows.element(i, k) * table[rows.column(i, k), c]
        return total

    def scores(self, rows, i, out):
        table = self.table
        for c in range(out.size):
            out[c] = self.constant * table[table.shape[0] - 1, c]
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            if x != 0.0:
                line = table[rows.column(i, k)]
                for c in range(out.size):
                    out[c] += x * line[c]

    @reassociate
    def variance(self, rows, i, c, slot):
        table = self.table
        place = table.shape[1] // 2 + c
        total = self.constant * self.constant * table[table.shape[0] - 1, place]
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            total += x * x * table[rows.column(i, k), place]
        return total

    def learn(self, rows, i, c, slot, move, gain):
        table = self.table
        place = table.shape[1] // 2 + c
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), rows.element(i, k)
            toward = table[j, place] * x
            table[j, c] += move * toward
            table[j, place] /= 1.0 + gain * toward * x
        last = table.shape[0] - 1
        toward = table[last, place] * self.constant
        table[last, c] += move * toward
        table[last, place] /= 1.0 + gain * toward * self.constant


@dataclass(frozen=True, eq=False)
class DiagonalConfidence(Confidence):
    r"""A variance for each weight; sparse rows at the cost of their non-zeros.

    The smallest change among diagonal Gaussians adds gain x_j^2 to the precision of each weight,
    which is what the diagonal of the full precision becomes; dropping what is off the diagonal of
    the covariance instead is about as good on dense rows, and worse on text.

    Parameters
    ----------
    rule : Rule, default=AROW()
        How far a row moves the mean, and what it says.
    constant : float, default=1.0
        Value of the constant feature whose weight is the intercept; 0: none.
    intercept_variance : float, default=1.0
        Of the intercept's weight before any row; of other weights it is one over the penalty's
        precision.
    prior_mean : array of shape (outputs, features + 1) or None, default=None
        Means before any row; None: zeros.
    combine : {"product", "divergence", "average"}, default="product"
        How beliefs of different rows are merged.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import SquaredHinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.confidence_diagonal import DiagonalConfidence
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> problem = Problem(SquaredHinge(), L2(1.0), 3)
    >>> chunk = driver.whole(as_rows(X), np.sign(X[:, 0]))
    >>> found = driver.learn(DiagonalConfidence(), problem, chunk, driver.Plan(1)).function
    >>> bool(np.mean(np.sign(found.scores(X)[:, 0]) == np.sign(X[:, 0])) > 0.97)
    True
    """

    def init(self, problem: Problem, chunk: Chunk | None = None) -> DiagonalState:
        mean, variance = self.prior(problem)
        table = np.concatenate([mean.T, np.tile(variance[:, None], problem.outputs)], axis=1)
        return DiagonalState(np.ascontiguousarray(table), 0.0, 0.0, 1, 0)

    def belief(self, problem: Problem, state: DiagonalState) -> DiagonalBelief:
        return DiagonalBelief(state.table, float(self.constant))

    def means(self, state: DiagonalState) -> np.ndarray:
        return state.table[:, : state.table.shape[1] // 2].T

    def gaussian(self, state: DiagonalState, c: int) -> Gaussian:
        place = state.table.shape[1] // 2 + c
        return Gaussian(state.table[:, c].copy(), state.table[:, place].copy())

    def replaced(self, state: DiagonalState, gaussians: Sequence[Gaussian]) -> DiagonalState:
        means, variances = zip(*gaussians, strict=True)
        return state._replace(table=np.ascontiguousarray(np.stack([*means, *variances], axis=1)))

    def spread(self, problem: Problem, state: DiagonalState) -> DiagonalSpread:
        variance = state.table[:, state.table.shape[1] // 2 :].T.copy()
        variance[:, -1] *= self.constant**2
        return DiagonalSpread(variance)

    def check_state(self, problem: Problem, state: DiagonalState) -> None:
        super().check_state(problem, state)
        if not np.all(state.table[:, state.table.shape[1] // 2 :] > 0.0):
            raise ValueError("the state's variances must be positive")
