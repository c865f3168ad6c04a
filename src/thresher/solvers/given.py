"""Weights that were learned elsewhere: nothing is left for the passes to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thresher.functions import LinearFunction
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["Given", "GivenState"]


class GivenState(NamedTuple):
    """How many rows have gone by."""

    step: int


@dataclass(frozen=True, eq=False)
class Given(Solver):
    """A linear function that is known before any row is seen, as that of boosted trees.

    Parameters
    ----------
    coef : array of shape (n_outputs, n_features)
    intercept : array of shape (n_outputs,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import Hinge
    >>> from thresher.penalties import L2
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.given import Given
    >>> solver = Given(np.ones((1, 2)), np.zeros(1))
    >>> chunk = driver.whole(as_rows(np.eye(2)), np.array([1.0, -1.0]))
    >>> driver.learn(solver, Problem(Hinge(), L2(1.0), 2), chunk, driver.Plan(1)).function.coef
    array([[1., 1.]])
    """

    coef: np.ndarray
    intercept: np.ndarray
    default_passes = 1
    sum_fields = frozenset({"step"})
    merges_exactly = True
    joint = True
    linear = False  # the penalty is of nothing that was learned here

    def check(self, problem: Problem) -> None:
        if self.coef.shape != (problem.outputs, problem.n_features):
            raise ValueError(
                f"weights of shape {self.coef.shape} are not for {problem.outputs} outputs of "
                f"{problem.n_features} features"
            )

    def planned_passes(self, shape: tuple[int, int]) -> int:
        return 1

    def init(self, problem: Problem, chunk: Chunk | None = None) -> GivenState:
        return GivenState(0)

    def update(self, problem: Problem, state: GivenState, chunk: Chunk) -> GivenState:
        return GivenState(state.step + int(chunk.order.size))

    def finish(self, problem: Problem, state: GivenState) -> LinearFunction:
        return LinearFunction(self.coef, self.intercept)

    def merge(
        self, problem: Problem, states: Sequence[GivenState], base: GivenState,
        weights: Sequence[float],
    ) -> GivenState:  # fmt: skip
        """Rows that have gone by add up."""
        states, _ = present(states, weights)
        return GivenState(base.step + sum(s.step - base.step for s in states))

    def residual(self, problem: Problem, state: GivenState, before: object, after: object) -> float:
        return 0.0
