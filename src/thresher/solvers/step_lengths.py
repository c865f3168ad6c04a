"""How long steps are where nobody says: by the norms of rows, or the best on a sample of them."""

from __future__ import annotations

import math
from typing import Any

from numba import njit

from thresher import schedules
from thresher.solvers import driver
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["mean_sqnorm", "tuned_schedule"]


def tuned_schedule(solver: Any, problem: Problem, chunk: Chunk) -> Solver:
    """Fill in a missing schedule: theta / sqrt(t), theta the best of a few on a sample.

    The candidates are spread around 1 / sqrt(mean squared row norm), the scale at which one step
    changes a prediction by about one.
    """
    if solver.schedule is not None:
        return solver
    norm = math.sqrt(mean_sqnorm(chunk) + 1e-12)
    schedules_ = [schedules.InverseRoot(m / norm) for m in (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)]
    return driver.best_on_sample(driver.variants(solver, "schedule", schedules_), problem, chunk)


@njit(cache=True, nogil=True)
def _mean_sqnorm(rows, order, stride):
    total, count = 0.0, 0
    for r in range(0, order.size, stride):
        total += rows.sqnorm(order[r])
        count += 1
    return total / count


def mean_sqnorm(chunk: Chunk) -> float:
    """Mean squared norm of (at most some 10,000 evenly spaced) rows."""
    return float(_mean_sqnorm(chunk.rows, chunk.order, max(1, chunk.order.size // 10_000)))
