"""Rows beyond memory: each is placed beside the ordered row that it is most like.

Of a table that does not fit, every so-manieth row is kept and ordered.  The others are read once
more, block by block, and placed: a cell of the map then shows what a row and those beside it
have in common (the mean code, or the category that holds the majority), and at its most unusual
what is farthest from that.  Memory is that of the ordered rows, and four bytes for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from thresher.views.explorer.codes import MISSING, CodedColumn
from thresher.views.explorer.orders import RowOrder

__all__ = ["Crowd", "place_beside"]

_MIDDLE = 127


class Crowd(NamedTuple):
    """The columns as they are shown, and for each row of the file the ordered row it is beside."""

    columns: list[CodedColumn]
    owner: np.ndarray


def place_beside(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[CodedColumn],
    rows: RowOrder,
    stride: int,
    n_rows: int,
    say: Callable[[str], object] = lambda line: None,
) -> Crowd:
    """Place all rows but every ``stride``-th, which are ordered already."""
    if rows.places is None:
        raise ValueError("rows can be placed only where the order was found here")
    owner = np.arange(n_rows, dtype=np.int64) // stride
    owner = owner.astype(np.int32 if rows.order.size < 2**31 else np.int64)
    tallies = [_Tally(column) for column in columns]
    first = told = 0
    for batch in batches:
        table = pa.Table.from_batches([batch])
        others = np.flatnonzero(np.arange(first, first + len(table)) % stride)
        codes = [c.same_codes(table[c.name])[others] for c in columns]
        if others.size:
            places = np.rint(rows.places(codes)).astype(np.int64)
            beside = rows.order[np.clip(places, 0, rows.order.size - 1)]
            owner[first + others] = beside
            for tally, cells in zip(tallies, codes, strict=True):
                tally.add(beside, cells)
        first += len(table)
        if first - told >= 1_000_000:
            told = first
            say(f"placing rows: {first:,} of {n_rows:,}")
    return Crowd([tally.column() for tally in tallies], owner)


class _Tally:
    """What the rows beside each ordered row have in common, so far."""

    def __init__(self, column: CodedColumn):
        self.start = column
        self.unusual = column.codes.copy()
        known = column.codes != MISSING
        if column.is_category:
            self.favourite, self.lead = column.codes.copy(), np.ones(known.size, np.uint32)
        else:
            self.sums = np.where(known, column.codes, 0).astype(np.uint32)
            self.known, self.size = known.astype(np.uint32), np.ones(known.size, np.uint32)

    def add(self, beside: np.ndarray, codes: np.ndarray) -> None:
        if self.start.is_category:
            _vote(beside, codes, self.favourite, self.lead, self.unusual)
        else:
            _add(beside, codes, self.sums, self.known, self.size, self.unusual)

    def column(self) -> CodedColumn:
        if self.start.is_category:
            codes = self.favourite
        else:
            mean = (2 * self.sums + self.known) // np.maximum(2 * self.known, 1)
            codes = np.where(2 * self.known < self.size, MISSING, mean).astype(np.uint8)
        unusual = np.where(codes == MISSING, np.uint8(MISSING), self.unusual)
        return replace(self.start, codes=codes, unusual=unusual)


@njit(cache=True, nogil=True)
def _add(beside, codes, sums, known, size, unusual):
    for r in range(beside.size):
        i, c = beside[r], codes[r]
        size[i] += 1
        if c == MISSING:
            continue
        sums[i] += c
        known[i] += 1
        old = unusual[i]
        if old == MISSING or abs(int(c) - _MIDDLE) > abs(int(old) - _MIDDLE):
            unusual[i] = c


@njit(cache=True, nogil=True)
def _vote(beside, codes, favourite, lead, unusual):
    """Boyer and Moore's vote: whoever has the majority is the favourite in the end."""
    for r in range(beside.size):
        i, c = beside[r], codes[r]
        if c == favourite[i]:
            lead[i] += 1
        elif lead[i] == 0:
            favourite[i], lead[i] = c, 1
        else:
            lead[i] -= 1
        if c != MISSING and (unusual[i] == MISSING or c > unusual[i]):
            unusual[i] = c
