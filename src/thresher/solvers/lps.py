r"""LPS: prox and reduced Newton steps on the rows in memory, the local phase of RDA+ alone.

From zero, with all features as its manifold; see ``_local.py`` for the steps.  Here to be compared
with: :class:`~thresher.solvers.proximal_newton.ProximalNewton` is the faster batch solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher.functions import LinearFunction
from thresher.penalties.blocks import GroupPenalty, split
from thresher.solvers._local import Options, Point, advance, looked_at
from thresher.solvers._manifold import Units, distance, of_copies
from thresher.solvers._views import View, gradient_at
from thresher.solvers.base import Chunk, Near, Problem, Solver

__all__ = ["DELTA", "LPS", "check_options"]

DELTA = 1e-4  # at which to end where no tolerance is given


class LPSState(NamedTuple):
    w: np.ndarray  # of copies, where groups share features
    bias: float
    p: np.ndarray  # predictions of all rows
    loss: float  # their mean
    step: int
    delta: float  # at w; infinite before the first look


def check_options(solver: Any) -> None:
    """Refuse thresholds, fractions and numbers of rows that make no sense."""
    name = type(solver).__name__
    if solver.newton_threshold < 0:
        raise ValueError(
            f"{name}: newton_threshold must be at least 0, got {solver.newton_threshold}"
        )
    if not 0.0 < solver.gradient_fraction <= 1.0:
        raise ValueError(
            f"{name}: gradient_fraction must lie in (0, 1], got {solver.gradient_fraction}"
        )
    if solver.hessian_rows < 0:
        raise ValueError(f"{name}: hessian_rows must be at least 0, got {solver.hessian_rows}")


@dataclass(frozen=True)
class LPS(Solver):
    """Prox and reduced Newton steps: the batch solver that RDA+ was published with.

    Any penalty with a proximal map, over coordinates or groups, and a smooth loss.  ``tol`` is the
    optimality measure delta: the root mean square over all coordinates of the subgradient of least
    norm, in units of the gradient; 1e-4 if none is given.

    Parameters
    ----------
    newton_threshold : int, default=2000
        Most non-zero weights whose Hessian is formed; beyond, steps go through the columns, or,
        for groups, are proximal gradient steps.
    gradient_fraction : float, default=1.0
        Share of the gradient that is taken for a step: non-zero weights, and a random part of the
        others.  Saves time on dense rows only.
    hessian_rows : int, default=0
        Rows that the Hessian is estimated from.  0: as many as take the time of a gradient, and
        at least 3000 and 50 for each weight.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from thresher import LinearClassifier
    >>> X, y = make_classification(300, 20, random_state=0)
    >>> model = LinearClassifier("logistic", penalty="l1", solver="lps", alpha=0.05).fit(X, y)
    >>> model.status_.name, model.density_ < 0.5
    ('CONVERGED', True)
    """

    newton_threshold: int = 2000
    gradient_fraction: float = 1.0
    hessian_rows: int = 0
    loss_needs = frozenset({"curvature"})
    default_penalty = "l1"
    streaming = False
    default_passes = 200

    def check(self, problem: Problem) -> None:
        check_options(self)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> LPSState:
        assert chunk is not None
        return self._at(problem, chunk, np.zeros(of_copies(problem).n_features), 0.0)

    def start_from(self, problem: Problem, chunk: Chunk, near: Near) -> LPSState:
        w: np.ndarray = near.coef.astype(np.float64)
        penalty = problem.penalty
        w = split(penalty, w) if isinstance(penalty, GroupPenalty) and penalty.overlaps else w
        return self._at(problem, chunk, w, near.intercept)

    def _at(self, problem: Problem, chunk: Chunk, w: np.ndarray, bias: float) -> LPSState:
        units = Units.of(problem.penalty, problem.n_features)
        point = Point.at(of_copies(problem), View.whole(chunk, units.members), w, bias)
        return LPSState(*point, 0, math.inf)

    def update(self, problem: Problem, s: LPSState, chunk: Chunk) -> LPSState:
        units = Units.of(problem.penalty, problem.n_features)
        problem, view = of_copies(problem), View.whole(chunk, units.members)
        options = Options(self.newton_threshold, self.gradient_fraction, self.hessian_rows)
        inside = np.ones(units.pointers.size - 1, np.bool_)
        tol = problem.tol or 0.0
        looked = looked_at(problem, units, inside, s.w, options, s.step)
        gradient = gradient_at(problem, view, s.p, looked)
        delta = distance(problem.penalty, s.w, gradient[:-1], float(gradient[-1]))
        if looked is not None and delta <= tol:  # a part of the gradient is no proof
            gradient = gradient_at(problem, view, s.p)
            delta = distance(problem.penalty, s.w, gradient[:-1], float(gradient[-1]))
        if delta <= tol:
            return s._replace(step=s.step + 1, delta=delta)
        point = advance(
            problem, view, units, inside, Point(s.w, s.bias, s.p, s.loss), gradient, options, s.step
        )
        return LPSState(*point, s.step + 1, delta)

    def finish(self, problem: Problem, state: LPSState) -> LinearFunction:
        units = Units.of(problem.penalty, problem.n_features)
        return LinearFunction(units.summed(state.w).astype(problem.dtype), state.bias)

    def residual(self, problem: Problem, state: LPSState, before: Any, after: Any) -> float:
        """delta before the last step."""
        return state.delta

    def is_done(self, problem: Problem, state: LPSState, residual: float) -> bool:
        return residual <= (DELTA if problem.tol is None else problem.tol)
