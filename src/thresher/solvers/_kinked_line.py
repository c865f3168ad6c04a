r"""The exact minimum of a sum of kinked losses and a parabola along a line.

From predictions p, at k = 0, in the direction q - p, with :math:`\delta_i = q_i - p_i`,

.. math:: \varphi(k) = \tfrac A2 k^2 + B k + \sum_i s_i\,\ell(y_i, p_i + k\,\delta_i)

has a derivative that rises: by A k between the kinks, and by
:math:`s_i |\delta_i|` times the rise of the loss's slope where a row passes a kink.  Its root is
found exactly: kinks are counted into bins, only those of the bin with the root are kept, and so on
until few are left, which are sorted.  O(n) instead of the O(n log n) of sorting them all (Franc and
Sonnenburg, 2009).

Where rows are seen once a pass, their kinks are added up in bins of k / (1 + k): to the
resolution of these the root is the same, and bins of different rows can be added.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["BINS", "add_kinks", "root_of_bins", "search"]

BINS = 2048  # of a stream
_PARTS = 256  # into which the bracket of the root is cut
_FEW = 256  # kinks that are sorted


@njit(cache=True, nogil=True)
def search(y, weight, order, loss, p, q, square, slope):
    """k >= 0 where the derivative becomes positive; 0 if it is so at the start.

    ``square`` and ``slope`` are A and B; the weights s_i sum to one.
    """
    start, count = slope, 0
    for r in range(order.size):
        i = order[r]
        start += weight[i] * _first_slope(loss, y[i], p[i], q[i] - p[i])
        count += len(loss.kinks(y[i]))
    if start >= 0.0:
        return 0.0
    # Kinks only make the derivative rise sooner; with no parabola they are all that does.
    furthest = -start / square if square > 0.0 else np.inf
    places, rises = np.empty(count), np.empty(count)
    count = 0
    for r in range(order.size):
        i = order[r]
        step = q[i] - p[i]
        if step != 0.0:
            for place, rise in loss.kinks(y[i]):
                k = (place - p[i]) / step
                if 0.0 < k < furthest:
                    places[count] = k
                    rises[count] = weight[i] * rise * abs(step)
                    count += 1
    if furthest == np.inf:
        furthest = np.max(places[:count]) if count else 0.0
    return _root(places[:count], rises[:count], square, start, furthest)


@njit(cache=True, nogil=True)
def _first_slope(loss, y, p, step):
    """Derivative of the loss along the step, on the side of p that it leads to."""
    if step == 0.0:
        return 0.0
    kinks = loss.kinks(y)
    first = kinks[0][0]
    slope = loss.deriv(y, first - 1.0 - abs(first))
    for place, rise in kinks:
        if place < p or (place == p and step > 0.0):
            slope += rise
    return slope * step


@njit(cache=True, nogil=True)
def _root(places, rises, square, start, furthest):
    """Root of start + square k + sum of the rises at places up to k, within [0, furthest]."""
    low, high, before, count = 0.0, furthest, start, places.size
    sums = np.empty(_PARTS)
    for _ in range(60):
        if count <= _FEW or not low < high:
            break
        per_part = _PARTS / (high - low)
        sums[:] = 0.0
        for j in range(count):
            sums[_part(places[j], low, per_part)] += rises[j]
        part, reached = 0, before
        while part < _PARTS - 1:
            edge = low + (part + 1) / per_part
            if reached + sums[part] + square * edge >= 0.0:
                break
            reached += sums[part]
            part += 1
        kept = 0
        for j in range(count):
            if _part(places[j], low, per_part) == part:
                places[kept] = places[j]
                rises[kept] = rises[j]
                kept += 1
        low, high = low + part / per_part, min(high, low + (part + 1) / per_part)
        before, count = reached, kept
    order = np.argsort(places[:count])
    for j in order:
        if before + square * places[j] >= 0.0:
            return -before / square
        before += rises[j]
        if before + square * places[j] >= 0.0:
            return places[j]
    return min(-before / square, furthest) if square > 0.0 else furthest


@njit(cache=True, nogil=True)
def _part(place, low, per_part):
    return min(max(int((place - low) * per_part), 0), _PARTS - 1)


@njit(cache=True, nogil=True)
def add_kinks(rows, y, weight, order, loss, w, v, bins, start):
    """Add the rises of rows between the points w and v to the bins; the derivative at w.

    The last number of each point is its intercept.
    """
    d = w.size - 1
    for r in range(order.size):
        i = order[r]
        p = rows.dot(i, w[:d]) + w[d]
        step = rows.dot(i, v[:d]) + v[d] - p
        start += weight[i] * _first_slope(loss, y[i], p, step)
        if step != 0.0:
            for place, rise in loss.kinks(y[i]):
                k = (place - p) / step
                if k > 0.0:
                    bin = min(int(bins.size * (k / (1.0 + k))), bins.size - 1)
                    bins[bin] += weight[i] * rise * abs(step)
    return start


def root_of_bins(bins: np.ndarray, start: float, square: float) -> float:
    """The root where the rises of a bin are spread evenly over it."""
    if start >= 0.0:
        return 0.0
    shares = np.arange(1, bins.size) / bins.size
    edges = shares / (1.0 - shares)
    rises = np.cumsum(bins)
    beyond = np.flatnonzero(start + rises[:-1] + square * edges >= 0.0)
    if not beyond.size:
        last = float(edges[-1])
        return max(-(start + float(rises[-2])) / square, last) if square > 0.0 else last
    at = int(beyond[0])
    left = float(edges[at - 1]) if at else 0.0
    below = start + (float(rises[at - 1]) if at else 0.0) + square * left
    above = start + float(rises[at]) + square * float(edges[at])
    return left + (float(edges[at]) - left) * (-below / max(above - below, 1e-300))
