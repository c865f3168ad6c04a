"""The rows of a picture at all resolutions: level k has one cell for 2^k rows that are neighbours.

``means``     of numbers the mean of the codes, rounded once from exact sums; of categories the most
              frequent code, the smallest of equally frequent ones
``extremes``  of numbers the code farthest from the middle, since means hide outliers; of categories
              the rarest value that occurs

A cell is missing where most of its rows are.  Level 0 is not stored: it is the codes by the order.
Columns lie one behind the other in memory, so an order of columns costs nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

from thresher.views.explorer.codes import MISSING, TOGETHER, CodedColumn

__all__ = ["LAYERS", "Pyramid", "build_pyramid"]

LAYERS = ("means", "extremes")
_MIDDLE = 127
_COARSEST = 64  # rows: a picture of fewer has no use


@dataclass(frozen=True, eq=False)
class Pyramid:
    """Levels of all columns in one order of the rows.

    Parameters
    ----------
    columns : list of CodedColumn
    order : array of shape (n_rows,)
    levels : dict of lists of arrays
        For each layer the arrays of shape (n_columns, rows of the level) of levels 1, 2, ...
    """

    columns: list[CodedColumn]
    order: np.ndarray
    levels: dict[str, list[np.ndarray]]

    @cached_property
    def is_category(self) -> np.ndarray:
        """Of each column."""
        return np.array([column.is_category for column in self.columns], dtype=bool)

    @property
    def depth(self) -> int:
        """Number of levels, level 0 among them."""
        return 1 + len(self.levels["means"])

    def cells(self, level: int, layer: str, column: int, start: int, stop: int) -> np.ndarray:
        """Some cells of a column."""
        if level == 0:
            return self._finest(layer, column, self.order[start:stop])
        return self.levels[layer][level - 1][column, start:stop]

    def several(
        self, level: int, layer: str, columns: np.ndarray, start: int, stop: int
    ) -> np.ndarray:
        """Some cells of some columns."""
        if level > 0:
            return self.levels[layer][level - 1][columns, start:stop]
        rows = self.order[start:stop]
        return np.array([self._finest(layer, j, rows) for j in columns])

    def _finest(self, layer: str, column: int, rows: np.ndarray) -> np.ndarray:
        found = self.columns[column]
        return (found.codes if layer == "means" else found.extremes)[rows]

    def rows(self, level: int) -> int:
        """Cells of a column."""
        return -(-self.order.size // 2**level)

    def level_of(self, most: int) -> int:
        """The finest level with at most so many cells in a column; the coarsest if none has."""
        levels = range(self.depth)
        return next((k for k in levels if self.rows(k) <= most), self.depth - 1)


def build_pyramid(columns: list[CodedColumn], order: np.ndarray, threads: int = 1) -> Pyramid:
    """All levels down to a few rows, column by column."""
    n = order.size
    sizes: list[int] = []
    while -(-n // 2 ** len(sizes)) > _COARSEST:
        sizes.append(-(-n // 2 ** (len(sizes) + 1)))
    levels = {layer: [np.empty((len(columns), m), np.uint8) for m in sizes] for layer in LAYERS}

    def fill(j: int) -> None:
        codes = columns[j].codes[order]
        if columns[j].is_category:
            for k, (modes, rarest) in enumerate(zip(*levels.values(), strict=True), start=1):
                _category_level(codes, columns[j].extremes[order], 2**k, modes[j], rarest[j])
            return
        sums, known = _finest(codes)
        extremes = codes if columns[j].unusual is None else columns[j].extremes[order]
        for k, (means, far) in enumerate(zip(*levels.values(), strict=True), start=1):
            sums, known, extremes = _halved(sums, known, extremes)
            _number_level(sums, known, n, 2**k, means[j])
            far[j] = np.where(means[j] == MISSING, MISSING, extremes)

    def fill_some(start: int) -> None:
        for j in range(start, min(start + TOGETHER, len(columns))):
            fill(j)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill_some, range(0, len(columns), TOGETHER)))
    return Pyramid(columns, order, levels)


@njit(cache=True, nogil=True)
def _finest(codes):
    sums, known = np.zeros(codes.size, np.int64), np.zeros(codes.size, np.int64)
    for i in range(codes.size):
        if codes[i] != MISSING:
            sums[i], known[i] = codes[i], 1
    return sums, known


@njit(cache=True, nogil=True)
def _halved(sums, known, extremes):
    half = (sums.size + 1) // 2
    new_sums, new_known = np.zeros(half, np.int64), np.zeros(half, np.int64)
    new_extremes = np.full(half, MISSING, np.uint8)
    for i in range(sums.size):
        new_sums[i // 2] += sums[i]
        new_known[i // 2] += known[i]
        if extremes[i] == MISSING:
            continue
        old = new_extremes[i // 2]
        if old == MISSING or abs(int(extremes[i]) - _MIDDLE) > abs(int(old) - _MIDDLE):
            new_extremes[i // 2] = extremes[i]
    return new_sums, new_known, new_extremes


@njit(cache=True, nogil=True)
def _number_level(sums, known, n, step, means):
    for i in range(sums.size):
        size = min(step, n - i * step)
        if 2 * known[i] < size:
            means[i] = MISSING
        else:
            means[i] = (2 * sums[i] + known[i]) // (2 * known[i])


@njit(cache=True, nogil=True)
def _category_level(codes, unusual, step, modes, rarest):
    counts = np.zeros(256, np.int64)
    for i in range(modes.size):
        start, stop = i * step, min((i + 1) * step, codes.size)
        mode, most, last = 0, 0, -1
        for r in range(start, stop):
            c = codes[r]
            counts[c] += 1
            if c == MISSING:
                continue
            last = max(last, int(c) if unusual[r] == MISSING else int(unusual[r]))
            if counts[c] > most or (counts[c] == most and c < mode):
                mode, most = c, counts[c]
        if 2 * counts[MISSING] > stop - start:
            modes[i], rarest[i] = MISSING, MISSING
        else:
            modes[i], rarest[i] = mode, last
        for r in range(start, stop):
            counts[codes[r]] = 0
