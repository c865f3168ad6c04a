r"""Newton's method for losses with kinks: round the kinks off, less and less.

A loss that offers ``smoothed(width)`` is replaced by that smooth one, a Newton step or two minimise
it, the width is cut, and so on: a path-following method, cousin of the interior-point ones, that
works on the weights (Chapelle, 2007, for the plain Newton step).  Only rows whose prediction lies
within some widths of a kink have curvature, so the Hessian gets cheaper as the width shrinks, and
the intercept stays unpenalised.  For the optimum of the hinge, pinball and epsilon-insensitive
losses where rows outnumber features; dual coordinate descent is the alternative for many features.

Residual: Newton's own estimate for the smooth problem, plus the mean excess of the smooth loss over
the original one, both relative to the objective.  The second bounds what the rounding can hide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.functions import LinearFunction
from thresher.solvers.base import Chunk, Near, Problem, Solver
from thresher.solvers.driver import penalty_value
from thresher.solvers.newton import Newton, NewtonState

__all__ = ["SmoothedNewton"]


class SmoothedState(NamedTuple):
    newton: NewtonState
    width: float
    step: int
    residual_: float


@njit(cache=True, nogil=True)
def _losses(y, weight, order, loss, smooth, p):
    """Sums of the original loss and of the smooth one's excess over it."""
    value, excess = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        exact = loss.value(y[i], p[i])
        value += weight[i] * exact
        excess += weight[i] * (smooth.value(y[i], p[i]) - exact)
    return value, excess


@dataclass(frozen=True)
class SmoothedNewton(Solver):
    """Newton for losses with kinks, which are rounded off and sharpened again.

    Parameters
    ----------
    width : float, default=0.3
        First rounding; predictions change by about 1 between the sides of a hinge.
    cut : float, default=0.3
        Factor by which each stage narrows it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("hinge", solver="smoothed_newton", alpha=0.01).fit(X, y)
    >>> model.status_.name, bool(model.score(X, y) > 0.85)
    ('CONVERGED', True)
    """

    width: float = 0.3
    cut: float = 0.3
    loss_needs = frozenset({"smoothed"})
    penalty_needs = frozenset({"quadratic"})
    streaming = False
    default_passes = 300

    def check(self, problem: Problem) -> None:
        if not (self.width > 0.0 and 0.0 < self.cut < 1.0):
            raise ValueError("SmoothedNewton: needs width > 0 and 0 < cut < 1")

    def init(self, problem: Problem, chunk: Chunk | None = None) -> SmoothedState:
        start = Newton().init(self._rounded(problem, self.width), chunk)
        return SmoothedState(start, self.width, 0, math.inf)

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> SmoothedState:
        """From other weights, with kinks that are rounded off as at the start."""
        start = Newton().start_from(self._rounded(problem, self.width), chunk, near)
        return SmoothedState(start, self.width, 0, math.inf)

    def _rounded(self, problem: Problem, width: float) -> Problem:
        return replace(problem, loss=problem.loss.smoothed(width))

    def update(self, problem: Problem, s: SmoothedState, chunk: Chunk) -> SmoothedState:
        rounded = self._rounded(problem, s.width)
        newton = Newton().update(rounded, s.newton, chunk)
        value, excess = _losses(
            chunk.y, chunk.weight, chunk.order, problem.loss, rounded.loss, newton.p
        )
        mass = float(np.sum(chunk.weight[chunk.order]))
        whole = value / mass + penalty_value(problem, newton.w[:-1])
        hidden = excess / mass / max(whole, 1e-300)
        # Sharpen as soon as the rounding, not the optimisation, is what is left of the error.
        width = s.width * self.cut if newton.decrement < 0.5 * hidden else s.width
        return SmoothedState(newton, width, s.step + 1, newton.decrement + hidden)

    def finish(self, problem: Problem, state: SmoothedState) -> LinearFunction:
        return Newton().finish(problem, state.newton)

    def residual(self, problem: Problem, state: SmoothedState, before: Any, after: Any) -> float:
        return state.residual_
