"""Confidence-weighted learning with the covariances of all weights: d^2 per row that acts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thresher._terms import contract, reassociate
from thresher.functions import FullSpread
from thresher.solvers._gaussian_merge import Gaussian
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.confidence import Confidence, MeanScores
from thresher.solvers.confidence_rules import Recursive
from thresher.solvers.least_squares import refuse_large_matrix

__all__ = ["FullConfidence"]

_MOST_NUMBERS = 1 << 29  # 4 GB


class FullState(NamedTuple):
    """Of each output the mean (a column) and the covariance; the intercept comes last."""

    mean: np.ndarray
    covariance: np.ndarray
    errors: float
    mass: float
    passes: int
    step: int


@dataclass(frozen=True, eq=False)
class FullBelief(MeanScores):
    """Writes to its mean and covariance; ``toward`` holds S x of each slot."""

    mean: np.ndarray
    covariance: np.ndarray
    toward: np.ndarray
    left: np.ndarray  # x'Sx of each slot
    prior: np.ndarray
    constant: float
    certain: float

    @reassociate
    def variance(self, rows, i, c, slot):
        """The lines of S that belong to the elements of x, which are also its columns: four at a
        time, so that the sum is read and written once for them."""
        S, toward = self.covariance[c], self.toward[slot]
        last, start, stop = toward.size - 1, rows.start(i), rows.stop(i)
        for j in range(toward.size):
            toward[j] = self.constant * S[last, j]
        whole = stop - (stop - start) % 4
        for k in range(start, whole, 4):
            x0, x1 = rows.element(i, k), rows.element(i, k + 1)
            x2, x3 = rows.element(i, k + 2), rows.element(i, k + 3)
            if x0 != 0.0 or x1 != 0.0 or x2 != 0.0 or x3 != 0.0:
                a, b = S[rows.column(i, k)], S[rows.column(i, k + 1)]
                d, e = S[rows.column(i, k + 2)], S[rows.column(i, k + 3)]
                for j in range(toward.size):
                    toward[j] += x0 * a[j] + x1 * b[j] + x2 * d[j] + x3 * e[j]
        for k in range(whole, stop):
            x, line = rows.element(i, k), S[rows.column(i, k)]
            for j in range(toward.size):
                toward[j] += x * line[j]
        total = self.constant * toward[last]
        begun = self.constant * self.constant * self.prior[last]
        for k in range(rows.start(i), rows.stop(i)):
            x, j = rows.element(i, k), rows.column(i, k)
            total += x * toward[j]
            begun += x * x * self.prior[j]
        if total < self.certain * begun:  # rounding has more to say of it than S
            total = 0.0
        self.left[slot] = total
        return total

    @contract
    def learn(self, rows, i, c, slot, move, gain):
        """S less (gain / (1 + gain x'Sx)) S x (S x)', which stays symmetric to the last bit."""
        S, toward = self.covariance[c], self.toward[slot]
        if self.left[slot] <= 0.0:  # then S x is nothing, too, but for rounding
            return
        root = math.sqrt(gain / (1.0 + gain * self.left[slot]))
        for a in range(toward.size):
            self.mean[a, c] += move * toward[a]
            toward[a] *= root
        for a in range(toward.size):
            part = toward[a]
            if part != 0.0:
                line = S[a]
                for b in range(toward.size):
                    line[b] -= part * toward[b]


@dataclass(frozen=True, eq=False)
class FullConfidence(Confidence):
    """The covariances of all weights, a matrix for each output.

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
    max_features : int, default=5000
        Refuse more features than this, since the matrix has their square.

    Examples
    --------
    With every row acting, the mean is ridge regression:

    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.confidence_full import FullConfidence
    >>> from thresher.solvers.confidence_rules import Recursive
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> y = X[:, 0] - X[:, 1]
    >>> problem = Problem(LeastSquares(), L2(2.0), 3)
    >>> solver = FullConfidence(Recursive(r=1.0), constant=0.0)
    >>> found = driver.learn(solver, problem, driver.whole(as_rows(X), y), driver.Plan(1)).coef
    >>> bool(np.allclose(found, np.linalg.solve(X.T @ X + 2.0 * np.eye(3), X.T @ y)))
    True
    """

    max_features: int = 5000

    @property
    def merges_exactly(self) -> bool:  # type: ignore[override]
        return self.combine == "product" and isinstance(self.rule, Recursive)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        refuse_large_matrix(
            self, problem.n_features, self.max_features, "covariance='diagonal' or 'low_rank'"
        )
        if problem.outputs * problem.n_features**2 > _MOST_NUMBERS:
            raise ValueError(
                f"FullConfidence would need {problem.outputs} matrices of {problem.n_features} x "
                f"{problem.n_features}: use a diagonal or low-rank covariance"
            )

    def planned_passes(self, shape: tuple[int, int]) -> int:
        """One where it says all there is to say: a second would believe every row twice."""
        return 1 if isinstance(self.rule, Recursive) else self.default_passes

    def init(self, problem: Problem, chunk: Chunk | None = None) -> FullState:
        mean, variance = self.prior(problem)
        covariance = np.tile(np.diag(variance), (problem.outputs, 1, 1))
        return FullState(np.ascontiguousarray(mean.T), covariance, 0.0, 0.0, 1, 0)

    def belief(self, problem: Problem, state: FullState) -> FullBelief:
        toward, (_, prior) = np.zeros((2, problem.n_features + 1)), self.prior(problem)
        return FullBelief(
            state.mean, state.covariance, toward, np.zeros(2), prior, float(self.constant),
            float(self.rule.certain),  # type: ignore[attr-defined]
        )  # fmt: skip

    def means(self, state: FullState) -> np.ndarray:
        return state.mean.T

    def gaussian(self, state: FullState, c: int) -> Gaussian:
        return Gaussian(state.mean[:, c].copy(), state.covariance[c].copy())

    def replaced(self, state: FullState, gaussians: Sequence[Gaussian]) -> FullState:
        means, covariances = zip(*gaussians, strict=True)
        mean = np.ascontiguousarray(np.stack(means, axis=1))
        return state._replace(mean=mean, covariance=np.stack(covariances))

    def spread(self, problem: Problem, state: FullState) -> FullSpread:
        covariance = state.covariance.copy()
        covariance[:, -1] *= self.constant
        covariance[:, :, -1] *= self.constant
        return FullSpread(covariance)

    def check_state(self, problem: Problem, state: FullState) -> None:
        super().check_state(problem, state)
        if not np.all(np.diagonal(state.covariance, axis1=1, axis2=2) > 0.0):
            raise ValueError("the state's variances must be positive")
