r"""Newton's method by sums over rows that come in parts: out of core, and on many machines.

At a point w a pass adds up, over all rows,

.. math:: \sum_i \ell_i, \qquad \sum_i \ell_i'\,\tilde x_i, \qquad
          \sum_i \ell_i''\,\tilde x_i \tilde x_i' ,

and between two passes a step is taken: to the minimum of the quadratic model plus the penalty, by
one direct solve where the penalty is quadratic, else by coordinate descent (proximal Newton).  A
step that did not keep its promise is halved, which costs a pass too.  States of different rows are
added: the model is that of one machine, to rounding.

Memory is the square of the features; a pass costs O(non-zeros^2) a row, a step O(d^3).  Residual:
the decrease that the next step promises over f, an estimate of (f - f*) / f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher._terms import capabilities
from thresher.functions import LinearFunction
from thresher.solvers._states import added
from thresher.solvers._system import whole_hessian
from thresher.solvers._working_set import descend_matrix
from thresher.solvers.base import Chunk, Problem, Solver, precisions
from thresher.solvers.driver import penalty_value
from thresher.solvers.least_squares import refuse_large_matrix
from thresher.solvers.newton import derivatives, newton_direction, predict

__all__ = ["SummedNewton", "reduced_model"]

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
    slope: float  # by which the objective falls at first, all the way taken
    length: float  # share of the direction that leads to w
    decrement: float


@dataclass(frozen=True)
class SummedNewton(Solver):
    """Newton's method for rows that do not fit in memory, or lie on many machines.

    Any penalty with a proximal map: with l1 the model is as sparse as proximal Newton's.

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
    penalty_needs = frozenset({"prox"})
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
        sums = added(states, base, weights, ("value", "gradient", "hessian"), "mass")
        return self.copy(base)._replace(**sums)


class _Step(NamedTuple):
    """From w to the minimum of the model there: the point, the slope towards it, the decrease."""

    target: np.ndarray
    slope: float
    decrease: float


def _stepped(problem: Problem, s: NewtonSums) -> NewtonSums:
    """Keep the point if it kept what was promised, and go on from it; else half the way back."""
    value = s.value / s.mass + penalty_value(problem, s.w[:-1])
    promised = s.best + 1e-3 * s.length * s.slope + 1e-14 * abs(s.best)
    if s.best >= 0.0 and not value <= promised:
        half = 0.5 * s.length
        return _emptied(s._replace(w=s.kept + half * s.direction, length=half))
    gradient = s.gradient / s.mass
    if not problem.fit_intercept:
        gradient[-1] = 0.0
    quadratic = "quadratic" in capabilities(problem.penalty)
    step = (_direct if quadratic else _proximal)(problem, s.w, gradient, s.hessian / s.mass)
    after = s._replace(
        w=step.target, kept=s.w.copy(), best=value, direction=step.target - s.w, slope=step.slope,
        length=1.0, decrement=step.decrease / max(value, 1e-300),
    )  # fmt: skip
    return _emptied(after)


def _direct(problem: Problem, w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> _Step:
    """A quadratic penalty is part of the model."""
    precision = precisions(problem)
    gradient[:-1] += precision * w[:-1]
    direction = newton_direction(problem, hessian, precision, gradient)
    slope = float(gradient @ direction)
    return _Step(w + direction, slope, -0.5 * slope)


def _proximal(problem: Problem, w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> _Step:
    """Coordinate descent on the model less its intercept, which follows the weights.

    With H_0 the intercept's curvature and h the mixed one, S = H - h h' / H_0 and
    g - h g_0 / H_0 are those of the weights alone, and the intercept moves by
    -(g_0 + h . d) / H_0.
    """
    whole, d = whole_hessian(hessian), w.size - 1
    S, g, mixed, level = reduced_model(whole, gradient, problem.fit_intercept)
    target = w.copy()
    descend_matrix(S, g, w[:d], np.arange(d), problem.penalty, target[:d])
    away = target[:d] - w[:d]
    if level > 0.0:
        target[d] = w[d] - (gradient[d] + mixed @ away) / level
    direction = target - w
    penalties = penalty_value(problem, target[:d]) - penalty_value(problem, w[:d])
    slope = float(gradient @ direction) + penalties
    return _Step(target, slope, -(slope + 0.5 * float(direction @ whole @ direction)))


def reduced_model(
    whole: np.ndarray, gradient: np.ndarray, fit_intercept: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """S and the gradient of the weights alone, the mixed curvatures, and the intercept's (0: it
    does not move)."""
    d = whole.shape[0] - 1
    S, g, mixed, level = whole[:d, :d].copy(), gradient[:d].copy(), whole[:d, d], whole[d, d]
    level = float(level) if fit_intercept and level > 0.0 else 0.0
    if level > 0.0:
        S -= np.outer(mixed, mixed) / level
        g -= mixed * (gradient[d] / level)
    # Rounding may leave too little on the diagonal.
    S[np.diag_indices_from(S)] += 1e-10 * np.diag(whole)[:d] + 1e-300
    return S, g, mixed, level


def _emptied(s: NewtonSums) -> NewtonSums:
    """For the sums of the next pass."""
    gradient, hessian = np.zeros_like(s.gradient), np.zeros_like(s.hessian)
    return s._replace(value=0.0, gradient=gradient, hessian=hessian, mass=0.0)
