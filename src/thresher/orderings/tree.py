"""A tree of cells by repeated 2-means, 2^l of them below a node.

The rows of a cell are neighbours in memory: a split puts them in order in place, so that deeper
splits read what is already in the cache.  A split fits two centres to a hundred of the cell's rows
and sends every row to the nearer one, O(rows) whatever the centres cost.  Where one side would get
next to nothing (outliers, duplicates), the cell is cut at the median of the sample along the line
between the centres, or else in the middle: so the depth is O(log n) for all data.

Every draw is a function of the seed and of where a cell begins and ends: threads share the cells of
a level, and their number changes nothing.

Reference: Djuric, PhD thesis, Temple University (2014), Algorithm 2.
"""

from __future__ import annotations

import itertools
from concurrent.futures import Executor

import numpy as np
from numba import njit

from thresher._random import uniform

__all__ = ["means_of_cells", "refined", "row_groups"]

_SAMPLE = 100
_STEPS = 5  # of Lloyd: the borders between cells are drawn again by the search for a short path
_FEW_CELLS = 16
_THINNEST = 0.02  # share of the rows that the smaller side has at least


@njit(cache=True, nogil=True)
def _centres(X, first, last, seed):
    """Two centres of a sample of the rows first .. last - 1, and the sample."""
    size = min(_SAMPLE, last - first)
    chosen = np.empty(size, np.int64)
    for k in range(size):
        if size == last - first:
            chosen[k] = first + k
        else:
            chosen[k] = first + int(uniform(seed, first, k + (last - first)) * (last - first))
    centres = np.empty((2, X.shape[1]), np.float32)
    centres[0] = X[chosen[0]]
    centres[1] = X[chosen[size // 2]]
    sums, counts = np.empty((2, X.shape[1]), np.float32), np.empty(2, np.int64)
    for _ in range(_STEPS):
        along, middle = _border(centres)
        sums[:] = 0.0
        counts[:] = 0
        for i in chosen:
            side = 1 if _dot(X, i, along) > middle else 0
            counts[side] += 1
            for j in range(X.shape[1]):
                sums[side, j] += X[i, j]
        if counts[0] == 0 or counts[1] == 0:
            break
        for side in range(2):
            for j in range(X.shape[1]):
                centres[side, j] = sums[side, j] / np.float32(counts[side])
    return centres, chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def _dot(X, i, w):
    total = np.float32(0.0)
    for j in range(w.size):
        total += X[i, j] * w[j]
    return total


@njit(cache=True, nogil=True)
def _border(centres):
    """The plane between two centres: x . along > middle is the second one's side."""
    along = centres[1] - centres[0]
    middle = 0.0
    for j in range(along.size):
        middle += along[j] * (centres[0, j] + centres[1, j]) / 2.0
    return along, np.float32(middle)


@njit(cache=True, nogil=True)
def _divide(X, index, first, last, along, middle):
    """Rows on the first side of the plane to the front; where the second side begins."""
    i, j = first, last - 1
    while True:
        while i <= j and not _dot(X, i, along) > middle:
            i += 1
        while i <= j and _dot(X, j, along) > middle:
            j -= 1
        if i >= j:
            return i
        for k in range(X.shape[1]):
            X[i, k], X[j, k] = X[j, k], X[i, k]
        index[i], index[j] = index[j], index[i]
        i += 1
        j -= 1


@njit(cache=True, nogil=True)
def _split(X, index, first, last, seed):
    """Divide one cell in place; where its second half begins."""
    centres, chosen = _centres(X, first, last, seed)
    along, middle = _border(centres)
    cut = _divide(X, index, first, last, along, middle)
    least = max(1, int(_THINNEST * (last - first)))
    if least <= cut - first <= last - first - least:
        return cut
    heights = np.empty(chosen.size, np.float32)
    for k in range(chosen.size):
        heights[k] = _dot(X, chosen[k], along)
    cut = _divide(X, index, first, last, along, np.float32(np.median(heights)))
    if least <= cut - first <= last - first - least:
        return cut
    return (first + last) // 2


@njit(cache=True, nogil=True)
def _subdivide(X, index, first, last, levels, largest, seed):
    """Split a cell ``levels`` times, parts of up to ``largest`` rows no more; where parts begin."""
    begins = np.empty(1 << levels, np.int64)
    found = 0
    # A stack of parts still to be looked at, the leftmost on top.
    ends, depths = np.empty(levels + 2, np.int64), np.empty(levels + 2, np.int64)
    ends[0], depths[0], top, at = last, 0, 0, first
    while top >= 0:
        end, depth = ends[top], depths[top]
        if depth == levels or end - at <= largest:
            begins[found] = at
            found += 1
            at = end
            top -= 1
            continue
        depths[top] = depth + 1
        top += 1
        ends[top], depths[top] = _split(X, index, at, end, seed), depth + 1
    return begins[:found].copy()


@njit(cache=True, nogil=True)
def _subdivide_some(X, index, begins, some, stop, levels, largest, seed):
    """``_subdivide`` for the cells some .. stop - 1, one after the other."""
    out = np.empty((stop - some) << levels, np.int64)
    found = 0
    for c in range(some, stop):
        part = _subdivide(X, index, begins[c], begins[c + 1], levels, largest, seed)
        out[found : found + part.size] = part
        found += part.size
    return out[:found].copy()


@njit(cache=True, nogil=True)
def _cell_means(X, begins):
    """The mean row of each cell, in single precision; ``begins`` ends with the number of rows."""
    means = np.empty((begins.size - 1, X.shape[1]), np.float32)
    sums = np.empty(X.shape[1], np.float64)
    for c in range(begins.size - 1):
        sums[:] = 0.0
        for i in range(begins[c], begins[c + 1]):
            for j in range(X.shape[1]):
                sums[j] += X[i, j]
        for j in range(X.shape[1]):
            means[c, j] = sums[j] / (begins[c + 1] - begins[c])
    return means


def refined(
    X: np.ndarray, index: np.ndarray, begins: np.ndarray, levels: int, seed: int, pool: Executor
) -> np.ndarray:
    """Where the cells ``levels`` binary levels further down begin.

    ``X`` (float32) and ``index`` are put in order in place.  Cells of up to 2^levels rows stay.
    """
    largest = 1 << levels
    while levels > 0:
        # The first cells are few and large: level by level they become work for all threads.
        step = 1 if begins.size <= _FEW_CELLS else levels
        levels -= step
        jobs = [
            pool.submit(_subdivide_some, X, index, begins, low, high, step, largest, seed)
            for low, high in row_groups(begins)
        ]
        begins = np.append(np.concatenate([job.result() for job in jobs]), X.shape[0])
    return begins


def means_of_cells(X: np.ndarray, begins: np.ndarray, pool: Executor) -> np.ndarray:
    """The mean row of each cell."""
    jobs = [pool.submit(_cell_means, X, begins[i : j + 1]) for i, j in row_groups(begins)]
    return np.concatenate([job.result() for job in jobs])


def row_groups(begins: np.ndarray, rows: int = 1 << 15) -> list[tuple[int, int]]:
    """Neighbouring cells in groups of about so many rows: work for one thread at a time."""
    cuts = np.flatnonzero(np.diff(begins[1:] // rows)) + 1
    edges = [0, *cuts.tolist(), begins.size - 1]
    return list(itertools.pairwise(edges))
