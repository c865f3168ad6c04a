"""What RDA+ starts from where nobody says: the length of its steps, the bias, what is close."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from thresher.losses import Loss
from thresher.solvers._targets import are_signs, origin_of
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.step_lengths import mean_sqnorm
from thresher.solvers.tasks import mean_square_slope, mean_target

__all__ = ["FirstSizes", "first_sizes"]

_STEEP = 0.01  # gamma in units of the mean squared norm of a row
_GROWING = 0.2  # the same where slopes grow with the predictions, for a smoothness of one: such
# steps would grow without limit as long as beta is below half the curvature
_SAMPLE = 2000  # rows that sizes are taken from


class FirstSizes(NamedTuple):
    """Of a few rows.

    Parameters
    ----------
    origin : float
        Where the bias starts.
    gamma : float
        Weight of dual averaging's proximal term.
    floor : float
        Of many tasks: what its weight starts from; 0 where steps cannot be too long.
    gradient : float
        Root mean square of a coordinate of the gradient of a row, at the start.
    """

    origin: float
    gamma: float
    floor: float
    gradient: float


def first_sizes(problem: Problem, chunk: Chunk, origin: float | None) -> FirstSizes:
    """By the norms of the rows, and by the slopes at the start."""
    origin = _start_of_bias(problem, chunk) if origin is None else origin
    slope, norm = _sizes(problem, chunk, origin)
    gamma, floor, smoothness = _STEEP * norm, 0.0, problem.loss.smoothness
    if not problem.has_tasks and _has_growing_slopes(problem.loss):
        gamma = _GROWING * smoothness * (norm + float(problem.fit_intercept))
    if problem.has_tasks and math.isfinite(smoothness):
        floor = smoothness * (norm + 1.0)
    gradient = math.sqrt(slope * norm / problem.n_features)
    return FirstSizes(origin, max(gamma, 1e-12), floor, gradient)


def _has_growing_slopes(loss: Loss) -> bool:
    """Whether the loss is as steep as you like far away, as squares are."""
    near, far = (abs(loss.deriv(-1.0, p)) for p in (1e8, 2e8))
    return math.isfinite(loss.smoothness) and far > 1.5 * near


@njit(cache=True, nogil=True)
def _mean_squares(rows, y, weight, order, loss, bias):
    """Mean squared slope at a constant prediction, and mean squared norm."""
    slopes, norms, mass = 0.0, 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        slope = loss.deriv(y[i], bias)
        slopes += weight[i] * slope * slope
        norms += weight[i] * rows.sqnorm(i)
        mass += weight[i]
    return slopes / max(mass, 1e-300), norms / max(mass, 1e-300)


def _sizes(problem: Problem, chunk: Chunk, bias: float) -> tuple[float, float]:
    """Mean squared slope and norm of a few rows; of many tasks a slope is that of a target."""
    few = _few(chunk)
    if problem.has_tasks:
        return mean_square_slope(problem, few, bias), mean_sqnorm(few)
    slope, norm = _mean_squares(*few, problem.loss, bias)
    return float(slope), float(norm)


def _few(chunk: Chunk) -> Chunk:
    """Evenly spaced rows."""
    return chunk._replace(order=chunk.order[:: max(1, chunk.order.size // _SAMPLE)])


def _start_of_bias(problem: Problem, chunk: Chunk) -> float:
    """The best constant of two classes; of other targets what dual averaging starts from."""
    from thresher.solvers.auto import best_constant

    if not problem.fit_intercept:
        return 0.0
    if problem.has_tasks:
        return mean_target(problem, chunk) if "regression" in problem.loss.tasks else 0.0
    chunk = _few(chunk)
    if not (chunk.order.size and are_signs(chunk)):
        return origin_of(problem, chunk)
    y, weight = chunk.y[chunk.order], chunk.weight[chunk.order]
    positive = float(np.sum(weight[y > 0.0]))
    masses = np.array([float(np.sum(weight)) - positive, positive])
    if not np.all(masses > 0.0):
        return 0.0
    below, above = best_constant(problem.loss, np.array([-1.0, 1.0]), masses)
    return 0.5 * (below + above)
