r"""Which variables of a dual problem are worked on next.

Variables of one equality lie together, ``starts[g] .. starts[g + 1]``, and so do the slots that are
reserved for them in the working set, ``seats[g] .. seats[g + 1]``.  With the gradient G, a variable
below its upper bound may rise, one above its lower bound may fall, and

.. math:: \max_{\text{may rise}} -G_v \;-\; \min_{\text{may fall}} -G_v

is what the KKT conditions of a group are violated by.  New members are the worst on either side;
the rest are members of before, free ones first and among them the newest: without that order
covtype needs ten times as many steps.  A member keeps its slot, so that its values with the others
stay.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["gradient", "renew", "violations"]


@njit(cache=True, nogil=True)
def gradient(sums, coupling, block, rows, signs, p, out):
    """G_v = sign_v sum_d B[c_v, d] (K beta_d)[r_v] + p_v; ``sums`` holds the K beta_d."""
    if coupling.shape[0] == 1:
        line, factor = sums[0], coupling[0, 0]
        for v in range(p.size):
            out[v] = signs[v] * factor * line[rows[v]] + p[v]
        return
    for v in range(p.size):
        total = 0.0
        for d in range(coupling.shape[0]):
            total += coupling[block[v], d] * sums[d, rows[v]]
        out[v] = signs[v] * total + p[v]


@njit(cache=True, nogil=True)
def violations(G, z, lower, upper, starts, high, low):
    """The largest -G that may rise and the smallest that may fall, of every group.

    Infinite where nothing may; NaN where the gradient holds one.  Returns the largest difference.
    """
    worst = 0.0
    for g in range(starts.size - 1):
        most, least, sound = -np.inf, np.inf, 0.0
        for v in range(starts[g], starts[g + 1]):
            t = -G[v]
            sound += 0.0 * t
            if z[v] < upper[v] and t > most:
                most = t
            if z[v] > lower[v] and t < least:
                least = t
        high[g], low[g] = most + sound, least
        gap = high[g] - low[g]
        if not gap <= worst:
            worst = gap
    return worst


@njit(cache=True, nogil=True)
def _worst(side, G, z, bound, start, stop, edge, keys, taken, out):
    """The variables with the largest -side G beyond ``edge`` that may move to their bound.

    As many as there are ``keys``, the heap of those found so far, the least of them first: most
    variables are passed by at one comparison.  ``out`` gets them; returns how many there are.
    """
    keys[:] = edge
    out[: keys.size] = -1
    for v in range(start, stop):
        t = -side * G[v]
        if t > keys[0] and side * z[v] < side * bound[v] and not taken[v]:
            k, child = 0, 1
            while child < keys.size:
                if child + 1 < keys.size and keys[child + 1] < keys[child]:
                    child += 1
                if t <= keys[child]:
                    break
                keys[k], out[k] = keys[child], out[child]
                k, child = child, 2 * child + 1
            keys[k], out[k] = t, v
    count = 0
    for k in range(keys.size):
        if out[k] >= 0:
            out[count] = out[k]
            taken[out[k]] = True
            count += 1
    return count


@njit(cache=True, nogil=True)
def renew(
    G, z, lower, upper, starts, seats, high, low, tol, share, members, slot_of, recent, held, taken,
    fresh,
):  # fmt: skip
    """Put the next working set into ``members``; returns the number of ``fresh`` slots.

    ``members[s]`` is the variable in slot s, or -1; ``slot_of[v]`` its inverse.  ``recent`` holds
    the members of each group, the newest first, ``held[g]`` of them.  ``share`` of the seats may go
    to new ones.
    """
    count = 0
    picked = np.empty(seats[-1], np.int64)
    for g in range(starts.size - 1):
        if not high[g] - low[g] > tol:
            continue  # nothing to be done here
        first, room = seats[g], seats[g + 1] - seats[g]
        start, stop, keys = starts[g], starts[g + 1], np.empty(max(int(share * room) // 2, 1))
        found = _worst(1.0, G, z, upper, start, stop, low[g], keys, taken, picked)
        found += _worst(-1.0, G, z, lower, start, stop, -high[g], keys, taken, picked[found:])
        for free in range(2):
            for k in range(held[g]):
                v = recent[first + k]
                inside = lower[v] < z[v] < upper[v]
                if found < room and not taken[v] and (inside or free == 1):
                    taken[v] = True
                    picked[found] = v
                    found += 1
        for s in range(first, first + room):
            v = members[s]
            if v >= 0 and not taken[v]:
                members[s] = -1
                slot_of[v] = -1
        s = first
        for k in range(found):
            v = picked[k]
            taken[v] = False
            recent[first + k] = v
            if slot_of[v] < 0:
                while members[s] >= 0:
                    s += 1
                members[s] = v
                slot_of[v] = s
                fresh[count] = s
                count += 1
        held[g] = found
    return count
