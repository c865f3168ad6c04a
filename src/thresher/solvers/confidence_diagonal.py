"""Confidence-weighted learning with a variance for each weight: cost of the row's non-zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher._terms import Term, contract, reassociate
from thresher.functions import DiagonalSpread
from thresher.solvers._gaussian_merge import Gaussian
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.confidence import Confidence

__all__ = ["DiagonalConfidence"]


class DiagonalState(NamedTuple):
    """Of each feature the means of all outputs, then their variances, in the rows' precision.

    Side by side, so that one access to memory brings what a feature needs.  Those of the intercept,
    which every row moves, are doubles.
    """

    table: np.ndarray
    level: np.ndarray
    errors: float
    mass: float
    passes: int
    step: int


@dataclass(frozen=True, eq=False)
class DiagonalBelief(Term):
    """Writes to its table and level."""

    table: np.ndarray
    level: np.ndarray
    constant: float

    @reassociate
    def score(self, rows, i, c):
        table = self.table
        total = table.dtype.type(0)
        for k in range(rows.start(i), rows.stop(i)):
            total += rows.element(i, k) * table[rows.column(i, k), c]
        return total + self.constant * self.level[c]

    def scores(self, rows, i, out):
        table = self.table
        for c in range(out.size):
            out[c] = self.constant * self.level[c]
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            if x != 0.0:
                line = table[rows.column(i, k)]
                for c in range(out.size):
                    out[c] += x * line[c]

    @reassociate
    def variance(self, rows, i, c, slot):
        table, place = self.table, self.level.size // 2 + c
        total = table.dtype.type(0)
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            total += x * x * table[rows.column(i, k), place]
        return total + self.constant * self.constant * self.level[place]

    @contract
    def learn(self, rows, i, c, slot, move, gain):
        table, level, place = self.table, self.level, self.level.size // 2 + c
        one, far, much = table.dtype.type(1), table.dtype.type(move), table.dtype.type(gain)
        start, stop = rows.start(i), rows.stop(i)
        for k in range(start, stop):
            j, x = rows.column(i, k), rows.element(i, k)
            mean, variance = table[j, c], table[j, place]  # both are read before one is written
            toward = variance * x
            table[j, place] = variance / (one + much * toward * x)
            table[j, c] = mean + far * toward
        toward = level[place] * self.constant
        level[c] += move * toward
        level[place] /= 1.0 + gain * toward * self.constant


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
        means, variance = self.prior(problem)
        gaussians = [Gaussian(mean, variance) for mean in means]
        return DiagonalState(*_laid_out(gaussians, problem.dtype), 0.0, 0.0, 1, 0)

    def belief(self, problem: Problem, state: DiagonalState) -> DiagonalBelief:
        return DiagonalBelief(state.table, state.level, float(self.constant))

    def means(self, state: DiagonalState) -> np.ndarray:
        return _columns(state)[: state.level.size // 2]

    def gaussian(self, state: DiagonalState, c: int) -> Gaussian:
        columns = _columns(state)
        return Gaussian(columns[c], columns[state.level.size // 2 + c])

    def replaced(self, state: DiagonalState, gaussians: Sequence[Gaussian]) -> DiagonalState:
        table, level = _laid_out(gaussians, state.table.dtype)
        return state._replace(table=table, level=level)

    def spread(self, problem: Problem, state: DiagonalState) -> DiagonalSpread:
        variance = _columns(state)[state.level.size // 2 :]
        variance[:, -1] *= self.constant**2
        return DiagonalSpread(variance)

    def check_state(self, problem: Problem, state: DiagonalState) -> None:
        super().check_state(problem, state)
        if not np.all(_columns(state)[state.level.size // 2 :] > 0.0):
            raise ValueError("the state's variances must be positive")


def _laid_out(gaussians: Sequence[Gaussian], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Table and level."""
    columns = np.stack([*(g.mean for g in gaussians), *(g.covariance for g in gaussians)])
    return np.ascontiguousarray(columns[:, :-1].T, dtype=dtype), columns[:, -1].copy()


def _columns(state: DiagonalState) -> np.ndarray:
    """Means, then variances, of all outputs, with the intercept's last: doubles of their own."""
    return np.hstack([state.table.T.astype(np.float64), state.level[:, None]])
