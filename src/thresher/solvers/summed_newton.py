r"""Newton's method by sums over rows that come in parts: out of core, and on many machines.

At a point w a pass adds up, over all rows,

.. math:: \sum_i \ell_i, \qquad \sum_i \ell_i'\,\tilde x_i, \qquad
          \sum_i \ell_i''\,\tilde x_i \tilde x_i' ,

and between two passes a step is taken.  A step that did not keep its promise is halved, which costs
a pass too.  States of different rows are added: the model is that of one machine, to rounding.

Memory is the square of the features; a pass costs O(non-zeros^2) a row, a step O(d^3).  Residual:
half the squared Newton decrement over f, an estimate of (f - f*) / f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher.functions import LinearFunction
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem, Solver, precisions
from thresher.solvers.least_squares import refuse_large_matrix
from thresher.solvers.newton import derivatives, newton_direction, predict

__all__ = ["SummedNewton"]

_UNKNOWN = 1e300  # decrement before the first step
_ENOUGH = 1e-9  # decrement at which to end where no tolerance is given


class NewtonSums(NamedTuple):
    """Sums of the rows seen in this pass at w, and the last point that was kept."""

    w: np.ndarray  # weights and intercept at which the sums are taken
    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    mass: float
    step: int
    kept: np.ndarray  # the best point so far
    best: float  # the objective there; no objective is negative, so that -1 is none
    direction: np.ndarray  # from there
    slope: float  # of the objective along it
    length: float  # share of the direction that leads to w
    decrement: float


@dataclass(frozen=True)
class SummedNewton(Solver):
    """Newton's method for rows that do not fit in memory, or lie on many machines.

    Parameters
    ----------
    max_features : int, default=5000
        Refuse more features than this, since the Hessian has their square.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher import LinearClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sums = LinearClassifier("logistic", solver="summed_newton", scale=True).fit(X, y)
    >>> whole = LinearClassifier("logistic", solver="newton", tol=1e-9, scale=True).fit(X, y)
    >>> bool(abs(sums.coef_ - whole.coef_).max() < 1e-3 * abs(whole.coef_).max())
    True
    """

    max_features: int = 5000
    loss_needs = frozenset({"curvature"})
    penalty_needs = frozenset({"quadratic"})
    default_passes = 50
    by_blocks = True
    sum_fields = frozenset({"value", "gradient", "hessian", "mass", "step"})
    merges_exactly = True

    @property
    def by_rows(self) -> bool:
        return False

    def check(self, problem: Problem) -> None:
        refuse_large_matrix(self, problem.n_features, self.max_features)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> NewtonSums:
        d = problem.n_features + 1
        w, gradient, kept, direction = (np.zeros(d) for _ in range(4))
        hessian = np.zeros((d, d))
        return NewtonSums(
            w, 0.0, gradient, hessian, 0.0, 0, kept, -1.0, direction, 0.0, 1.0, _UNKNOWN
        )

    def update(self, problem: Problem, s: NewtonSums, chunk: Chunk) -> NewtonSums:
        rows, y, weight, order = chunk
        p = np.zeros(chunk.size)
        predict(rows, order, s.w[:-1], s.w[-1], p)
        gradient, hessian = np.zeros_like(s.gradient), np.zeros_like(s.hessian)
        blocked = rows.stored > 0.25 * rows.shape[0] * problem.n_features
        value = derivatives(rows, y, weight, order, problem.loss, p, gradient, hessian, blocked)
        return s._replace(
            value=s.value + float(value), gradient=s.gradient + gradient,
            hessian=s.hessian + hessian, mass=s.mass + float(np.sum(weight[order])),
            step=s.step + order.size,
        )  # fmt: skip

    def between(
        self, problem: Problem, state: NewtonSums, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> NewtonSums:  # fmt: skip
        return _stepped(problem, state) if state.mass > 0.0 else state

    def finish(self, problem: Problem, state: NewtonSums) -> LinearFunction:
        """The point after the next full step; where steps have to be halved, the last kept one."""
        after = _stepped(problem, state) if state.mass > 0.0 else state
        w = after.w if after.length == 1.0 else after.kept
        return LinearFunction(w[:-1].astype(problem.dtype), float(w[-1]))

    def residual(self, problem: Problem, state: NewtonSums, before: Any, after: Any) -> float:
        return _stepped(problem, state).decrement if state.mass > 0.0 else state.decrement

    def is_done(self, problem: Problem, state: NewtonSums, residual: float) -> bool:
        return residual <= (_ENOUGH if problem.tol is None else problem.tol)

    def merge(self, problem: Problem, states: Any, base: NewtonSums, weights: Any) -> NewtonSums:
        """Sums are added, as those of :class:`DirectLeastSquares` are."""
        states, shares = present(states, weights)
        masses = np.array([s.mass - base.mass for s in states])
        learned = masses > 0.0
        total, share = float(masses[learned].sum()), float(shares[learned].sum())
        value, gradient, hessian = base.value, base.gradient.copy(), base.hessian.copy()
        for k in np.flatnonzero(learned):
            factor = (shares[k] / share) * (total / masses[k])
            value += factor * (states[k].value - base.value)
            gradient += factor * (states[k].gradient - base.gradient)
            hessian += factor * (states[k].hessian - base.hessian)
        step = base.step + sum(s.step - base.step for s in states)
        return self.copy(base)._replace(
            value=value, gradient=gradient, hessian=hessian, mass=base.mass + total, step=step
        )


def _stepped(problem: Problem, s: NewtonSums) -> NewtonSums:
    """Keep the point if it kept what was promised, and go on from it; else half the way back."""
    precision = precisions(problem)
    d = precision.size
    value = s.value / s.mass + 0.5 * float(np.sum(precision * s.w[:d] ** 2))
    promised = s.best + 1e-3 * s.length * s.slope + 1e-14 * abs(s.best)
    if s.best >= 0.0 and not value <= promised:
        half = 0.5 * s.length
        return _emptied(s._replace(w=s.kept + half * s.direction, length=half))
    gradient = s.gradient / s.mass
    gradient[:d] += precision * s.w[:d]
    if not problem.fit_intercept:
        gradient[d] = 0.0
    direction = newton_direction(problem, s.hessian / s.mass, precision, gradient)
    slope = float(gradient @ direction)
    decrement = -0.5 * slope / max(value, 1e-300)
    after = s._replace(
        w=s.w + direction, kept=s.w.copy(), best=value, direction=direction, slope=slope,
        length=1.0, decrement=decrement,
    )  # fmt: skip
    return _emptied(after)


def _emptied(s: NewtonSums) -> NewtonSums:
    """For the sums of the next pass."""
    gradient, hessian = np.zeros_like(s.gradient), np.zeros_like(s.hessian)
    return s._replace(value=0.0, gradient=gradient, hessian=hessian, mass=0.0)
