"""The compiled steps of ``pegasos.py``: w is scale * direction, the average two vectors.

Both loops take the same arguments and give the fields of a ``ScaledState``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from thresher.solvers._batch import add_rows, slopes_at
from thresher.solvers._targets import reach, shortened

__all__ = ["mean_residual", "scaled_sgd", "subgradient_sgd"]


@njit(cache=True, nogil=True)
def scaled_sgd(
    rows, y, weight, order, loss, schedule, lam, batch, radius, units, average_from, late,
    bias_mode, state,
):  # fmt: skip
    """One chunk of updates.

    ``radius`` is the ball's where the constant prediction of ``units`` costs one, inf: no ball.
    ``average_from`` < 0: no average; it weighs iterates by their steps, or ``late`` ones by t.
    ``bias_mode`` 0: none, 1: gradient steps of at most 1/sqrt(t), 2: mean residual of the batch
    (Algs 4 and 5), 3: gradient steps as long as those of the weights.
    """
    v, offset = state.direction, state.offset
    scale, sqnorm, mass, total = state.scale, state.sqnorm, state.mass, state.total
    bias, bias_total = state.bias, state.bias_total
    step, seen, paid = state.step, state.seen, state.paid
    constant, weights = state.constant, state.weights
    slopes = np.empty(batch)
    inners = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        residual, batch_weight = 0.0, 0.0
        for r in range(size):
            i = order[first + r]
            inners[r] = rows.dot(i, v)
            residual += weight[i] * (y[i] - scale * inners[r])
            batch_weight += weight[i]
        if bias_mode == 2 and batch_weight > 0.0:
            bias = residual / batch_weight
        slope_sum = 0.0
        for r in range(size):
            i = order[first + r]
            p = scale * inners[r] + bias
            paid += weight[i] * loss.value(y[i], p)
            slope = shortened(rows, i, loss.deriv(y[i], p), eta, units)
            slopes[r] = weight[i] * slope / size
            slope_sum += slopes[r]
            if radius < math.inf:
                constant += weight[i] * loss.value(y[i], units.origin)
                weights += weight[i]
        seen += size

        shrink = 1.0 - eta * lam
        if shrink > 0.0:
            scale *= shrink
        else:  # the first step of 1/(lambda t) forgets the start altogether
            for j in range(v.size):
                offset[j] -= mass * v[j]
                v[j] = 0.0
            scale, sqnorm = 1.0, 0.0
        for r in range(size):
            if slopes[r] != 0.0:
                i = order[first + r]
                a = -eta * slopes[r] / scale
                if radius < math.inf:
                    inner = rows.dot(i, v)
                    sqnorm += a * (2.0 * inner + a * rows.sqnorm(i))
                rows.add(i, a, v)
                if mass > 0.0:
                    rows.add(i, a * mass, offset)
        if bias_mode == 1:
            # An unpenalised bias has no curvature of its own: its step must not start at 1/lambda.
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
        elif bias_mode == 3:
            bias -= eta * slope_sum
        if radius < math.inf:
            norm = scale * math.sqrt(max(sqnorm, 0.0))
            longest = radius * reach(constant, weights, units.floor)
            if norm > longest:
                scale *= longest / norm
        if 0 <= average_from < step:
            share = float(step) if late else eta
            mass += share * scale
            total += share
            bias_total += share * bias
        if scale < 1e-9:
            # The average moves wholly into ``offset``: mass / scale would grow without bound.
            for j in range(v.size):
                offset[j] -= mass * v[j]
                v[j] *= scale
            sqnorm *= scale * scale
            mass, scale = 0.0, 1.0
    return (
        v, offset, scale, sqnorm, mass, total, bias, bias_total, step, seen, paid, constant, weights
    )  # fmt: skip


@njit(cache=True, nogil=True)
def subgradient_sgd(
    rows, y, weight, order, loss, schedule, penalty, batch, radius, units, average_from, late,
    bias_mode, state,
):  # fmt: skip
    """As ``scaled_sgd`` with scale one and any penalty: w -= eta (g + subgradient of penalty)."""
    w, offset = state.direction, state.offset
    mass, total, bias, bias_total = state.mass, state.total, state.bias, state.bias_total
    step, seen, paid = state.step, state.seen, state.paid
    slopes = np.empty(batch)
    for first in range(0, order.size, batch):
        size = min(batch, order.size - first)
        step += 1
        eta = schedule.at(step)
        slope_sum, loss_sum = slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes)
        paid += loss_sum
        seen += size
        for j in range(w.size):
            w[j] -= eta * penalty.subgrad(w[j], j)
        add_rows(rows, order, first, size, -eta, slopes, w)
        if bias_mode == 1:
            bias -= min(eta, 1.0 / math.sqrt(step)) * slope_sum
        if 0 <= average_from < step:
            total += eta
            bias_total += eta * bias
            for j in range(w.size):
                offset[j] -= eta * w[j]
    return w, offset, 1.0, 0.0, mass, total, bias, bias_total, step, seen, paid, 0.0, 0.0


@njit(cache=True, nogil=True)
def mean_residual(rows, y, weight, order, w):
    """What weights alone leave over: the bias that goes with them."""
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        total += weight[i] * (y[i] - rows.dot(i, w))
        mass += weight[i]
    return total / mass
