r"""What the targets say about weights and steps, before the first of them.

*The ball.*  With c the best constant prediction, the optimum has :math:`\lambda\|w\|^2 =
-\operatorname{mean}_i \ell'(p_i)(p_i - c)`, which convexity bounds by :math:`\operatorname{mean}_i
\ell(y_i, c) - \ell(y_i, p_i)`; so that, of a loss that is nowhere negative, and for any c if there
is an intercept, else for c = 0,

.. math:: \|w\|^2 \le R^2 = \operatorname{mean}_i \ell(y_i, c) / \lambda .

Of targets that are signs, with c = 0, the hinge, the squared hinge and the pinball loss give the
ball of radius :math:`1/\sqrt\lambda` that Pegasos is published with, and our other losses lie
within it.  Of targets that are numbers the ball is in their units.

*The steps.*  :math:`1/(\lambda t)` takes no notice of units either.  Where targets are numbers, the
bias starts at their mean c; a loss for numbers takes signs for numbers too, but starts at zero.
Polyak's step there, for one row, is the longest that does not lead past what is to be gained: no
row is followed further, and the steps start at that of a mean row,

.. math:: \eta_{t,i} \le \frac{\mu}{\|x_i\|^2 + 1}, \qquad
          \mu = \frac{\operatorname{mean} \ell(y, c)}{\operatorname{mean} \ell'(y, c)^2}, \qquad
          \eta_t = \frac{1}{\lambda (t + 1/(\lambda\eta_1))}, \qquad
          \eta_1 = \frac{\mu}{\operatorname{mean} \|x\|^2 + 1}

(the 1 is that of the bias).  For least squares :math:`\mu = 1/2`, half the stable step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import Rows
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "SIGNS", "TargetUnits", "are_signs", "is_on_ball", "never_rests", "origin_of", "reach",
    "shortened", "units_of", "with_origin", "with_origin_of_stream",
]  # fmt: skip


class TargetUnits(NamedTuple):
    """Where the bias starts and how long steps may be, in the units of the targets."""

    origin: float  # c
    limit: float  # mu: longest step of a row times its squared norm
    ones: float  # what the bias adds to squared norms: 1, or 0 without it
    delay: float  # 1 / (lambda eta_1)
    floor: float  # R^2 lambda is at least this: 1 for signs, as published


SIGNS = TargetUnits(0.0, math.inf, 0.0, 0.0, 1.0)


def are_signs(chunk: Chunk) -> bool:
    """Whether all targets are -1 or +1, as those of two classes; otherwise they are numbers."""
    return bool(np.all(np.abs(chunk.y[chunk.order]) == 1.0))


def origin_of(problem: Problem, chunk: Chunk) -> float:
    """Where a bias should start: at the mean target, or at zero where the loss likes that better.

    A loss may have a link, for which the mean is no prediction; signs and classes start at zero.
    """
    if not problem.fit_intercept or problem.outputs > 1 or are_signs(chunk):
        return 0.0
    _, y, weight, order = chunk
    mean = float(np.average(y[order], weights=weight[order]))
    costs = [_constant_loss(y, weight, order, problem.loss, c) for c in (mean, 0.0)]
    return mean if costs[0] < costs[1] else 0.0


def with_origin(solver: Any, problem: Problem, chunk: Chunk) -> Any:
    """The solver with the start of its bias, found unless it is given."""
    return replace(solver, origin=origin_of(problem, chunk)) if solver.origin is None else solver


def with_origin_of_stream(solver: Any, steps_are_given: bool) -> Any:
    """With its steps given, nothing of a stream depends on which rows came first."""
    fixed = solver.origin is None and steps_are_given
    return replace(solver, origin=0.0) if fixed else solver


@njit(cache=True, nogil=True)
def _constant_loss(y, weight, order, loss, prediction):
    total = 0.0
    for r in range(order.size):
        total += weight[order[r]] * loss.value(y[order[r]], prediction)
    return total


def units_of(problem: Problem, rows: Rows, chunk: Chunk, strength: float) -> TargetUnits:
    """Found on at most some 10,000 of the rows; those of signs are known, of losses for classes.

    Of a loss for numbers the slopes grow with the predictions, and so do steps that have no limit.

    ``rows`` are the chunk's in the coordinates that steps are taken in, where the objective is
    convex with ``strength``.
    """
    if are_signs(chunk) and "regression" not in problem.loss.tasks:
        return SIGNS
    _, y, weight, order = chunk
    order = order[:: max(1, order.size // 10_000)]
    ones, origin = float(problem.fit_intercept), origin_of(problem, chunk)
    paid, squares, norms = _at_origin(rows, y, weight, order, problem.loss, origin)
    norms = norms / order.size + ones
    if not (paid > 0.0 and squares > 0.0 and norms > 0.0):  # nothing is to be gained
        return TargetUnits(origin, math.inf, ones, 0.0, 0.0)
    limit = paid / squares
    return TargetUnits(origin, limit, ones, norms / (strength * limit), 0.0)


@njit(cache=True, nogil=True)
def _at_origin(rows, y, weight, order, loss, origin):
    """Sums of losses, squared slopes and squared norms."""
    paid, squares, norms = 0.0, 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        slope = loss.deriv(y[i], origin)
        paid += weight[i] * loss.value(y[i], origin)
        squares += weight[i] * slope * slope
        norms += rows.sqnorm(i)
    return paid, squares, norms


def never_rests(problem: Problem, units: TargetUnits) -> bool:
    """Whether no slope is ever zero, so that the last iterate is where the last rows have led.

    So it is with targets that are numbers, and with a loss that charges rows beyond the margin.
    """
    return units.floor == 0.0 or bool(problem.loss.deriv(1.0, 2.0) > 0.0)


@njit(cache=True, nogil=True)
def reach(paid, mass, floor):
    """R sqrt(lambda), where the rows so far, of ``mass``, cost the constant prediction ``paid``."""
    return math.sqrt(max(floor, paid / mass)) if mass > 0.0 else 0.0


def is_on_ball(norm: float, lam: float, paid: float, mass: float, units: TargetUnits) -> bool:
    """Whether weights of this norm lie on the ball, to rounding."""
    radius = reach(paid, mass, units.floor) / math.sqrt(lam)
    return radius > 0.0 and norm >= (1.0 - 1e-6) * radius


@njit(cache=True, nogil=True)
def shortened(rows, i, slope, eta, units):
    """The slope of row i as a step ``eta`` may follow it: not beyond ``limit`` / ||x||^2."""
    if units.limit == math.inf:
        return slope
    return slope * min(1.0, units.limit / (eta * max(rows.sqnorm(i) + units.ones, 1e-300)))
