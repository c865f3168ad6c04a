r"""Kernel weights by block descent: functions for given weights, weights for given functions.

With the machine for weights theta, the norm of kernel q's part is :math:`n_q = \theta_q^2 s_q`;
the weights that fit these norms best minimise :math:`\sum_q n_q / \theta_q` over the set.  The
objective never rises.  Weights come close to zero but do not reach it, so that the end takes the
best weights for the last quadratic forms, if they are no worse.

Reference: Xu, Jin, Yang, King and Lyu, Simple and efficient multiple kernel learning by group lasso
(2010); Kloft et al., lp-norm multiple kernel learning (2011).
"""

from __future__ import annotations

import math

import numpy as np

from thresher.solvers.base import Status
from thresher.solvers.kernel_balls import KernelBall
from thresher.solvers.level import Descent, Monitor, Oracle, Search, Told

__all__ = ["block_descent"]


def block_descent(
    oracle: Oracle, ball: KernelBall, start: Search, *, tol: float = 1e-3,
    max_steps: int = 500, monitor: Monitor | None = None, told: Told | None = None,
) -> Descent:  # fmt: skip
    """Minimise until the certificate, half of sigma(s) - theta's, is ``tol`` of the objective.

    Parameters are those of ``thresher.solvers.level.level_method``.
    """
    at, best, _ = start
    lower, before = (-math.inf, 0) if best is None else (best.lower, best.steps)
    for step in range(before + 1, max(before, max_steps) + 1):
        if told is not None:
            told(Search(at, best))
        accuracy = 0.1 * (best.upper - lower) if best is not None else math.inf
        visit = oracle(at, accuracy)
        lower = max(lower, visit.constant - 0.5 * float(visit.forms @ ball.best(visit.forms)))
        if best is None or visit.value <= best.upper:
            best = Descent(at, visit, lower, visit.value, step)
        best = best._replace(lower=min(lower, best.upper), steps=step)
        status = Status.CONVERGED if best.gap <= tol else monitor(best) if monitor else None
        norms = at**2 * np.maximum(visit.forms, 0.0)
        if status is not None or not np.any(norms > 0.0):
            return _finished(oracle, ball, best._replace(status=status or Status.COMPLETED))
        at = ball.balanced(norms)
    assert best is not None
    return _finished(oracle, ball, best._replace(status=Status.MAX_ITER))


def _finished(oracle: Oracle, ball: KernelBall, best: Descent) -> Descent:
    """With exact zeros, where that costs nothing."""
    weights = ball.best(best.visit.forms)
    if not np.any(weights > 0.0):
        return best
    visit = oracle(weights, 0.1 * (best.upper - best.lower))
    if visit.value > best.upper:
        return best
    return best._replace(weights=weights, visit=visit, upper=visit.value)
