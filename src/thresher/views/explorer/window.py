"""Exactly the cells that a page shows: columns by rows, one byte each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from thresher.views.explorer.codes import MISSING
from thresher.views.explorer.pyramid import LAYERS, Pyramid

__all__ = ["MOST_CELLS", "Window", "cut_out"]

MOST_CELLS = 1 << 24
_MOST_IN_A_CELL = 8  # columns: neighbours are alike, and a step must not take longer for more


@dataclass(frozen=True)
class Window:
    """Which cells: rows of a level, and places in the order of the columns.

    Parameters
    ----------
    level : int
    start, stop : int
        Rows of the level.
    first, last : int
        Places of columns; ``last`` is not shown.
    step : int, default=1
        Neighbouring columns that share a cell.
    layer : {"means", "extremes"}, default="means"
    """

    level: int
    start: int
    stop: int
    first: int
    last: int
    step: int = 1
    layer: str = "means"


def cut_out(pyramid: Pyramid, columns: np.ndarray, window: Window) -> np.ndarray:
    """The bytes of shape (columns shown, rows shown), clipped to what there is.

    Columns that share a cell show the mean of their numbers, of eight of them at even distances if
    there are more, or the first of them if none has numbers.
    """
    if window.layer not in LAYERS:
        raise ValueError(f"layer must be one of {', '.join(LAYERS)}, got {window.layer!r}")
    if not 0 <= window.level < pyramid.depth or window.step < 1:
        raise ValueError(f"there is no level {window.level} by steps of {window.step}")
    start, stop = max(window.start, 0), min(window.stop, pyramid.rows(window.level))
    first, last = max(window.first, 0), min(window.last, columns.size)
    height, width = max(stop - start, 0), -(-max(last - first, 0) // window.step)
    if height * width > MOST_CELLS:
        raise ValueError(f"{height} x {width} cells are more than a page can show")
    out = np.empty((width, height), np.uint8)
    for k in range(width):
        group = columns[first + k * window.step : min(first + (k + 1) * window.step, last)]
        numbers = group[~pyramid.is_category[group]]
        numbers = numbers[:: -(-numbers.size // _MOST_IN_A_CELL) or 1]
        if numbers.size > 1:
            out[k] = _mean(pyramid.several(window.level, window.layer, numbers, start, stop))
        else:
            j = numbers[0] if numbers.size else group[0]
            out[k] = pyramid.cells(window.level, window.layer, j, start, stop)
    return out


@njit(cache=True, nogil=True)
def _mean(cells):
    out = np.empty(cells.shape[1], np.uint8)
    for i in range(cells.shape[1]):
        total, known = 0, 0
        for j in range(cells.shape[0]):
            if cells[j, i] != MISSING:
                total += cells[j, i]
                known += 1
        out[i] = MISSING if 2 * known < cells.shape[0] else (2 * total + known) // (2 * known)
    return out
