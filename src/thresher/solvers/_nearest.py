r"""The nearest centre of every row, and sums of rows by cluster: the two halves of a k-means pass.

Rows are *seen* about a point amid them (dense rows; no digits are lost where all of them lie far
from zero) or as directions of length one (cosine), element by element as they are read: nothing is
copied but a block of rows at a time.  Inner products of a block with all centres are one matrix
product (dense) or visits of the non-zeros (sparse), and

.. math:: \|x - c\|^2 = \|x\|^2 - 2 x \cdot c + \|c\|^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._rows import Rows
from thresher.solvers.base import Chunk

__all__ = [
    "BLOCK", "Seen", "Table", "add_rows", "blocks", "dense_rows", "inner_products", "nearest",
    "own_squares", "room", "see", "sums_of", "table",
]  # fmt: skip

BLOCK = 4096  # rows of a matrix product: with fifty features they stay in the cache
_SEGMENTS = 16  # parts of a pass that may run side by side
_MOST_SUMS = 1 << 22  # numbers that the sums of all segments may take


class Seen(NamedTuple):
    """Rows as distances see them: (x - shift) * factor, visited in ``order``."""

    rows: Rows
    order: np.ndarray
    weight: np.ndarray  # one per visit
    shift: np.ndarray  # (features,); zeros for sparse rows
    factor: np.ndarray  # one per visit
    square: np.ndarray  # squared length, one per visit

    @property
    def size(self) -> int:
        return int(self.order.size)

    def part(self, which: Any) -> Seen:
        """Some of the visits."""
        return self._replace(
            order=np.ascontiguousarray(self.order[which]),
            weight=self.weight[which],
            factor=self.factor[which],
            square=self.square[which],
        )

    @property
    def mass(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())


class Table(NamedTuple):
    """Centres as compiled loops take them."""

    rows: np.ndarray  # (clusters, features), in float64
    columns: np.ndarray  # (features, clusters), in the precision of the products
    square: np.ndarray  # squared lengths
    offset: np.ndarray  # shift . centre

    @property
    def rounding(self) -> float:
        """A bound on the relative error of a squared distance; that of sums is far from it."""
        return 8.0 * float(np.finfo(self.columns.dtype).eps)


def see(chunk: Chunk, shift: np.ndarray, cosine: bool) -> Seen:
    """The rows of a chunk; where ``cosine``, rows of zeros have no direction and no weight."""
    rows, n = chunk.rows, chunk.order.size
    factor, square, weight = np.ones(n), np.empty(n), chunk.weight[chunk.order]
    _squares(rows, chunk.order, shift.astype(rows.dtype), square)
    if cosine:
        some = square > 0.0
        factor[some] = 1.0 / np.sqrt(square[some])
        square = some.astype(np.float64)
        weight = weight * square
    return Seen(rows, chunk.order, weight, shift, factor, square)


def table(seen: Seen, centres: np.ndarray) -> Table:
    """``centres``, about the shift, for products with these rows."""
    precision = np.float64 if seen.rows.is_sparse else seen.rows.dtype
    centres = np.ascontiguousarray(centres, dtype=np.float64)
    columns = np.ascontiguousarray(centres.T, dtype=precision)
    return Table(centres, columns, np.sum(centres**2, axis=1), centres @ seen.shift)


# ---------------------------------------------------------------- products


@njit(cache=True, nogil=True)
def _squares(rows, order, shift, out):
    """The shift is that of dense rows, so that every feature is met; else it is zero."""
    for r in range(order.size):
        i = order[r]
        total = 0.0
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k) - shift[rows.column(i, k)]
            total += x * x
        out[r] = total


@njit(cache=True, nogil=True)
def _gather(rows, order, visits, factor, shift, out):
    one = out.dtype.type(1)
    for m in range(visits.size):
        i, scale = order[visits[m]], one * out.dtype.type(factor[visits[m]])
        for k in range(rows.start(i), rows.stop(i)):
            j = rows.column(i, k)
            out[m, j] = (rows.element(i, k) - shift[j]) * scale


@njit(cache=True, nogil=True)
def _sparse_products(rows, order, visits, factor, columns, out):
    for m in range(visits.size):
        r = visits[m]
        line = out[m]
        for c in range(line.size):
            line[c] = 0.0
        rows.dots(order[r], columns, line)
        for c in range(line.size):
            line[c] *= factor[r]


def room(seen: Seen, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Memory for a block of rows, where they must be gathered, and for its products."""
    precision = np.float64 if seen.rows.is_sparse else seen.rows.dtype
    width = 0 if seen.rows.is_sparse else seen.rows.shape[1]
    lines = min(BLOCK, max(seen.size, 1))
    return np.empty((lines, width), precision), np.empty((lines, clusters), precision)


