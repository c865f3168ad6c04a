r"""The small problem over cuts, exactly: an active set on products of simplices.

.. math:: \min_\alpha \tfrac12 \alpha' K \alpha - s'\alpha, \qquad \alpha \ge 0, \qquad
          \sum_{d \in D_k} \alpha_d = 1 \ \text{for every block } k .

In each block the heaviest cut is the *base*; the others that carry weight are *free*, and moves
:math:`\alpha_d += z_d,\ \alpha_{base} -= z_d` of theirs keep the sums.  Over
these moves the problem has no constraint: one Cholesky factor, which grows and shrinks with the
free cuts, gives its minimum, towards which one goes until a weight becomes zero and its cut is no
longer free.  At the minimum the most violated cut of all joins.  Every step lowers the value, and
it is warm started by nature: a new cut costs a few of them.  O(cuts x free + free^2) a step.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["minimise"]

_DEPENDENT = 1e-11  # of a move's own curvature: what is left of it beside the others
_FAR = 1e150  # weights are at most one
_FLAT = 1e-130  # curvature of a move that has none, which then goes on until a weight is zero


@njit(cache=True, nogil=True)
def minimise(K, s, block, blocks, alpha, gap, most):
    """Lower the value until at most ``gap`` above the minimum; alpha changes in place.

    Every block has weights that sum to one.  Returns the steps taken, at most ``most``.
    """
    m = alpha.size
    base, free = _starting_bases(block, blocks, alpha), np.zeros(m, dtype=np.int64)
    taken = np.zeros(m, dtype=np.bool_)  # free, a base, or of no use by rounding
    taken[base] = True
    count = 0
    for d in range(m):
        if alpha[d] > 0.0 and not taken[d]:
            taken[d] = True
            free[count] = d
            count += 1
    L, z = np.zeros((m, m)), np.zeros(m)
    _factor(K, block, base, free, count, L)
    g = _gradient(K, s, alpha)
    steps, checked, at_minimum, newest = 0, False, count == 0, -1
    while steps < most:
        if not at_minimum:
            steps += 1
            _solve(L, g, block, base, free, count, z)
            if not np.all(np.abs(z[:count]) < _FAR):  # too many dependent moves for rounding
                break
            length, blocking = _longest(alpha, block, base, free, count, z)
            _move(K, block, base, free, count, z, length, alpha, g)
            if blocking < 0:
                at_minimum = True
                continue
            alpha[blocking] = 0.0
            # What joined and has to leave at once would do so for ever.
            taken[blocking] = blocking == newest and length <= 0.0
            if base[block[blocking]] == blocking:
                _replace_base(alpha, block, base, free, count, block[blocking])
                count -= 1
                _factor(K, block, base, free, count, L)
            else:
                _remove(L, free, blocking, count)
                count -= 1
            at_minimum = count == 0
            continue
        worst, missing = _most_violated(g, block, base, taken)
        if missing <= gap or worst < 0:
            if checked:
                break
            g = _gradient(K, s, alpha)  # free of what rounding has added up
            checked, at_minimum = True, count == 0
            continue
        checked, at_minimum, newest = False, False, worst
        _append(K, block, base, free, count, worst, L)
        free[count] = worst
        taken[worst] = True
        count += 1
    return steps


@njit(cache=True, nogil=True)
def _starting_bases(block, blocks, alpha):
    base = np.full(blocks, -1, dtype=np.int64)
    for d in range(alpha.size):
        k = block[d]
        if base[k] < 0 or alpha[d] > alpha[base[k]]:
            base[k] = d
    return base


@njit(cache=True, nogil=True)
def _replace_base(alpha, block, base, free, count, k):
    """The heaviest of the block's free cuts becomes its base, and leaves ``free``."""
    heaviest = -1
    for j in range(count):
        if block[free[j]] == k and (heaviest < 0 or alpha[free[j]] > alpha[free[heaviest]]):
            heaviest = j
    base[k] = free[heaviest]
    for j in range(heaviest, count - 1):
        free[j] = free[j + 1]


@njit(cache=True, nogil=True)
def _gradient(K, s, alpha):
    g = -s
    for d in range(alpha.size):
        if alpha[d] != 0.0:
            a, column = alpha[d], K[d]
            for c in range(g.size):
                g[c] += a * column[c]
    return g


