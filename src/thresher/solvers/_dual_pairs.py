r"""Pairs of variables inside a working set: sequential minimal optimisation with a dense matrix.

One variable rises by t, another of the same equality falls by t.  The first is the worst violator
that may rise; the second promises the largest decrease

.. math:: \frac{(G_j - G_i)^2}{2 (Q_{ii} + Q_{jj} - 2 Q_{ij})}

of those that may fall (Fan, Chen and Lin, Working set selection using second order information,
JMLR 2005).  The matrix is in single precision, the gradient in double.

Maxima are kept per lane, so that the loops over all members are vector code, and the place of a
maximum is looked for afterwards, in its lane.  A member that must not rise or fall has a penalty
far beyond any gradient in ``rise`` or ``fall``; so have empty slots.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["LANES", "add_columns", "gather", "place_rows", "take_steps"]

LANES = 32
_FAR = 1e30
_FLAT = 1e-12  # least curvature along a pair: copies of a row have none
_FAST = {"nnan", "nsz", "reassoc", "contract", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy", forceinline=True)
def _first_largest(best):
    """The lane of the largest, the first of several.

    As two loops of vector code: one that carries the lane waits for each comparison.
    """
    most = best[0]
    for k in range(1, LANES):
        most = best[k] if best[k] > most else most
    lane = LANES
    for k in range(LANES):
        lane = min(lane, k if best[k] == most else LANES)
    return lane


@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy", forceinline=True)
def take_steps(Q, diagonal, G, z, lower, upper, rise, fall, seats, tol, most):
    """Steps until no group violates by more than ``tol``, or ``most`` of them.

    Q is (slots, blocks, LANES); diagonal, G, rise and fall (blocks, LANES); z, lower and upper
    (slots,).  ``seats`` are the first blocks of each group.  G, z, rise and fall are changed.
    Returns the steps, and those along which the matrix was not positive.
    """
    groups = seats.size - 1
    best, least = np.empty(LANES), np.empty(LANES)
    ups = np.zeros(groups, np.int64)
    first, second = Q[0], Q[0]
    step, taken, negative = 0.0, 0, 0
    while True:
        # The gradient after the last step, and the worst of each group that may rise.
        for g in range(groups):
            for k in range(LANES):
                best[k] = -2.0 * _FAR
            for b in range(seats[g], seats[g + 1]):
                for k in range(LANES):
                    t = G[b, k] + step * np.float64(first[b, k] - second[b, k])
                    G[b, k] = t
                    t = rise[b, k] - t
                    best[k] = t if t > best[k] else best[k]
            k = _first_largest(best)
            b = seats[g]
            while b < seats[g + 1] - 1 and rise[b, k] - G[b, k] != best[k]:
                b += 1
            ups[g] = b * LANES + k
        # Its best partner; the group of the largest gain takes the step.
        gain, i, j, gap = 0.0, -1, -1, 0.0
        for g in range(groups):
            up = ups[g]
            b, k = up // LANES, up % LANES
            line, top, own = Q[up], -G[b, k], diagonal[b, k]
            if rise[b, k] < 0.0:
                continue
            for k in range(LANES):
                best[k], least[k] = -1.0, 2.0 * _FAR
            for b in range(seats[g], seats[g + 1]):
                for k in range(LANES):
                    t = fall[b, k] - G[b, k]
                    least[k] = t if t < least[k] else least[k]
                    d = top - t
                    d = d if d > 0.0 else 0.0
                    curvature = own + diagonal[b, k] - 2.0 * np.float64(line[b, k])
                    curvature = curvature if curvature > _FLAT else _FLAT
                    t = d * d / curvature
                    best[k] = t if t > best[k] else best[k]
            lowest, k = least[0], _first_largest(best)
            for lane in range(1, LANES):
                lowest = least[lane] if least[lane] < lowest else lowest
            gap = top - lowest if top - lowest > gap else gap
            if top - lowest > tol and best[k] > gain:
                gain, i = best[k], up
                j, most_gain = seats[g] * LANES + k, -1.0
                for b in range(seats[g], seats[g + 1]):
                    d = top - (fall[b, k] - G[b, k])
                    d = d if d > 0.0 else 0.0
                    curvature = own + diagonal[b, k] - 2.0 * np.float64(line[b, k])
                    t = d * d / (curvature if curvature > _FLAT else _FLAT)
                    if t > most_gain:
                        most_gain, j = t, b * LANES + k
        if i < 0 or taken >= most:
            return taken, negative, gap
        ib, ik, jb, jk = i // LANES, i % LANES, j // LANES, j % LANES
        first, second = Q[i], Q[j]
        curvature = diagonal[ib, ik] + diagonal[jb, jk] - 2.0 * np.float64(first[jb, jk])
        if curvature < -1e-5 * (abs(diagonal[ib, ik]) + abs(diagonal[jb, jk])):
            negative += 1
        curvature = curvature if curvature > _FLAT else _FLAT
        step = (G[jb, jk] - G[ib, ik]) / curvature
        above, below = upper[i] - z[i], z[j] - lower[j]
        step = above if above < step else step
        step = below if below < step else step
        if step >= above:
            z[i] = upper[i]
            rise[ib, ik] = -_FAR
        else:
            z[i] += step
        if step >= below:
            z[j] = lower[j]
            fall[jb, jk] = _FAR
        else:
            z[j] -= step
        fall[ib, ik] = 0.0
        rise[jb, jk] = 0.0
        taken += 1


@njit(cache=True, nogil=True)
def place_rows(Q, values, fresh, slots, members, block, signs, coupling, plain):
    """Q of the fresh slots with filled ones, on both sides of the diagonal.

    ``values[a, k]`` is the kernel of the fresh slot a and the filled slot ``slots[k]``; both are in
    ascending order.  Threads that have different ``slots`` do not meet.  Returns whether all values
    are finite.
    """
    total, width = 0.0, 16
    for a in range(fresh.size):
        s = fresh[a]
        line, mine = Q[s], values[a]
        if plain:
            for k in range(slots.size):
                line[slots[k]] = mine[k]
                total += 0.0 * mine[k]
            continue
        own, sign = block[members[s]], signs[members[s]]
        for k in range(slots.size):
            v = members[slots[k]]
            line[slots[k]] = mine[k] * np.float32(sign * signs[v] * coupling[own, block[v]])
            total += 0.0 * mine[k]
    places = np.searchsorted(fresh, slots)
    for c in range(0, fresh.size, width):  # some columns at a time, so that lines are met once
        for k in range(slots.size):
            line, place = Q[slots[k]], places[k]
            if place < fresh.size and fresh[place] == slots[k]:
                continue  # fresh itself: both sides are there
            for a in range(c, min(c + width, fresh.size)):
                line[fresh[a]] = Q[fresh[a], slots[k]]
    return total == 0.0


@njit(cache=True, nogil=True)
def gather(
    slots, members, z, G, lower, upper, diagonal, z_in, G_in, lower_in, upper_in, diagonal_in, rise,
    fall,
):  # fmt: skip
    """The numbers of the members, in their slots; an empty slot can neither rise nor fall."""
    for s in range(z_in.size):
        z_in[s], G_in[s], diagonal_in[s] = 0.0, 0.0, 1.0
        rise[s], fall[s] = -_FAR, _FAR
    for k in range(slots.size):
        s, v = slots[k], members[k]
        z_in[s], G_in[s], diagonal_in[s] = z[v], G[v], diagonal[v]
        lower_in[s], upper_in[s] = lower[v], upper[v]
        if z[v] < upper[v]:
            rise[s] = 0.0
        if z[v] > lower[v]:
            fall[s] = 0.0


@njit(cache=True, nogil=True, fastmath=_FAST, forceinline=True)
def add_columns(sums, table, places, steps, start, stop):
    """sums[start:stop] += columns times steps, eight columns a visit.

    Products and sums of eight are in single precision, their total in double.
    """
    width, m = 1024, places.size
    one = np.float32
    for c in range(start, stop, width):
        end = min(c + width, stop)
        out, k = sums[c:end], 0
        while k + 8 <= m:
            x0, x1 = table[places[k], c:end], table[places[k + 1], c:end]
            x2, x3 = table[places[k + 2], c:end], table[places[k + 3], c:end]
            x4, x5 = table[places[k + 4], c:end], table[places[k + 5], c:end]
            x6, x7 = table[places[k + 6], c:end], table[places[k + 7], c:end]
            d0, d1, d2, d3 = one(steps[k]), one(steps[k + 1]), one(steps[k + 2]), one(steps[k + 3])
            d4, d5 = one(steps[k + 4]), one(steps[k + 5])
            d6, d7 = one(steps[k + 6]), one(steps[k + 7])
            for j in range(out.size):
                out[j] += np.float64(
                    (d0 * x0[j] + d1 * x1[j]) + (d2 * x2[j] + d3 * x3[j])
                    + (d4 * x4[j] + d5 * x5[j]) + (d6 * x6[j] + d7 * x7[j])
                )  # fmt: skip
            k += 8
        while k < m:
            x0, step = table[places[k], c:end], steps[k]
            for j in range(out.size):
                out[j] += step * np.float64(x0[j])
            k += 1