def inner_products(seen: Seen, visits: np.ndarray, centres: Table, memory: Any) -> np.ndarray:
    """(visits, clusters): x . c; ``visits`` are at most BLOCK places in the order."""
    block, products = memory[0][: visits.size], memory[1][: visits.size]
    if seen.rows.is_sparse:
        _sparse_products(seen.rows, seen.order, visits, seen.factor, centres.columns, products)
        return products
    shift = seen.shift.astype(block.dtype)
    _gather(seen.rows, seen.order, visits, seen.factor, shift, block)
    return np.matmul(block, centres.columns, out=products)


def dense_rows(seen: Seen, visits: np.ndarray) -> np.ndarray:
    """(visits, features) in float64, as they are seen."""
    out = np.zeros((len(visits), seen.rows.shape[1]))
    _gather(seen.rows, seen.order, np.asarray(visits), seen.factor, seen.shift, out)
    return out


# ---------------------------------------------------------------- a pass


@njit(cache=True, nogil=True)
def _nearest(products, half, square, labels, distance):
    for m in range(products.shape[0]):
        best, where = half[0] - products[m, 0], 0
        for c in range(1, half.size):
            value = half[c] - products[m, c]
            if value < best:
                best, where = value, c
        labels[m] = where
        distance[m] = max(square[m] + 2.0 * best, 0.0)


def nearest(seen: Seen, centres: Table, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """For every visit the nearest centre, the first of several, and its squared distance."""
    labels, distance = np.empty(seen.size, np.int32), np.empty(seen.size)
    half = (0.5 * centres.square).astype(centres.columns.dtype)

    def find(part: slice) -> None:
        memory = room(seen, half.size)
        for block in blocks(part):
            visits = np.arange(block.start, block.stop)
            products = inner_products(seen, visits, centres, memory)
            _nearest(products, half, seen.square[block], labels[block], distance[block])

    in_segments(seen.size, find, threads)
    return labels, distance


@njit(cache=True, nogil=True)
def add_rows(rows, order, weight, factor, shift, labels, sums, counts):
    """Each row to the sum of its cluster."""
    for r in range(order.size):
        i, c = order[r], labels[r]
        share = weight[r] * factor[r]
        counts[c] += weight[r]
        for k in range(rows.start(i), rows.stop(i)):
            j = rows.column(i, k)
            sums[c, j] += share * (rows.element(i, k) - shift[j])


def sums_of(
    seen: Seen, labels: np.ndarray, clusters: int, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """(clusters, features) sums of the rows as they are seen, and the masses of the clusters."""
    shape = (clusters, seen.rows.shape[1])
    parts = segments(seen.size, shape)
    sums, counts = np.zeros((len(parts), *shape)), np.zeros((len(parts), clusters))

    def add(number: int) -> None:
        part = parts[number]
        add_rows(
            seen.rows, seen.order[part], seen.weight[part], seen.factor[part], seen.shift,
            labels[part], sums[number], counts[number],
        )  # fmt: skip

    each(add, len(parts), threads)
    return sums.sum(axis=0), counts.sum(axis=0)


@njit(cache=True, nogil=True)
def _own_squares(rows, order, factor, square, labels, centres, squares, offset, out):
    for r in range(order.size):
        c = labels[r]
        inner = factor[r] * (rows.dot(order[r], centres[c]) - offset[c])
        out[r] = max(square[r] - 2.0 * inner + squares[c], 0.0)


def own_squares(seen: Seen, labels: np.ndarray, centres: Table) -> np.ndarray:
    """Squared distance of every visit to the centre of its label, in double precision."""
    out = np.empty(seen.size)
    _own_squares(
        seen.rows, seen.order, seen.factor, seen.square, labels, centres.rows, centres.square,
        centres.offset, out,
    )  # fmt: skip
    return out


# ---------------------------------------------------------------- parts of a pass


def blocks(part: slice) -> Iterator[slice]:
    for start in range(part.start, part.stop, BLOCK):
        yield slice(start, min(start + BLOCK, part.stop))


def segments(n: int, shape: tuple[int, int]) -> list[slice]:
    """Parts of a pass with sums of their own: by the shape alone, so that threads change nothing.

    Their sums are added in their order.
    """
    most = max(1, _MOST_SUMS // max(shape[0] * shape[1], 1))
    number = max(1, min(_SEGMENTS, most, n // BLOCK))
    ends = np.linspace(0, n, number + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def in_segments(n: int, work: Callable[[slice], None], threads: int) -> None:
    """Work that has no sums."""
    parts = segments(n, (1, 1))
    each(lambda number: work(parts[number]), len(parts), threads)


def each(work: Callable[[int], None], number: int, threads: int) -> None:
    if threads == 1 or number == 1:
        for k in range(number):
            work(k)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(number)))
