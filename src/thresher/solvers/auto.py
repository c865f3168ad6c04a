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
    "largest_useful_strength",
]

_CHEAP = 1e10  # multiplications per Newton step that are still cheaper than many dual passes
_SMALL = 200_000  # stored elements for which the optimum costs no noticeable time


def choose_solver(
    loss: Loss, penalty: Penalty, shape: tuple[int, int], stored: int, exact: bool
) -> Solver:
    """A solver for ``shape`` = (rows, features) with ``stored`` elements.

    ====================================================  =======================================
    penalty not quadratic, smooth loss                    proximal Newton: the exact sparse model
    penalty not quadratic, loss with kinks                RDA: exact zeros, any proximal map
    penalty over groups                                   RDA
    quadratic with weights, or without strength           Newton (also for kinks), else Pegasos
    small data, regression, or ``exact``; few features    Newton; for a loss with kinks, smoothed
    small data, regression, ``exact``; many features      dual coordinate descent
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
        by_coordinates = {"curvature"} <= can and "grouped" not in penalty.traits
        return ProximalNewton() if by_coordinates else RDA()
    if "uniform" not in penalty.traits:
        return newton or Pegasos()
    if not getattr(penalty, "strength", 0.0) > 0.0:
        return newton or AveragedSGD()
    per_row = stored / max(n, 1)
    few = d <= Newton().direct_features and ("curvature" in can or d <= n)
    hessian_cost = n * per_row**2 / 2 + d**3 / 3
    thorough = exact or stored <= _SMALL or "regression" in loss.tasks
    if thorough and newton is not None and few and hessian_cost <= _CHEAP:
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
    if isinstance(solver, DualDescent):
        if shape[0] <= 1_000:
            return 1e-3
        # Steps on a smooth dual are cheap in number, and its scores move for longer.
        return 3e-2 if math.isinf(loss.smoothness) else 1e-2
    return None


@njit(cache=True, nogil=True)
def _gradient_at_zero(rows, y, weight, order, loss, gradient):
    total = 0.0
    for r in range(order.size):
        i = order[r]
        slope = weight[i] * loss.deriv(y[i], 0.0)
        if slope != 0.0:
            rows.add(i, slope, gradient)
        total += weight[i]
    return total


def largest_useful_strength(problem: Problem, chunk: Chunk) -> float:
    """max_j |gradient_j| of the mean loss at w = 0: a stronger l1 penalty leaves nothing."""
    gradient = np.zeros(problem.n_features)
    total = _gradient_at_zero(*chunk, problem.loss, gradient)
    return float(np.max(np.abs(gradient), initial=0.0) / max(total, 1e-300))
