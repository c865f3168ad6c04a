"""Where new rows belong along a path.

The nearest row is found among all, or, quickly, around the places of the nearest of some guides at
even distances along the path: neighbours on a path are alike, so that a row nearly as near as the
nearest is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from thresher.kernels.gram import blocks, squares

__all__ = ["positions"]

_GUIDES = 1024
_TRIED = 12  # guides around which a row looks


def positions(path: Any, rows: Any, guided: bool = False) -> np.ndarray:
    """Places of rows among those of ``path``, 0 .. n - 1, with fractions for places between.

    A row goes beside the nearest row p of the path, on the side whose detour
    d(x, p) + d(x, q) - d(p, q) is less, at the share d(x, p) / (d(x, p) + d(x, q)) of the step from
    p to its neighbour q; beyond an end of the path half a place further.  O(rows x path), or, if
    ``guided`` (dense rows only), O(rows x (1,024 + path / 85)): in the plane the nearest row is
    found then, in 5 to 20 dimensions one that is a fifth farther.
    """
    n, m = path.shape[0], rows.shape[0]
    if path.shape[1] == 0 or n == 1:
        return np.zeros(m)
    half = 0.5 * squares(path)
    out = np.empty(m)
    guided = guided and n > 4 * _GUIDES
    guides = np.linspace(0, n - 1, _GUIDES).astype(np.int64) if guided else np.arange(n)
    beacons = path[guides] if guided else path
    for part in blocks(m, guides.size, least=1):
        some = rows[part]
        inner = some @ beacons.T
        inner = inner.toarray() if hasattr(inner, "indptr") else inner
        apart = half[guides] - inner
        if guided:
            tried = guides[np.argpartition(apart, _TRIED, axis=1)[:, :_TRIED]]
            nearest = _nearest_around(path, half, some, tried, n // (2 * _GUIDES) + 1)
        else:
            nearest = apart.argmin(axis=1)
        out[part] = _beside(path, some, nearest)
    return out


@njit(cache=True, nogil=True)
def _nearest_around(path, half, rows, tried, reach):
    """Of the rows of the path within ``reach`` of the tried ones the nearest to each row."""
    out = np.empty(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        least, best = np.inf, tried[i, 0]
        for place in tried[i]:
            for j in range(max(place - reach, 0), min(place + reach + 1, path.shape[0])):
                gap = half[j]
                for k in range(path.shape[1]):
                    gap -= path[j, k] * rows[i, k]
                if gap < least:
                    least, best = gap, j
        out[i] = best
    return out


def _beside(path: Any, rows: Any, nearest: np.ndarray) -> np.ndarray:
    last = path.shape[0] - 1
    to_p = _distances(rows, path[nearest])
    places, least = nearest.astype(np.float64), np.full(nearest.size, np.inf)
    for side in (-1, 1):
        there = np.clip(nearest + side, 0, last)
        inside = there != nearest
        to_q, step = _distances(rows, path[there]), _distances(path[nearest], path[there])
        detour = np.where(inside, to_p + to_q - step, to_p)
        share = np.where(inside, to_p / np.maximum(to_p + to_q, 1e-300), 0.5)
        share[to_p == 0.0] = 0.0
        better = detour < least
        places = np.where(better, nearest + side * share, places)
        least = np.minimum(least, detour)
    return places


def _distances(A: Any, B: Any) -> np.ndarray:
    """Between rows of the same number."""
    steps = (A - B).astype(np.float64)
    if hasattr(steps, "indptr"):
        return np.sqrt(np.asarray(steps.multiply(steps).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", steps, steps))
