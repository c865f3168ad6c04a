r"""Most rows keep their centre, and bounds on distances tell which without looking at them.

After a centre has moved by delta, no distance to it has changed by more.  A row keeps *upper*, a
bound from above on the distance to its own centre, and *lower*, one from below on those to the
other centres of each group; both are loosened by what the centres have moved.  While upper is below
every lower bound, or below half the distance from its centre to the nearest other one, the row
stays where it is.  With one group this is Hamerly's algorithm (2010), with a group for each centre
nearly Elkan's (2003), in between Yinyang's (Ding et al., 2015).  Rows in doubt are compared with
all centres, a block of them at a time.

The bounds are widened by the rounding of the products, so that a pass gives the labels that looking
at all rows would give, up to ties within that rounding.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from thresher.solvers._nearest import (
    Seen,
    Table,
    blocks,
    each,
    inner_products,
    room,
    segments,
)

__all__ = ["Bounds", "fresh_bounds", "move_rows"]

_ALL_APART = 10  # clusters up to which each is a group of its own
_PER_GROUP, _MOST_GROUPS = 8, 16


class Bounds(NamedTuple):
    """What is known of rows in memory, one line per visit."""

    seen: Seen
    labels: np.ndarray
    upper: np.ndarray
    lower: np.ndarray  # (visits, groups)
    group: np.ndarray  # of each centre
    centres: np.ndarray  # that the bounds are about


class _Moved(NamedTuple):
    """How far centres have moved, and how far they lie apart."""

    own: np.ndarray
    group: np.ndarray
    half_gap: np.ndarray


def fresh_bounds(seen: Seen, centres: np.ndarray) -> Bounds:
    """Nothing is known yet: the first pass looks at every row."""
    group = _groups(centres)
    lower = np.full((seen.size, int(group.max()) + 1), -np.inf, seen.rows.dtype)
    upper = np.full(seen.size, np.inf, seen.rows.dtype)
    return Bounds(seen, np.full(seen.size, -1, np.int32), upper, lower, group, centres)


def _groups(centres: np.ndarray) -> np.ndarray:
    """Neighbouring centres share a bound: they tend to move together."""
    k = centres.shape[0]
    if k <= _ALL_APART:
        return np.arange(k)
    number = min(_MOST_GROUPS, math.ceil(k / _PER_GROUP))
    heads = centres[np.linspace(0, k - 1, number).astype(int)]
    for _ in range(5):
        distance = np.sum(heads**2, axis=1) - 2.0 * (centres @ heads.T)
        group = distance.argmin(axis=1)
        members = [group == g for g in range(number)]
        heads = np.array(
            [centres[m].mean(axis=0) if m.any() else h for m, h in zip(members, heads, strict=True)]
        )
    return np.unique(group, return_inverse=True)[1]


def move_rows(
    bounds: Bounds, centres: Table, sums: np.ndarray, counts: np.ndarray, threads: int = 1
) -> Bounds:
    """Every row to its nearest centre; ``sums`` and ``counts`` follow, in place."""
    seen, shape = bounds.seen, sums.shape
    moved = _moved(bounds, centres.rows)
    parts = segments(seen.size, shape)
    changes, masses = np.zeros((len(parts), *shape)), np.zeros((len(parts), shape[0]))

    def work(number: int) -> None:
        _pass(bounds, centres, moved, parts[number], changes[number], masses[number])

    each(work, len(parts), threads)
    sums += changes.sum(axis=0)
    counts += masses.sum(axis=0)
    np.maximum(counts, 0.0, out=counts)
    return bounds._replace(centres=centres.rows)


def _moved(bounds: Bounds, centres: np.ndarray) -> _Moved:
    own = np.sqrt(np.sum((centres - bounds.centres) ** 2, axis=1))
    group = np.zeros(bounds.lower.shape[1])
    np.maximum.at(group, bounds.group, own)
    squares = np.sum(centres**2, axis=1)
    gaps = squares[:, None] + squares - 2.0 * (centres @ centres.T)
    np.fill_diagonal(gaps, np.inf)
    rounding = 8.0 * np.finfo(np.float64).eps * (squares + squares.max())
    return _Moved(own, group, 0.5 * np.sqrt(np.maximum(gaps.min(axis=1) - rounding, 0.0)))


def _pass(
    bounds: Bounds, centres: Table, moved: _Moved, part: slice, sums: np.ndarray, counts: np.ndarray
) -> None:
    seen, memory = bounds.seen, room(bounds.seen, centres.square.size)
    half = (0.5 * centres.square).astype(centres.columns.dtype)
    for block in blocks(part):
        visits = np.empty(block.stop - block.start, np.int64)
        size = _doubtful(
            seen.rows, seen.order, seen.factor, seen.square, *bounds[1:4], *moved, centres.rows,
            centres.square, centres.offset, block.start, visits,
        )  # fmt: skip
        if not size:
            continue
        visits = visits[:size]
        products = inner_products(seen, visits, centres, memory)
        _choose(
            seen.rows, seen.order, seen.weight, seen.factor, seen.shift, seen.square, visits,
            products, half, centres.rounding, *bounds[1:5], sums, counts,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _doubtful(
    rows, order, factor, square, labels, upper, lower, moved, group_moved, half_gap, centres,
    squares, offset, first, visits,
):  # fmt: skip
    """Loosen the bounds of some visits, and write down those that may have another centre."""
    wider, tiny, found = 1.0 + 1e-6, 1e-15, 0
    if upper.itemsize == 8:
        wider = 1.0 + 1e-14
    for r in range(first, first + visits.size):
        c = labels[r]
        if c < 0:  # not looked at yet
            visits[found] = r
            found += 1
            continue
        least = np.inf
        for g in range(lower.shape[1]):
            if lower[r, g] == np.inf:  # nobody else is in this group
                continue
            bound = lower[r, g] - group_moved[g] * wider
            bound -= abs(bound) * (wider - 1.0)
            lower[r, g] = bound
            least = min(least, bound)
        above, least = (upper[r] + moved[c]) * wider, max(least, half_gap[c])
        if above > least:
            inner = factor[r] * (rows.dot(order[r], centres[c]) - offset[c])
            value = square[r] - 2.0 * inner + squares[c]
            above = math.sqrt(max(value + tiny * (square[r] + squares[c]), 0.0)) * wider
            if above > least:
                visits[found] = r
                found += 1
        upper[r] = above
    return found


@njit(cache=True, nogil=True)
def _choose(
    rows, order, weight, factor, shift, square, visits, products, half, rounding, labels, upper,
    lower, group, sums, counts,
):  # fmt: skip
    """The nearest centre of each visit, fresh bounds, and rows that go over to another sum."""
    for m in range(visits.size):
        r, line = visits[m], products[m]
        best, where = half[0] - line[0], 0
        for c in range(1, half.size):
            value = half[c] - line[c]
            if value < best:
                best, where = value, c
        for g in range(lower.shape[1]):
            lower[r, g] = np.inf
        for c in range(half.size):
            g = group[c]
            value = half[c] - line[c]
            if c != where and value < lower[r, g]:
                lower[r, g] = value
        for g in range(lower.shape[1]):
            if lower[r, g] < np.inf:
                value = square[r] + 2.0 * lower[r, g]
                value -= rounding * (2.0 * square[r] + abs(value))
                lower[r, g] = math.sqrt(max(value, 0.0))
        value = max(square[r] + 2.0 * best, 0.0)
        upper[r] = math.sqrt(value + rounding * (2.0 * square[r] + value))
        before = labels[r]
        if before != where:
            labels[r] = where
            i = order[r]
            counts[where] += weight[r]
            share = weight[r] * factor[r]
            if before >= 0:
                counts[before] -= weight[r]
            for k in range(rows.start(i), rows.stop(i)):
                j = rows.column(i, k)
                amount = share * (rows.element(i, k) - shift[j])
                sums[where, j] += amount
                if before >= 0:
                    sums[before, j] -= amount