@njit(cache=True, nogil=True)
def _curvature(K, block, base, c, d):
    """Of the moves of c and d."""
    bc, bd = base[block[c]], base[block[d]]
    return K[c, d] - K[c, bd] - K[bc, d] + K[bc, bd]


@njit(cache=True, nogil=True)
def _append(K, block, base, free, count, d, L):
    """A further row of the factor, for the move of d."""
    line = L[count]
    own = _curvature(K, block, base, d, d)
    left = own
    for i in range(count):
        total = _curvature(K, block, base, d, free[i])
        row = L[i]
        for j in range(i):
            total -= line[j] * row[j]
        line[i] = total / row[i]
        left -= line[i] * line[i]
    bd = base[block[d]]
    least = _DEPENDENT * (abs(own) + K[d, d] + K[bd, bd]) + _FLAT
    line[count] = np.sqrt(max(left, least))


@njit(cache=True, nogil=True)
def _factor(K, block, base, free, count, L):
    for i in range(count):
        _append(K, block, base, free, i, free[i], L)


@njit(cache=True, nogil=True)
def _remove(L, free, blocking, count):
    """Without the move of ``blocking``: rotations bring the factor back to a triangle."""
    at = 0
    while free[at] != blocking:
        at += 1
    for i in range(at, count - 1):
        free[i] = free[i + 1]
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
    for i in range(at, count - 1):
        a, b = L[i, i], L[i, i + 1]
        r = np.sqrt(a * a + b * b)
        cos, sin = a / r, b / r
        L[i, i], L[i, i + 1] = r, 0.0
        for row in range(i + 1, count - 1):
            u, v = L[row, i], L[row, i + 1]
            L[row, i] = cos * u + sin * v
            L[row, i + 1] = cos * v - sin * u


@njit(cache=True, nogil=True)
def _solve(L, g, block, base, free, count, z):
    """z = -M^-1 (g_d - g_base) of the free cuts."""
    for i in range(count):
        d = free[i]
        total = g[base[block[d]]] - g[d]
        row = L[i]
        for j in range(i):
            total -= row[j] * z[j]
        z[i] = total / row[i]
    for i in range(count - 1, -1, -1):
        total = z[i]
        z[i] = total / L[i, i]
        row = L[i]
        for j in range(i):
            z[j] -= z[i] * row[j]


@njit(cache=True, nogil=True)
def _longest(alpha, block, base, free, count, z):
    """How much of the move keeps all weights at zero or above, and who ends it; -1: nobody."""
    length, blocking = 1.0, -1
    falls = np.zeros(base.size)
    for i in range(count):
        d = free[i]
        falls[block[d]] += z[i]
        if alpha[d] + length * z[i] < 0.0:
            length, blocking = -alpha[d] / z[i], d
    for k in range(base.size):
        d = base[k]
        if alpha[d] - length * falls[k] < 0.0:
            length, blocking = alpha[d] / falls[k], d
    return length, blocking


@njit(cache=True, nogil=True)
def _move(K, block, base, free, count, z, length, alpha, g):
    falls = np.zeros(base.size)
    for i in range(count):
        d, step = free[i], length * z[i]
        alpha[d] = max(alpha[d] + step, 0.0)
        falls[block[d]] += step
        column = K[d]
        for c in range(g.size):
            g[c] += step * column[c]
    for k in range(base.size):
        if falls[k] != 0.0:
            d = base[k]
            alpha[d] = max(alpha[d] - falls[k], 0.0)
            column = K[d]
            for c in range(g.size):
                g[c] -= falls[k] * column[c]


@njit(cache=True, nogil=True)
def _most_violated(g, block, base, taken):
    """The cut without weight that promises most, and the sum over blocks of what is missing."""
    lowest = np.zeros(base.size)
    worst, least = -1, 0.0
    for d in range(g.size):
        k = block[d]
        below = g[d] - g[base[k]]
        if not taken[d]:
            lowest[k] = min(lowest[k], below)
            if below < least:
                worst, least = d, below
    return worst, -np.sum(lowest)
