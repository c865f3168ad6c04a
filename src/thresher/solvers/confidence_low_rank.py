r"""Confidence-weighted learning whose precision is a diagonal and a few directions.

.. math:: S^{-1} = D + U'U, \qquad S x = D^{-1}\bigl(x - U' (I + U D^{-1} U')^{-1} U D^{-1} x\bigr)

A row that acts adds gain xx' to the precision: sqrt(gain) x becomes a line of U, and the Cholesky
factor of the small matrix gets one more line.  When U has 2 ``rank`` lines it is turned to its
principal directions in the metric of D, the ``rank`` largest stay, and of the others the diagonal
goes to D.  So the diagonal of the precision is always that of the full one; with rank 0 this would
be the diagonal form, and with as many directions as features it is the full form.  The sketch is
that of frequent directions (Ghashami et al., 2016; Luo et al., 2016, for online Newton steps), with
the diagonal in place of the multiple of the identity that is dropped there.

Cost per row that acts: rank x features, and a few times that on average for the turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import solve, solve_triangular

from thresher.functions import LowRankSpread
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.confidence import Confidence, MeanScores
from thresher.solvers.confidence_rules import Recursive

__all__ = ["LowRankConfidence"]

_LEAST = 1e-12  # of the diagonal's variance: what the directions leave of it is a difference


class LowRankState(NamedTuple):
    """Of each output a mean (a column), D, the lines of U, a factor and the number of lines."""

    mean: np.ndarray
    diagonal: np.ndarray
    lines: np.ndarray
    factor: np.ndarray  # lower Cholesky factor of I + U D^-1 U'
    used: np.ndarray
    errors: float
    mass: float
    passes: int
    step: int


@njit(cache=True, nogil=True)
def _compress(diagonal, lines, factor, used, keep):
    """Turn the lines to principal directions, keep the largest, give the others' squares to D."""
    scaled = lines[:used] / np.sqrt(diagonal)
    sizes = scaled @ scaled.T
    if not np.all(np.isfinite(sizes)):  # LAPACK would raise: what follows is not a number either
        diagonal[:] = np.nan
        return 0
    _, turn = np.linalg.eigh(sizes)  # the largest come last
    turned = np.ascontiguousarray(turn.T) @ lines[:used]
    drop = max(used - keep, 0)
    for a in range(drop):
        for j in range(diagonal.size):
            diagonal[j] += turned[a, j] * turned[a, j]
    kept = used - drop
    lines[:kept] = turned[drop:]
    lines[kept:] = 0.0
    scaled = lines[:kept] / np.sqrt(diagonal)
    factor[...] = 0.0
    factor[:kept, :kept] = np.linalg.cholesky(np.eye(kept) + scaled @ scaled.T)
    return kept


@dataclass(frozen=True, eq=False)
class LowRankBelief(MeanScores):
    """Writes to its arrays; slots hold what ``variance`` found for ``learn``."""

    mean: np.ndarray
    diagonal: np.ndarray
    lines: np.ndarray
    factor: np.ndarray
    used: np.ndarray
    halves: np.ndarray  # factor^-1 U D^-1 x
    left: np.ndarray  # x'Sx
    constant: float
    rank: int

    def variance(self, rows, i, c, slot):
        D, half, last = self.diagonal[c], self.halves[slot], self.diagonal.shape[1] - 1
        total = self.constant * self.constant / D[last]
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            total += x * x / D[rows.column(i, k)]
        least = _LEAST * total
        for a in range(self.used[c]):  # forward substitution, line by line
            line, lower = self.lines[c, a], self.factor[c, a]
            value = self.constant * line[last] / D[last]
            for k in range(rows.start(i), rows.stop(i)):
                j = rows.column(i, k)
                value += rows.element(i, k) * line[j] / D[j]
            for b in range(a):
                value -= lower[b] * half[b]
            half[a] = value / lower[a]
            total -= half[a] * half[a]
        total = max(total, least)
        self.left[slot] = total
        return total

    def learn(self, rows, i, c, slot, move, gain):
        D, half, used = self.diagonal[c], self.halves[slot], self.used[c]
        lines, factor = self.lines[c], self.factor[c]
        last = D.size - 1
        toward = np.zeros(D.size)
        toward[last] = self.constant
        for k in range(rows.start(i), rows.stop(i)):
            toward[rows.column(i, k)] = rows.element(i, k)
        root = np.sqrt(gain)
        if gain > 0.0:
            lines[used] = root * toward
            factor[used, :used] = root * half[:used]
            factor[used, used] = np.sqrt(1.0 + gain * self.left[slot])
            self.used[c] = used + 1
        for a in range(used - 1, -1, -1):  # back substitution
            value = half[a]
            for b in range(a + 1, used):
                value -= factor[b, a] * half[b]
            half[a] = value / factor[a, a]
            for j in range(D.size):
                toward[j] -= half[a] * lines[a, j]
        for j in range(D.size):
            self.mean[j, c] += move * toward[j] / D[j]
        if self.used[c] == lines.shape[0]:
            self.used[c] = _compress(D, lines, factor, self.used[c], self.rank)


