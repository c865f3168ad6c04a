r"""Exchanges of two or three edges of a path.

A path lies in the positions first .. last - 1 of ``tour``; ``pos`` is its inverse.  Behind its ends
stands one *nobody* (number -1) at distance zero from everybody: with it the path is a cycle, and a
free end is an edge like any other.  An end that must stay where it is has a fixed edge to it.

An edge (t1, t2) is taken out, t2 is joined to a near t3, and one of t3's edges (t3, t4) is taken
out; either t4 is joined to t1 (two edges exchanged), or t4 to a near t5, whose edge (t5, t6) goes,
and t6 to t1 (three).  The sums of what was gained so far must stay positive: some start of any
gainful exchange has that property (Lin and Kernighan, 1973).  Which (t4, t6) leave one cycle is
decided by positions, before anything is moved::

    SWAP      t4 before t3          t1 [t4 .. t2] t3
    SWAP_ON   t4 before t3          SWAP, then the same with the edge (t4, t1) for (t1, t2)
    CARRY     t4 after t3, t6 after t5      t1 [t6 .. t3] [t2 .. t5] t4
    TURN      t4 after t3, t6 before t5     t1 [t6 .. t2] [t3 .. t5] t4

"Before" and "after" are along the direction from t1 to t2, which is either.  Every move is made of
reversals of a part of ``tour``.

References: Lin and Kernighan, Operations Research 21 (1973); Bentley, ORSA J. Computing 4 (1992);
Johnson and McGeoch in Aarts and Lenstra, Local Search in Combinatorial Optimization (1997).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

__all__ = ["Path", "best_move", "make_move", "reverse"]

NOBODY = -1
NO_MOVE, SWAP, SWAP_ON, CARRY, TURN = 0, 1, 2, 3, 4
_SECOND = 5  # neighbours tried for the third edge
_FEW = 16  # cities of a path, all moves of whose ends are tried
#: a gain counts if it is more than this share of the first edge: single precision has 1e-7
_LEAST = 4e-6


class Path(NamedTuple):
    """A piece of a tour; ``left`` and ``right`` say which of its ends must stay where they are."""

    tour: np.ndarray
    pos: np.ndarray
    first: int
    last: int
    left: bool
    right: bool


@njit(cache=True, nogil=True, inline="always")
def _after(path, city):
    if city < 0:
        return path.tour[path.first]
    at = path.pos[city] + 1
    return path.tour[at] if at < path.last else NOBODY


@njit(cache=True, nogil=True, inline="always")
def _before(path, city):
    if city < 0:
        return path.tour[path.last - 1]
    at = path.pos[city] - 1
    return path.tour[at] if at >= path.first else NOBODY


@njit(cache=True, nogil=True, inline="always")
def _next(path, city, forward):
    return _after(path, city) if forward else _before(path, city)


@njit(cache=True, nogil=True, inline="always")
def _place(path, city):
    """Nobody's place is behind the last city."""
    return path.last if city < 0 else path.pos[city]


@njit(cache=True, nogil=True, inline="always")
def _is_elsewhere(path, city):
    """Whether a city lies in another piece; other threads may move it there meanwhile."""
    if city < 0:
        return False
    at = path.pos[city]
    return at < path.first or at >= path.last


@njit(cache=True, nogil=True, inline="always")
def _listed(path, k):
    """Places in a list of k neighbours: nobody, near to all, has the place before or after them.

    Where an end is free one may always be joined to nobody, but it rarely helps: on long paths it
    is tried only by cities whose edge is longer than those to all of their list.
    """
    if path.left and path.right:
        return 0, k
    return (-1, k) if path.last - path.first <= _FEW else (0, k + 1)


@njit(cache=True, nogil=True, inline="always")
def _steps(path, origin, city, forward):
    """From ``origin`` to ``city`` along the cycle, in one direction or the other."""
    steps = _place(path, city) - _place(path, origin)
    if not forward:
        steps = -steps
    return steps if steps >= 0 else steps + path.last - path.first + 1


@njit(cache=True, nogil=True, inline="always")
def _is_fixed(path, a, b):
    if a >= 0 and b >= 0:
        return False
    at = path.pos[max(a, b)]
    return (path.left and at == path.first) or (path.right and at == path.last - 1)


@njit(cache=True, nogil=True, inline="always")
def _between(points, a, b):
    return 0.0 if a < 0 or b < 0 else points.distance(a, b)


@njit(cache=True, nogil=True)
def best_move(points, near, far, path, t2, move):
    """The exchange that gains most of those that begin with an edge of t2; its gain, or 0.

    ``near`` are neighbours of every city, nearest first, ``far`` their distances.  ``move`` becomes
    the kind and t1 .. t6.
    """
    best = 0.0
    move[0] = NO_MOVE
    for way in range(2):
        forward = way == 0  # the direction from t1 to t2
        t1 = _next(path, t2, not forward)
        if _is_fixed(path, t1, t2):
            continue
        d12 = _between(points, t1, t2)
        best = max(best, _LEAST * d12)
        low, high = _listed(path, near.shape[1])
        for k in range(low, high):
            is_listed = 0 <= k < near.shape[1]
            gained = d12 - (far[t2, k] if is_listed else 0.0)
            if gained <= 0.0:
                break
            t3 = near[t2, k] if is_listed else NOBODY
            if t3 == t1 or _is_elsewhere(path, t3):
                continue
            for side in range(2):
                t4_is_before = side == 0
                t4 = _next(path, t3, forward != t4_is_before)
                if t4 == t2 or _is_fixed(path, t3, t4):
                    continue
                gain = gained + _between(points, t3, t4)
                if t4_is_before and gain - _between(points, t4, t1) > best:
                    best = gain - _between(points, t4, t1)
                    _note(move, SWAP, t1, t2, t3, t4, NOBODY, NOBODY)
                if t4 != NOBODY:
                    best = _third_edge(
                        points, near, far, path, forward, t1, t2, t3, t4, gain, best, move
                    )
                elif t1 != NOBODY:
                    best = _third_edge_at_an_end(
                        points, near, far, path, forward, t1, t2, t3, gain, best, move
                    )
    return best if move[0] != NO_MOVE else 0.0


