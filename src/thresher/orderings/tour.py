"""TSP-means: a path through all rows by small tours down a tree of cells.

The cells of a level are in an order; each is replaced by its children, in the order of a short path
from the cell before it to the cell after it.  When the children are rows, all rows are in order.
Every order of cells is an order of the rows too, only coarse: it can be shown while the rest is
still being found.

A small path has fixed ends, the *anchors*.  In the thesis cells are replaced from left to right, so
that the left anchor is a child already; here cells in even places go first, between the centres of
their neighbours, and then those in odd places, between the children next to them.  So all cells of
one kind can be done at the same time, and the result does not depend on who does them.

Reference: Djuric, PhD thesis, Temple University (2014), Algorithm 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor

import numpy as np
from numba import njit

from thresher.orderings.improve import improve
from thresher.orderings.points import DensePoints, TablePoints
from thresher.orderings.tree import means_of_cells, refined

__all__ = ["cell_orders", "default_levels"]

_NEIGHBOURS = 8
_GROUP = 256  # cells that one thread replaces at a time


def default_levels(n: int, most: int = 7) -> int:
    """Binary levels that become one: half of a balanced tree's depth, so that there are two.

    With more than 7, 128 cities, small tours cost more than the passes that follow all of them.
    """
    return max(1, min(most, math.ceil(0.5 * math.log2(max(n, 2)))))


def cell_orders(
    X: np.ndarray, index: np.ndarray, metric: int, levels: int, kicks: int, seed: int,
    pool: Executor,
) -> Iterator[np.ndarray]:  # fmt: skip
    """Orders of the rows, one a level: coarse ones first, then the path itself.

    ``X`` (float32) and ``index`` are put in the order of the tree in place; an order holds places
    in them.  ``kicks`` are those of a small tour, for each of its cities.
    """
    n = X.shape[0]
    begins = np.array([0, n])
    means = means_of_cells(X, begins, pool)
    cells = np.zeros(1, np.int64)
    while np.diff(begins).max() > 1 << levels:
        finer = refined(X, index, begins, levels, seed, pool)
        finer_means = means_of_cells(X, finer, pool)
        firsts = np.searchsorted(finer, begins)
        cells = _replaced(cells, firsts, means, finer_means, metric, kicks, seed, pool)
        begins, means = finer, finer_means
        yield _ranges(begins[cells], np.diff(begins)[cells])
    yield _replaced(cells, begins, means, X, metric, kicks, seed, pool)


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """start, start + 1, .. of each range, one range after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)


def _replaced(
    cells: np.ndarray, firsts: np.ndarray, means: np.ndarray, children: np.ndarray, metric: int,
    kicks: int, seed: int, pool: Executor,
) -> np.ndarray:  # fmt: skip
    """The order of all children; those of cell c are firsts[c] .. firsts[c + 1] - 1."""
    sizes = np.diff(firsts)[cells]
    places = np.concatenate([[0], np.cumsum(sizes)])
    out = np.empty(places[-1], np.int64)
    most, d = int(sizes.max()) + 2, children.shape[1]

    def replace(odd: int, low: int) -> None:
        cities = DensePoints(np.empty((most, d), np.float32), metric)
        table = TablePoints(np.empty((most, most), np.float32))
        high = min(low + _GROUP, cells.size)
        _replace_some(
            cells, firsts, places, means, children, odd, low, high, kicks, seed, cities, table, out
        )

    for odd in range(2):
        jobs = [pool.submit(replace, odd, low) for low in range(0, cells.size, _GROUP)]
        for job in jobs:
            job.result()
    return out


@njit(cache=True, nogil=True)
def _replace_some(
    cells, firsts, places, means, children, odd, low, high, kicks, seed, cities, table, out
):
    """Replace the cells in the places low .. high - 1 that are odd, or even."""
    for k in range(low + (low + odd) % 2, high, 2):
        first, last = firsts[cells[k]], firsts[cells[k] + 1]
        has_left, has_right = k > 0, k + 1 < cells.size
        at, size = np.int64(has_left), has_left + last - first + has_right
        cities.X[at : at + last - first] = children[first:last]
        if has_left:
            cities.X[0] = children[out[places[k] - 1]] if odd else means[cells[k - 1]]
        if has_right:
            cities.X[size - 1] = children[out[places[k + 1]]] if odd else means[cells[k + 1]]
        x = 1 + (seed + k) % 2147483646
        tour = _small_path(cities, table, size, has_left, has_right, kicks, x)
        for c in range(last - first):
            out[places[k] + c] = first + tour[at + c] - at


@njit(cache=True, nogil=True)
def _small_path(cities, table, size, has_left, has_right, kicks, x):
    """A short path through the first ``size`` cities; anchors are the first and the last."""
    D = table.D[:size, :size]
    for i in range(size):
        D[i, i] = 0.0
        for j in range(i):
            D[i, j] = D[j, i] = cities.distance(i, j)
    tour = _nearest_next(D, has_right)
    if size > 2:
        pos = np.empty(size, np.int32)
        for k in range(size):
            pos[tour[k]] = k
        near, far = _nearest_in_table(D, min(_NEIGHBOURS, size - 1))
        waiting = np.zeros(size, np.uint8)
        improve(table, near, far, tour, pos, waiting, 0, size, has_left, has_right, kicks * size, x)
    return tour


@njit(cache=True, nogil=True)
def _nearest_next(D, has_right):
    """A path from city 0: always the nearest of those left; the right anchor comes last."""
    n = D.shape[0]
    tour = np.arange(n).astype(np.int32)
    stop = n - 1 if has_right else n
    for k in range(1, stop):
        here, best = tour[k - 1], k
        for q in range(k + 1, stop):
            if D[here, tour[q]] < D[here, tour[best]]:
                best = q
        tour[k], tour[best] = tour[best], tour[k]
    return tour


@njit(cache=True, nogil=True)
def _nearest_in_table(D, k):
    """The k nearest of every city, nearest first, and their distances."""
    n = D.shape[0]
    near, far = np.zeros((n, k), np.int32), np.full((n, k), np.float32(np.inf))
    for i in range(n):
        for j in range(n):
            if j != i and D[i, j] < far[i, k - 1]:
                q = k - 1
                while q > 0 and far[i, q - 1] > D[i, j]:
                    far[i, q], near[i, q] = far[i, q - 1], near[i, q - 1]
                    q -= 1
                far[i, q], near[i, q] = D[i, j], j
    return near, far
