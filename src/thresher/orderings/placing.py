"""Where new rows belong along a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.kernels.gram import blocks, squares

__all__ = ["positions"]


def positions(path: Any, rows: Any) -> np.ndarray:
    """Places of rows among those of ``path``, 0 .. n - 1, with fractions for places between.

    A row goes beside the nearest row p of the path, on the side whose detour
    d(x, p) + d(x, q) - d(p, q) is less, at the share d(x, p) / (d(x, p) + d(x, q)) of the step from
    p to its neighbour q; beyond an end of the path half a place further.
    """
    n, m = path.shape[0], rows.shape[0]
    if path.shape[1] == 0 or n == 1:
        return np.zeros(m)
    half = 0.5 * squares(path)
    out = np.empty(m)
    for part in blocks(m, n, least=1):
        some = rows[part]
        inner = some @ path.T
        inner = inner.toarray() if hasattr(inner, "indptr") else inner
        nearest = (half - inner).argmin(axis=1)
        out[part] = _beside(path, some, nearest)
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
