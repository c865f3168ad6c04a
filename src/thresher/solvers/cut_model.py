r"""The two small problems of the level method, by an interior-point method of their own.

A convex function of weights is known by m cuts, :math:`f(\theta) \ge A_i - \tfrac12 s_i'\theta`:

.. math:: \min_{\theta \in \Theta} \max_i A_i - \tfrac12 s_i'\theta
          = \max_{\pi \in \Delta} \pi'A - \tfrac12 \sigma\bigl(\sum_i \pi_i s_i\bigr)

.. math:: \min_{x \in \Theta} \tfrac12 \|x - z\|^2, \quad A_i - \tfrac12 s_i'x \le L

Both are one problem: a quadratic and a level, m linear inequalities, :math:`x \ge 0`, and one
separable constraint.  What is taken from it are the multipliers of the cuts alone.  The bound is
then the closed form of the dual, valid whatever the accuracy, and the projection is
:math:`P_\Theta(z + \tfrac12 \sum_i \lambda_i s_i)`, whose zeros are exact.

Cost: some 15 steps of m^2 Q operations for m cuts and Q weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.solvers.kernel_balls import KernelBall

__all__ = ["Cuts", "level_projection", "lower_bound"]

_STEPS = 60
_ACCURATE = 1e-11
_KEPT_AWAY = 0.995  # of the way to the boundary


class Cuts(NamedTuple):
    """What is known of a function: it is nowhere below constants_i - forms_i . theta / 2."""

    constants: np.ndarray  # (m,)
    forms: np.ndarray  # (m, weights)

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Of every cut at these weights."""
        return self.constants - 0.5 * self.forms @ weights

    def added(self, constant: float, forms: np.ndarray) -> Cuts:
        return Cuts(np.append(self.constants, constant), np.vstack([self.forms, forms]))

    def taken(self, kept: np.ndarray) -> Cuts:
        return Cuts(self.constants[kept], self.forms[kept])


def lower_bound(ball: KernelBall, cuts: Cuts) -> tuple[float, np.ndarray]:
    """A number that the cuts nowhere fall below, and the share of every cut in it."""
    if cuts.constants.size == 1:
        shares = np.ones(1)
    else:
        scale = _scale(cuts)
        problem = _Problem(cuts.constants / scale, cuts.forms / scale, ball, None, None)
        shares = np.maximum(_multipliers(problem), 0.0)
        shares = shares / shares.sum()
    forms = shares @ cuts.forms
    return float(shares @ cuts.constants - 0.5 * forms @ ball.best(forms)), shares


def level_projection(ball: KernelBall, cuts: Cuts, level: float, point: np.ndarray) -> np.ndarray:
    """The weights nearest to ``point`` at which no cut lies above ``level``."""
    if np.all(cuts.values(point) <= level):
        return ball.project(point)
    scale = _scale(cuts)
    problem = _Problem((cuts.constants - level) / scale, cuts.forms / scale, ball, point, 0.0)
    multipliers = np.maximum(_multipliers(problem), 0.0)
    return ball.project(point + 0.5 * multipliers @ problem.forms)


def _scale(cuts: Cuts) -> float:
    """Units in which slopes are of the order of one."""
    return float(np.max(np.abs(cuts.forms), initial=0.0)) or 1.0


class _Problem(NamedTuple):
    """min |x - point|^2 / 2 with the level given, or min level; A - S x / 2 <= level, x in ball."""

    constants: np.ndarray
    forms: np.ndarray
    ball: KernelBall
    point: np.ndarray | None
    level: float | None


class _Point(NamedTuple):
    """Where the method stands: unknowns, slacks, multipliers."""

    x: np.ndarray
    t: float
    w: np.ndarray  # slacks of the cuts
    u: float  # of the ball
    cut: np.ndarray  # multipliers: of the cuts,
    ball: float  # of the ball,
    sign: np.ndarray  # of x >= 0

    def moved(self, by: _Point, primal: float, dual: float) -> _Point:
        return _Point(
            self.x + primal * by.x, self.t + primal * by.t, self.w + primal * by.w,
            self.u + primal * by.u, self.cut + dual * by.cut, self.ball + dual * by.ball,
            self.sign + dual * by.sign,
        )  # fmt: skip

    def reach(self, by: _Point, names: tuple[str, ...]) -> float:
        """How far a direction can be followed until one of these is zero, at most 1."""
        reach = 1.0
        for name in names:
            here, step = np.atleast_1d(getattr(self, name)), np.atleast_1d(getattr(by, name))
            falls = step < 0.0
            if np.any(falls):
                reach = min(reach, float(np.min(-_KEPT_AWAY * here[falls] / step[falls])))
        return reach

    @property
    def gap(self) -> float:
        """The mean of all products of slacks and multipliers."""
        total = self.x @ self.sign + self.w @ self.cut + self.u * self.ball
        return float(total) / (self.x.size + self.w.size + 1)