@njit(cache=True, nogil=True)
def _third_edge(points, near, far, path, forward, t1, t2, t3, t4, gained, best, move):
    """Go on with a near t5 of t4 where that gains more than ``best``, which is then returned."""
    p3 = _steps(path, t2, t3, forward)
    t4_is_before = _steps(path, t2, t4, forward) < p3
    most = min(_SECOND, near.shape[1])
    low, high = _listed(path, most)
    for k in range(low, high):
        is_listed = 0 <= k < most
        gain = gained - (far[t4, k] if is_listed else 0.0)
        if gain <= 0.0:
            break
        t5 = near[t4, k] if is_listed else NOBODY
        if t5 == t1 or t5 == t3 or _is_elsewhere(path, t5):  # noqa: SIM109 (not in Numba)
            continue
        t5_is_inside = _steps(path, t2, t5, forward) < p3
        for side in range(2):
            t6_is_after = side == 0
            t6 = _next(path, t5, forward == t6_is_after)
            kind = _third_kind(t4_is_before, t5_is_inside, t6_is_after, t2, t4, t5, t6)
            if kind != NO_MOVE and not _is_fixed(path, t5, t6):
                total = gain + _between(points, t5, t6) - _between(points, t6, t1)
                if total > best:
                    best = total
                    _note(move, kind, t1, t2, t3, t4, t5, t6)
    return best


@njit(cache=True, nogil=True)
def _third_edge_at_an_end(points, near, far, path, forward, t1, t2, t3, gained, best, move):
    """The same where t4 is nobody, to whom all are near: t6 is then sought near t1."""
    p3 = _steps(path, t2, t3, forward)
    t4_is_before = _steps(path, t2, NOBODY, forward) < p3
    for k in range(min(_SECOND, near.shape[1])):
        t6 = near[t1, k]
        if _is_elsewhere(path, t6):
            continue
        for side in range(2):
            t6_is_after = side == 0
            t5 = _next(path, t6, forward != t6_is_after)
            if t5 == NOBODY or t5 == t1 or t5 == t3:  # noqa: SIM109 (not in Numba)
                continue
            t5_is_inside = _steps(path, t2, t5, forward) < p3
            kind = _third_kind(t4_is_before, t5_is_inside, t6_is_after, t2, NOBODY, t5, t6)
            if kind != NO_MOVE:
                total = gained + _between(points, t5, t6) - far[t1, k]
                if total > best:
                    best = total
                    _note(move, kind, t1, t2, t3, NOBODY, t5, t6)
    return best


@njit(cache=True, nogil=True, inline="always")
def _third_kind(t4_is_before, t5_is_inside, t6_is_after, t2, t4, t5, t6):
    """Which move exchanges these three edges; NO_MOVE if more than one cycle would be left."""
    if t4_is_before:
        # t4 .. t2 t3 .. t1 is a path: of t5's edges the one on t4's side must go.
        return SWAP_ON if t6_is_after == t5_is_inside and t6 != t4 and t5 != t4 else NO_MOVE
    # t2 .. t3 is a cycle of its own: either of its edges at t5 may go.
    if not t5_is_inside:
        return NO_MOVE
    if t6_is_after:
        return CARRY
    return TURN if t5 != t2 else NO_MOVE


@njit(cache=True, nogil=True, inline="always")
def _note(move, kind, t1, t2, t3, t4, t5, t6):
    move[0], move[1], move[2], move[3] = kind, t1, t2, t3
    move[4], move[5], move[6] = t4, t5, t6


@njit(cache=True, nogil=True)
def make_move(path, move, log, logged):
    """Do what ``best_move`` found; reversals are noted in ``log`` where there is room."""
    kind, t1, t2, t3, t4, t5, t6 = move
    if kind == CARRY:
        logged = _exchange(path, t1, t2, t3, t4, log, logged)
        logged = _exchange(path, t1, t3, t6, t5, log, logged)
        return _exchange(path, t3, t5, t2, t4, log, logged)
    if kind == TURN:
        logged = _exchange(path, t1, t2, t6, t5, log, logged)
        return _exchange(path, t2, t5, t3, t4, log, logged)
    logged = _exchange(path, t1, t2, t4, t3, log, logged)
    return _exchange(path, t1, t4, t6, t5, log, logged) if kind == SWAP_ON else logged


@njit(cache=True, nogil=True)
def _exchange(path, x1, y1, x2, y2, log, logged):
    """The edges (x1, y1), (x2, y2) become (x1, x2), (y1, y2); both follow the same direction.

    Of the two pieces of the cycle the one without nobody is turned.
    """
    if _after(path, x1) == y1:
        i, j = _place(path, y1), _place(path, x2)
    else:
        i, j = _place(path, x1), _place(path, y2)
    if j == path.last:
        i, j = path.first, i - 1
    elif i > j:
        i, j = j + 1, i - 1
    return reverse(path, i, j, log, logged)


@njit(cache=True, nogil=True)
def reverse(path, i, j, log, logged):
    """Turn the piece at the positions i .. j round; the number of reversals so far."""
    if logged < log.shape[0]:
        log[logged, 0], log[logged, 1] = i, j
    while i < j:
        a, b = path.tour[i], path.tour[j]
        path.tour[i], path.pos[b] = b, i
        path.tour[j], path.pos[a] = a, j
        i += 1
        j -= 1
    return logged + 1
