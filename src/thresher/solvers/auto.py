"""Which solver to use when the user does not say, and how strong a penalty."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.penalties import Penalty
from thresher.solvers.asgd import AveragedSGD
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.cutting_planes import CuttingPlane
from thresher.solvers.dcd import DualDescent
from thresher.solvers.newton import Newton
from thresher.solvers.pegasos import Pegasos
from thresher.solvers.proximal_newton import ProximalNewton
from thresher.solvers.quasi_newton import QuasiNewton
from thresher.solvers.rda import RDA
from thresher.solvers.smoothing import SmoothedNewton

__all__ = [
    "choose_solver",
    "choose_stream_solver",
    "default_tolerance",
    "gradient_at_zero",
    "largest_useful_strength",
]

_CHEAP = 1e10  # multiplications per Newton step that are still cheaper than many dual passes
_SMALL = 200_000  # stored elements for which the optimum costs no noticeable time


def choose_solver(
    loss: Loss, penalty: Penalty, shape: tuple[int, int], stored: int, exact: bool,
    uneven: int = 0,
) -> Solver:  # fmt: skip
    """A solver for ``shape`` = (rows, features) with ``stored`` elements.

    ``uneven``: so many outputs are to be learned from columns of very different size.

    ====================================================  =======================================
    penalty not quadratic, smooth loss                    proximal Newton: the exact sparse model
    penalty not quadratic, loss with kinks                RDA: exact zeros, any proximal map
    penalty over groups shared by several classes         RDA
    quadratic with weights, or without strength           Newton (also for kinks), else Pegasos
    small data, regression, or ``exact``; few features    Newton; for a loss with kinks, smoothed
    small data, regression, ``exact``; many features      dual coordinate descent
    uneven columns, few                                   Newton, which knows no units
    features comparable to rows                           dual coordinate descent
    otherwise (n >> d)                                    averaged SGD: two passes are enough
    ====================================================  =======================================
    """
    n, d = shape
    can = capabilities(loss)
    newton: Solver | None = None
    if "curvature" in can:
        newton = Newton()
    elif "smoothed" in can:
        newton = SmoothedNewton()
    if "quadratic" not in penalty.traits:
        return ProximalNewton() if "curvature" in can and not penalty.shared else RDA()
    if "uniform" not in penalty.traits:
        return newton or Pegasos()
    if not getattr(penalty, "strength", 0.0) > 0.0:
        return newton or AveragedSGD()
    per_row = stored / max(n, 1)
    few = d <= Newton().direct_features and ("curvature" in can or d <= n)
    hessian_cost = n * per_row**2 / 2 + d**3 / 3
    thorough = exact or stored <= _SMALL or "regression" in loss.tasks
    cheap = few and max(uneven, 1) * hessian_cost <= _CHEAP
    if (thorough or uneven) and newton is not None and cheap:
        return newton
    if (thorough or d > n / 4) and {"dual_step", "conjugate"} <= can:
        return DualDescent()
    if thorough and newton is not None:
        return newton
    return AveragedSGD()


def choose_stream_solver(penalty: Penalty) -> Solver:
    """A solver that sees each row once, or a few times, and never all of them together."""
    if {"quadratic", "uniform"} <= capabilities(penalty):
        return AveragedSGD()
    return Pegasos() if "quadratic" in penalty.traits else RDA()


def default_tolerance(solver: Solver, loss: Loss, shape: tuple[int, int]) -> float | None:
    """Accuracy beyond which a better optimum no longer shows in the predictions.

    None for the stochastic solvers: they complete the planned passes.
    """
    if isinstance(solver, Newton):
        return 1e-12 if shape[0] <= 10_000 else 1e-5
    if isinstance(solver, SmoothedNewton):
        return 1e-6 if shape[0] <= 10_000 else 1e-4
    if isinstance(solver, ProximalNewton):
        return 1e-6 if shape[0] <= 10_000 else 1e-4
    if isinstance(solver, QuasiNewton):
        return 1e-6 if shape[0] <= 1_000 else 3e-4
    if isinstance(solver, CuttingPlane):
        return 1e-5 if shape[0] <= 10_000 else 1e-3
    if isinstance(solver, DualDescent):
        if shape[0] <= 1_000:
            return 1e-3
        # Steps on a smooth dual are cheap in number, and its scores move for longer.
        return 3e-2 if math.isinf(loss.smoothness) else 1e-2
    return None


@njit(cache=True, nogil=True)
def _gradient_at(rows, y, weight, order, loss, bias, gradient):
    """Sums over the rows of slope x and slope where all weights are zero, and of the weights."""
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        slope = weight[i] * loss.deriv(y[i], bias)
        if slope != 0.0:
            total += slope
            rows.add(i, slope, gradient)
        mass += weight[i]
    return total, mass


@njit(cache=True, nogil=True)
def _slope_of_constant(targets, mass, loss, bias):
    """Slope of the mean loss of the model that says ``bias`` everywhere."""
    total = 0.0
    for k in range(targets.size):
        total += mass[k] * loss.deriv(targets[k], bias)
    return total / np.sum(mass)


def largest_useful_strength(problem: Problem, chunk: Chunk) -> float:
    """Of the problem's penalty: a stronger one leaves nothing, a free intercept at its best.

    max_j |gradient_j| for an l1 penalty, max_g ||gradient_g|| / weight_g for the group lasso.
    """
    return problem.penalty.emptying(gradient_at_zero(problem, chunk))


def gradient_at_zero(problem: Problem, chunk: Chunk) -> np.ndarray:
    r"""The gradient of the mean loss at w = 0.

    A free intercept is at its best without weights.  For the logistic loss that is, with m+ and m-
    positive and negative rows, ||(m-/m) sum_{y=+1} x - (m+/m) sum_{y=-1} x||_inf / m (Koh, Kim and
    Boyd, 2007).  Where that intercept lies at a kink of the loss, the gradients at its two sides
    are mixed so that the intercept has no slope.
    """
    sides = (0.0, 0.0)
    if problem.fit_intercept:
        y = chunk.y[chunk.order].astype(np.float64)
        sides = best_constant(problem.loss, y, chunk.weight[chunk.order])
    gradients, slopes = np.zeros((2, problem.n_features)), np.zeros(2)
    mass = 0.0
    for k, bias in enumerate(sides):
        slopes[k], mass = _gradient_at(*chunk, problem.loss, bias, gradients[k])
    share = 0.0
    if slopes[0] < 0.0 < slopes[1]:
        share = slopes[0] / (slopes[0] - slopes[1])
    gradient = (1.0 - share) * gradients[0] + share * gradients[1]
    return gradient / max(mass, 1e-300)


def best_constant(loss: Loss, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """The intercept of the best model without weights, from just below to just above."""
    from scipy.optimize import brentq  # slow to import

    targets, which = np.unique(y, return_inverse=True)
    mass = np.bincount(which, weight)

    def slope(bias: float) -> float:
        return float(_slope_of_constant(targets, mass, loss, bias))

    reach = 1.0
    while (slope(-reach) > 0.0 or slope(reach) < 0.0) and reach < 1e75:
        reach *= 4.0
    if slope(-reach) >= 0.0 or slope(reach) <= 0.0:  # one class only: the more the better
        end = -reach if slope(-reach) >= 0.0 else reach
        return end, end
    best = brentq(slope, -reach, reach, xtol=1e-14, rtol=1e-13)
    width = 1e-12 * max(abs(best), 1.0)
    return best - width, best + width