def _multipliers(problem: _Problem) -> np.ndarray:
    """Of the cuts, by Mehrotra's predictor and corrector."""
    at = _begin(problem)
    size = 1.0 + float(np.max(np.abs(problem.constants)))
    for _ in range(_STEPS):
        wrong = _residuals(problem, at)
        if max(at.gap, *(float(np.max(np.abs(r))) for r in wrong)) <= _ACCURATE * size:
            break
        step = _Step(problem, at, wrong)
        try:
            ahead = step.towards(0.0, None)
            tried = at.moved(ahead, *_reaches(at, ahead))
            centring = (tried.gap / at.gap) ** 3
            move = step.towards(centring * at.gap, ahead)
        except np.linalg.LinAlgError:  # as close as rounding allows
            break
        lengths = _reaches(at, move)
        if not np.all(np.isfinite(move.cut)) or max(lengths) < 1e-10:
            break
        at = at.moved(move, *lengths)
    return at.cut


def _reaches(at: _Point, by: _Point) -> tuple[float, float]:
    primal = at.reach(by, ("x", "w", "u"))
    dual = at.reach(by, ("cut", "ball", "sign"))
    return (primal, dual) if primal > 0.1 and dual > 0.1 else (min(primal, dual),) * 2


def _begin(problem: _Problem) -> _Point:
    m, count = problem.forms.shape
    x = 0.5 * problem.ball.start(count)
    heights = problem.constants - 0.5 * problem.forms @ x
    t = float(heights.max()) + 1.0 if problem.level is None else problem.level
    w = np.maximum(t - heights, 0.1)
    cut = np.full(m, 1.0 / m)
    return _Point(x, t, w, 0.5, cut, 1.0, np.full(count, 1.0))


def _residuals(problem: _Problem, at: _Point) -> tuple[Any, ...]:
    """Of the gradient in x, in t, of the cuts, and of the ball."""
    slope = problem.ball.slope(at.x)
    gradient = -0.5 * at.cut @ problem.forms + at.ball * slope - at.sign
    if problem.point is not None:
        gradient = gradient + at.x - problem.point
    in_t = 1.0 - at.cut.sum() if problem.level is None else 0.0
    cuts = problem.constants - 0.5 * problem.forms @ at.x - at.t + at.w
    return gradient, in_t, cuts, problem.ball.value(at.x) + at.u - 1.0


class _Step:
    """Newton's system at a point, reduced to the multipliers, for several right sides."""

    def __init__(self, problem: _Problem, at: _Point, wrong: tuple[Any, ...]):
        self.problem, self.at, self.wrong = problem, at, wrong
        bend = at.ball * problem.ball.bend(at.x) + at.sign / at.x
        self.diagonal = bend if problem.point is None else bend + 1.0
        #: (weights, m + 1): how the gradient in x depends on the multipliers
        slope = problem.ball.slope(at.x)
        self.sides = np.column_stack([-0.5 * problem.forms.T, slope])
        m = at.cut.size
        moving = problem.level is None
        self.matrix = np.zeros((m + 1 + moving, m + 1 + moving))
        inner = self.matrix[: m + 1, : m + 1]
        np.matmul(self.sides.T, self.sides / self.diagonal[:, None], out=inner)
        inner[np.arange(m), np.arange(m)] += at.w / at.cut
        inner[m, m] += at.u / at.ball
        if moving:
            self.matrix[:m, -1] = self.matrix[-1, :m] = 1.0

    def towards(self, target: float, ahead: _Point | None) -> _Point:
        """The direction to products ``target``; ``ahead`` corrects for the curvature."""
        at, m = self.at, self.at.cut.size
        gradient, in_t, cuts, ball = self.wrong
        x_sign, w_cut, u_ball = (
            target - at.x * at.sign, target - at.w * at.cut, target - at.u * at.ball,
        )  # fmt: skip
        if ahead is not None:
            x_sign = x_sign - ahead.x * ahead.sign
            w_cut = w_cut - ahead.w * ahead.cut
            u_ball = u_ball - ahead.u * ahead.ball
        free = -gradient + x_sign / at.x
        right = np.zeros(self.matrix.shape[0])
        right[: m + 1] = self.sides.T @ (free / self.diagonal)
        right[:m] += cuts + w_cut / at.cut
        right[m] += ball + u_ball / at.ball
        if right.size > m + 1:
            right[-1] = in_t
        found = np.linalg.solve(self.matrix, right)
        cut, ball_step = found[:m], float(found[m])
        t = float(found[m + 1]) if right.size > m + 1 else 0.0
        x = (free - self.sides @ found[: m + 1]) / self.diagonal
        return _Point(
            x, t, (w_cut - at.w * cut) / at.cut, (u_ball - at.u * ball_step) / at.ball, cut,
            ball_step, (x_sign - at.sign * x) / at.x,
        )  # fmt: skip
