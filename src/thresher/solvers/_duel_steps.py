r"""A machine of two classes in one compiled call: for the many small problems of many classes.

The steps are those of ``decomposition.py`` for z = y alpha with one equality: a working set is
renewed (``_dual_choice.py``), solved by pairs (``_dual_pairs.py``), and the columns of the members
that moved are added to the gradient of all.  All columns of the two classes fit in memory, so a
working set needs nothing else: its own matrix is a part of them.  Steps then cost microseconds; so
working sets are small, few of their members are new, and none is solved finer than a tenth of the
violation of all.

Rows of a class lie together.  Kernel values of a row with its own class are the same in all duels
of that class, and may be given (``own``); those with the other class are needed in this duel only.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from thresher.solvers._dual_choice import renew, violations
from thresher.solvers._dual_pairs import LANES, add_columns, gather, take_steps

__all__ = ["SEATS", "duel", "values_within"]

SEATS = 128  # of the working set
_FIRST = 0.375  # share of them that is taken at first,
_NEW = 0.25  # and that may be new in a later step
_INNER = 0.1  # a working set is solved to this share of the violation of all,
_FINEST = 0.3  # but not below this share of the tolerance
_LONGEST = 100  # pairs in a step for each member, at most
_STALLED = 50  # steps after which a decrease below _ROUNDING says that rounding is in charge
_ROUNDING = 1e-9
_TILE = 64  # rows of a matrix at a time


@njit(cache=True, nogil=True, error_model="numpy")
def values_between(kernel, A, sq_a, B, sq_b, table, places, at):
    """table[places[k], at:] = kernel of row k of A with all rows of B; next to nothing is zero."""
    least, zero = np.float32(1e-20), np.float32(0.0)
    S = np.dot(B, A.T)  # in this order BLAS is a third faster where A has few rows
    line = np.empty(B.shape[0], S.dtype)
    for k in range(A.shape[0]):
        for j in range(line.size):
            line[j] = S[j, k]
        out, own = table[places[k]], sq_a[k]
        for j in range(line.size):
            value = np.float32(kernel.of(line[j], own, sq_b[j]))
            out[at + j] = zero if abs(value) < least else value


@njit(cache=True, nogil=True)
def values_within(kernel, X, squares, table):
    """table[i, j] = kernel of the rows i and j, those of one triangle computed."""
    n = X.shape[0]
    for a in range(0, n, _TILE):
        b = min(a + _TILE, n)
        values_between(kernel, X[a:b], squares[a:b], X[a:], squares[a:], table, np.arange(a, b), a)
        for j in range(b, n):
            out = table[j]
            for i in range(a, b):
                out[i] = table[i, j]


@njit(cache=True, nogil=True)
def _with_own(kernel, X, squares, start, stop, own, taken, sq_taken, rows, table, places, at):
    """Values of some rows with those of their own class, computed if nobody has them."""
    if own.shape[0] == 0:
        values_between(
            kernel, taken, sq_taken, X[start:stop], squares[start:stop], table, places, at
        )
        return
    for k in range(rows.size):
        line, out = own[rows[k]], table[places[k]]
        for j in range(line.size):
            out[at + j] = line[j]


@njit(cache=True, nogil=True)
def _add_members(kernel, X, squares, ends, own, other, wanted, table, places):
    """Columns of the wanted variables; the first class has the rows ends[0] .. ends[1] of X."""
    a, b, c, d = ends
    n = b - a
    for second in range(2):
        mine = wanted[wanted >= n] - n if second else wanted[wanted < n]
        if mine.size == 0:
            continue
        put = places[wanted[wanted >= n]] if second else places[wanted[wanted < n]]
        rows = mine + (c if second else a)
        taken, sq_taken = X[rows], squares[rows]
        if second:
            values_between(kernel, taken, sq_taken, X[a:b], squares[a:b], table, put, 0)
            _with_own(kernel, X, squares, c, d, other, taken, sq_taken, mine, table, put, n)
        else:
            _with_own(kernel, X, squares, a, b, own, taken, sq_taken, mine, table, put, 0)
            values_between(kernel, taken, sq_taken, X[c:d], squares[c:d], table, put, n)


@njit(cache=True, nogil=True)
def _place(Q, table, places, members, slots, fresh):
    """Q of the fresh slots with all that are filled; returns whether all is finite."""
    total = np.float32(0.0)
    for k in range(fresh.size):
        s = fresh[k]
        line, mine = Q[s], table[places[members[s]]]
        for t in slots:
            value = mine[members[t]]
            line[t] = value
            Q[t, s] = value
            total += np.float32(0.0) * value
    return total == 0.0


@njit(cache=True, nogil=True)
def _offset(G, z, lower, upper, high, low):
    """Minus the multiplier: the mean of -G over free variables, or the middle of its bounds."""
    total, free = 0.0, 0
    for v in range(z.size):
        if lower[v] < z[v] < upper[v]:
            total += G[v]
            free += 1
    if free:
        return -total / free
    if math.isfinite(high) and math.isfinite(low):
        return 0.5 * (high + low)
    return high if math.isfinite(high) else low if math.isfinite(low) else 0.0


@njit(cache=True, nogil=True)
def _solve_members(table, places, Q, inside, here, mine, z, G, lower, upper, diagonal, blocks, tol):
    """Pairs of the members, and the gradient of all after them; how many, and how many bent."""
    total = Q.shape[0]
    shape = (total // LANES, LANES)
    z_in, rise, fall = inside[0], inside[5], inside[6]
    gather(
        here, mine, z, G, lower, upper, diagonal, z_in, inside[1], inside[2], inside[3], inside[4],
        rise, fall,
    )  # fmt: skip
    pairs, bent, _ = take_steps(
        Q.reshape((total, total // LANES, LANES)), inside[4].reshape(shape),
        inside[1].reshape(shape), z_in, inside[2], inside[3], rise.reshape(shape),
        fall.reshape(shape), blocks, tol, _LONGEST * max(here.size, LANES),
    )  # fmt: skip
    moved, moves, away = np.empty(here.size, np.int64), np.empty(here.size), 0
    for k in range(here.size):
        v = mine[k]
        step = z_in[here[k]] - z[v]
        if step != 0.0:
            z[v] = z_in[here[k]]
            moved[away], moves[away] = places[v], step
            away += 1
    add_columns(G, table, moved[:away], moves[:away], 0, G.size)
    return pairs, bent


@njit(cache=True, nogil=True)
def duel(
    kernel, X, squares, diagonals, bounds, ends, own, other, table, z, G, tol, most,
):  # fmt: skip
    """The machine of the classes at ``ends``, from nothing; ``z`` and ``G`` get the solution.

    The first of them is the negative one.  ``X``, ``squares``, ``diagonals``, ``bounds`` are of all
    classes.  ``table`` has room for all columns.  ``own`` and ``other`` are the matrices of the
    first and second class, or empty.  Returns the intercept, the violation (NaN: a value is not
    finite), steps, columns, pairs, those along which the matrix was not positive, and whether it
    stalled.
    """
    n = z.size
    a, b, c, d = ends
    diagonal = np.concatenate((diagonals[a:b], diagonals[c:d]))
    lower, upper = np.zeros(n), np.zeros(n)
    lower[: b - a], upper[b - a :] = -bounds[a:b], bounds[c:d]
    y = np.ones(n)
    y[: b - a] = -1.0
    seats = np.array([0, -(-min(SEATS, n) // LANES) * LANES])
    total = seats[1]
    whole = total >= n
    blocks, starts = seats // LANES, np.array([0, n])
    members, recent = np.full(total, -1, np.int64), np.zeros(total, np.int64)
    fresh, wanted = np.zeros(total, np.int64), np.empty(total, np.int64)
    slot_of, places = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    held, taken = np.zeros(1, np.int64), np.zeros(n, np.bool_)
    Q, inside = np.zeros((total, total), np.float32), np.zeros((7, total))
    high, low = np.zeros(1), np.zeros(1)
    for v in range(n):
        z[v], G[v] = 0.0, -y[v]
    steps, columns, pairs, negative, before = 0, 0, 0, 0, math.inf
    violation = violations(G, z, lower, upper, starts, high, low)
    while violation > tol and steps < most:
        share = 1.0 if whole else _FIRST if steps == 0 else _NEW
        count = renew(
            G, z, lower, upper, starts, seats, high, low, tol, share, members, slot_of, recent,
            held, taken, fresh,
        )  # fmt: skip
        lacking = 0
        for k in range(count):
            v = members[fresh[k]]
            if places[v] < 0:
                places[v] = columns
                wanted[lacking] = v
                columns += 1
                lacking += 1
        if lacking:
            _add_members(kernel, X, squares, ends, own, other, wanted[:lacking], table, places)
        here = np.flatnonzero(members >= 0)
        if not _place(Q, table, places, members, here, fresh[:count]):
            return 0.0, math.nan, steps, columns, pairs, negative, False
        tried, bent = _solve_members(
            table, places, Q, inside, here, members[here], z, G, lower, upper, diagonal, blocks,
            max(0.0 if whole else _INNER * violation, _FINEST * tol),
        )  # fmt: skip
        pairs += tried
        negative += bent
        violation = violations(G, z, lower, upper, starts, high, low)
        steps += 1
        if steps % _STALLED == 0:
            now = 0.5 * np.sum(z * (G - y))
            if not now < before - _ROUNDING * abs(now):
                return 0.0, violation, steps, columns, pairs, negative, True
            before = now
    intercept = _offset(G, z, lower, upper, high[0], low[0])
    return intercept, violation, steps, columns, pairs, negative, False