@dataclass(frozen=True, eq=False)
class LowRankConfidence(Confidence):
    """A precision of a diagonal and some directions.

    Merging averages precisions, weighted by the masses of the rows, and takes the mean that goes
    with it: the Gaussian N for which the mean of KL(N, N_m) is smallest.  That of symmetrised
    divergences is not of this form.

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
    combine : {"average"}, default="average"
        How beliefs of different rows are merged.
    rank : int, default=10
        Directions.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import SquaredHinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.confidence_low_rank import LowRankConfidence
    >>> X = np.random.default_rng(0).normal(size=(500, 30)) + np.arange(30)
    >>> y = np.sign(X[:, 0])
    >>> problem = Problem(SquaredHinge(), L2(1.0), 30)
    >>> chunk = driver.whole(as_rows(X), y)
    >>> found = driver.learn(LowRankConfidence(rank=3), problem, chunk, driver.Plan(2)).function
    >>> bool(np.mean(np.sign(found.scores(X)[:, 0]) == y) > 0.9)
    True
    """

    combine: str = "average"
    rank: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ValueError(f"LowRankConfidence: rank must be at least 1, got {self.rank}")
        if self.combine != "average":
            raise ValueError(f"LowRankConfidence merges by 'average' only, not {self.combine!r}")

    def planned_passes(self, shape: tuple[int, int]) -> int:
        """One where it says all there is to say: a second would believe every row twice."""
        return 1 if isinstance(self.rule, Recursive) else self.default_passes

    def init(self, problem: Problem, chunk: Chunk | None = None) -> LowRankState:
        mean, variance = self.prior(problem)
        k, d, lines = problem.outputs, problem.n_features + 1, 2 * self.rank
        return LowRankState(
            np.ascontiguousarray(mean.T), np.tile(1.0 / variance, (k, 1)), np.zeros((k, lines, d)),
            np.zeros((k, lines, lines)), np.zeros(k, dtype=np.int64), 0.0, 0.0, 1, 0,
        )  # fmt: skip

    def belief(self, problem: Problem, state: LowRankState) -> LowRankBelief:
        halves = np.zeros((2, 2 * self.rank))
        return LowRankBelief(*state[:5], halves, np.zeros(2), float(self.constant), self.rank)

    def means(self, state: LowRankState) -> np.ndarray:
        return state.mean.T

    def spread(self, problem: Problem, state: LowRankState) -> LowRankSpread:
        """S = D^-1 - V'V with V = factor^-1 U D^-1."""
        variance = 1.0 / state.diagonal
        directions = np.zeros_like(state.lines)
        for c, used in enumerate(state.used):
            scaled = state.lines[c, :used] * variance[c]
            factor = state.factor[c, :used, :used]
            directions[c, :used] = solve_triangular(factor, scaled, lower=True, check_finite=False)
        variance[:, -1] *= self.constant**2
        directions[:, :, -1] *= self.constant
        return LowRankSpread(variance, directions)

    def merge(
        self, problem: Problem, states: Sequence[Any], base: LowRankState, weights: Sequence[float]
    ) -> LowRankState:
        states, shares = present(states, weights)
        if not states:
            return self.copy(base)
        merged = self.copy(base)
        for c in range(problem.outputs):
            self._merge_output(merged, states, shares, c)
        return merged._replace(
            errors=base.errors + sum(s.errors - base.errors for s in states),
            mass=base.mass + sum(s.mass - base.mass for s in states),
            passes=max(s.passes for s in states),
            step=base.step + round(float(shares @ [s.step - base.step for s in states])),
        )

    def _merge_output(
        self, merged: LowRankState, states: Sequence[LowRankState], shares: np.ndarray, c: int
    ) -> None:
        """P = sum p P_m, and P mu = sum p P_m mu_m; the mean by P before it is compressed."""
        parts = list(zip(shares, states, strict=True))
        diagonal = sum(p * s.diagonal[c] for p, s in parts)
        stack = np.concatenate([np.sqrt(p) * s.lines[c, : s.used[c]] for p, s in parts])
        origin = sum(p * s.mean[:, c] for p, s in parts)  # near all of them, which keeps digits
        natural = np.zeros_like(diagonal)
        for p, s in parts:
            own, away = s.lines[c, : s.used[c]], s.mean[:, c] - origin
            natural += p * (s.diagonal[c] * away + own.T @ (own @ away))
        scaled = stack / diagonal
        small = np.eye(stack.shape[0]) + scaled @ stack.T
        try:
            known = stack.T @ solve(small, scaled @ natural, assume_a="pos")
        except (np.linalg.LinAlgError, ValueError):  # so sure of both sides that no digit is left
            merged.mean[:, c] = np.nan  # by which the run ends as one that diverged
            return
        merged.mean[:, c] = origin + (natural - known) / diagonal
        room = merged.lines.shape[1]
        factor = np.zeros((max(stack.shape[0], room), max(stack.shape[0], room)))
        used = _compress(diagonal, stack, factor, stack.shape[0], room - 1)
        merged.diagonal[c], merged.factor[c], merged.used[c] = diagonal, factor[:room, :room], used
        merged.lines[c] = 0.0
        merged.lines[c, :used] = stack[:used]

    def check_state(self, problem: Problem, state: LowRankState) -> None:
        super().check_state(problem, state)
        if not np.all(state.diagonal > 0.0):
            raise ValueError("the state's precisions must be positive")
        if not np.all((state.used >= 0) & (state.used < 2 * self.rank)):
            raise ValueError("the state's count of directions is damaged")
        steps = np.diagonal(state.factor, axis1=1, axis2=2)
        lines = np.arange(2 * self.rank) < state.used[:, None]
        if not np.all(steps[lines] >= 1.0):
            raise ValueError("the state's factor is damaged")
