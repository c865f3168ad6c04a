r"""Shorter paths by exchanges of edges until none helps, and then by kicks.

*Search.*  A queue holds the cities whose edges changed; of all moves of a city (``moves.py``) the
best is made.  When the queue is empty the path is 3-optimal with regard to its neighbour lists.

*Kicks.*  Three neighbouring short pieces of the path are put in the opposite order, at random (a
double bridge, kept local); the eight cities go into the queue, and if what results is not shorter
the reversals are undone.  A kick costs microseconds, whatever the length of the path.  An exchange
of two neighbouring pieces, often called by that name, is a move of three edges, which the search
takes back: of 20,000 points in the unit square, five kicks a city, 1.030 x 0.7124 sqrt(n) against
1.012.  Such a kick takes several times as long; one a city was still ahead (1.023) of those five.

Nothing outside of a piece is read or written, except positions of cities that lie elsewhere: so
threads may work on separate pieces of one path, and what they find does not depend on their number.

References: Martin, Otto and Felten, Complex Systems 5 (1991); Bentley, ORSA J. Computing 4 (1992).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.orderings.moves import SWAP, Path, best_move, make_move, reverse

__all__ = ["improve", "neighbour_distances"]

_LONGEST_PIECE = 30  # of those that a kick exchanges
_LOG = 1000  # reversals after a kick that can be undone; a search that takes more is cut short
_SMALLEST = 5  # cities of a path that is worth a kick


@njit(cache=True, nogil=True)
def improve(points, near, far, tour, pos, waiting, first, last, left, right, kicks, x):
    """Shorten the path at the positions first .. last - 1 of ``tour``, in place; what was gained.

    ``near`` are neighbours of every city, nearest first, and ``far`` their distances; ``waiting``
    are zeros.  ``left`` and ``right`` say that the first or the last city must stay where it is.
    ``x`` in 1 .. 2^31 - 2 seeds the kicks.
    """
    path = Path(tour, pos, first, last, left, right)
    queue = tour[first:last].copy()
    waiting[queue] = 1
    no_log = np.empty((0, 2), np.int64)
    gained, _ = _search(points, near, far, path, queue, waiting, queue.size, no_log, 0)
    if queue.size < _SMALLEST:
        return gained
    log, ends = np.empty((_LOG, 2), np.int64), np.empty(8, np.int64)
    for _ in range(kicks):
        cost, x, logged = _kick(points, path, x, log, ends)
        count = 0
        for city in ends:
            if waiting[city] == 0:
                waiting[city] = 1
                queue[count] = city
                count += 1
        gain, logged = _search(points, near, far, path, queue, waiting, count, log, logged)
        if gain > cost:
            gained += gain - cost
        else:
            for k in range(logged - 1, -1, -1):
                reverse(path, log[k, 0], log[k, 1], no_log, 0)
    return gained


@njit(cache=True, nogil=True)
def _search(points, near, far, path, queue, waiting, count, log, logged):
    """Make the best move of whoever waits, until nobody does.  The gain, and reversals logged.

    ``queue`` is a ring as long as the path, of which the first ``count`` places are filled.  A
    search that fills its log, if it has one, is cut short.
    """
    gained, head, size = 0.0, 0, queue.size
    move = np.zeros(7, np.int64)
    most = log.shape[0] - 3 if log.shape[0] > 0 else np.iinfo(np.int64).max
    while count > 0:
        city = queue[head]
        head = head + 1 if head + 1 < size else 0
        count -= 1
        waiting[city] = 0
        while logged <= most:
            gain = best_move(points, near, far, path, city, move)
            if gain <= 0.0:
                break
            gained += gain
            logged = make_move(
                path, (move[0], move[1], move[2], move[3], move[4], move[5], move[6]), log, logged
            )
            for k in range(1, 5 if move[0] == SWAP else 7):
                other = move[k]
                if other >= 0 and waiting[other] == 0 and other != city:
                    waiting[other] = 1
                    tail = head + count
                    queue[tail if tail < size else tail - size] = other
                    count += 1
    return gained, logged


@njit(cache=True, nogil=True)
def _kick(points, path, x, log, ends):
    """Three neighbouring pieces in the opposite order, each as it was: four edges change.

    ``x`` draws (Lehmer's generator); ``ends`` become the eight cities whose edges changed.  What it
    costs, the next x, and the reversals logged.
    """
    tour, size = path.tour, path.last - path.first
    most = min(_LONGEST_PIECE, (size - 2) // 3)
    x = (x * 48271) % 2147483647
    one = 1 + (x * most >> 31)
    x = (x * 48271) % 2147483647
    two = one + 1 + (x * most >> 31)
    x = (x * 48271) % 2147483647
    three = two + 1 + (x * most >> 31)
    x = (x * 48271) % 2147483647
    at = path.first + (x * (size - three - 1) >> 31)
    cost = 0.0
    for k, step in enumerate((0, one, two, three)):
        ends[2 * k], ends[2 * k + 1] = tour[at + step], tour[at + step + 1]
        cost -= points.distance(ends[2 * k], ends[2 * k + 1])
    cost += points.distance(ends[0], ends[5]) + points.distance(ends[6], ends[3])
    cost += points.distance(ends[4], ends[1]) + points.distance(ends[2], ends[7])
    logged = reverse(path, at + 1, at + three, log, 0)
    logged = reverse(path, at + 1, at + three - two, log, logged)
    logged = reverse(path, at + three - two + 1, at + three - one, log, logged)
    logged = reverse(path, at + three - one + 1, at + three, log, logged)
    return cost, x, logged


@njit(cache=True, nogil=True)
def neighbour_distances(points, near, far, first, last):
    """The distances that belong to the lists of the cities first .. last - 1."""
    for i in range(first, last):
        for k in range(near.shape[1]):
            far[i, k] = points.distance(i, near[i, k])
