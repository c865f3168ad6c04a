"""The two halves of a mini-batch update, shared by the kernels that hold the weights themselves."""

from __future__ import annotations

from numba import njit

__all__ = ["add_rows", "slopes_at"]


@njit(cache=True, nogil=True)
def slopes_at(rows, y, weight, order, first, size, loss, w, bias, slopes):
    """Slopes of the mean loss of ``size`` rows at (w, bias); their sum, and the loss itself."""
    total, paid = 0.0, 0.0
    for r in range(size):
        i = order[first + r]
        p = rows.dot(i, w) + bias
        paid += weight[i] * loss.value(y[i], p)
        slopes[r] = weight[i] * loss.deriv(y[i], p) / size
        total += slopes[r]
    return total, paid


@njit(cache=True, nogil=True)
def add_rows(rows, order, first, size, factor, slopes, w):
    """w += factor * sum of slope * row."""
    for r in range(size):
        if slopes[r] != 0.0:
            rows.add(order[first + r], factor * slopes[r], w)
