"""Rows that a stream has lately met, a uniform sample, for what is said of a fit on its own rows.

Who calls ``partial_fit`` never hands over all rows at once.  So the model is judged when
``_ENOUGH`` rows have been met and whenever they have doubled, on a reservoir of those since the
time before: a stream that changes is judged by what it is now, and one whose rows are sorted not by
the last of them.  Before, from ``_FIRST`` rows on, a stream has only begun: it is held against the
constant alone, on all of its rows.  How many rows are passed over is drawn at once (Li, 1994,
algorithm L): a row costs its copy if it is kept, and nothing otherwise.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from thresher._rows import as_rows
from thresher.solvers import Chunk, Status, driver

__all__ = ["MetRows"]

_FIRST, _ENOUGH = 20, 100  # fewer say nothing, and little
_MOST, _MOST_ENTRIES = 1000, 1_000_000  # rows, and numbers in them, that are kept


class MetRows:
    """The sample, and what was last said of the model."""

    def __init__(self) -> None:
        self.count, self.next = 0, _FIRST
        self.status = Status.COMPLETED
        self._begin()

    def _begin(self) -> None:
        self.met = 0  # of this part of the stream
        self.kept: list[tuple[Any, float, float]] = []  # row, target and weight
        self.draws, self.share = Random(self.count), 1.0
        self.following = 0  # the place of the next row that is kept

    def meet(self, rows: Any, targets: np.ndarray, weight: np.ndarray | None) -> None:
        """Raw rows with coded targets; those of weight zero do not count."""
        counted = None if weight is None else np.flatnonzero(weight)
        size = targets.size if counted is None else counted.size
        if self.met == 0:
            per_row = max(rows.stored // max(rows.shape[0], 1), 1)
            self.most = min(_MOST, max(_ENOUGH, _MOST_ENTRIES // per_row))
        while self.following < self.met + size:
            k = self.following - self.met
            i = k if counted is None else counted[k]
            self._keep((_copy(rows, i), targets[i], 1.0 if weight is None else weight[i]))
        self.met += size
        self.count += size
        self.features = rows.shape[1]

    def _keep(self, row: tuple[Any, float, float]) -> None:
        """In the place of another, if there are enough; and how many rows are then passed over."""
        full = len(self.kept) == self.most
        place = int(self.most * self.draws.random()) if full else len(self.kept)
        self.kept[place : place + 1] = [row]
        self.following += 1
        if len(self.kept) == self.most:
            one, two = (self.draws.uniform(1e-12, 1.0 - 1e-12) for _ in range(2))
            self.share *= one ** (1.0 / self.most)
            self.following += int(math.log(two) / math.log1p(-self.share))

    @property
    def is_due(self) -> bool:
        """Whether it is time to judge."""
        return self.count >= self.next

    @property
    def has_begun_only(self) -> bool:
        """Whether so few rows have been met that more than the constant is not asked of it."""
        return self.count < _ENOUGH

    def taken(self) -> Chunk:
        """The sample; another one begins, once the stream has."""
        found, targets, weight = zip(*self.kept, strict=True)
        self.next = 2 * self.count
        if self.has_begun_only:
            self.next = min(self.next, _ENOUGH)
        else:
            self._begin()
        return driver.whole(as_rows(self._matrix(found)), np.array(targets), np.array(weight))

    def _matrix(self, found: Any) -> Any:
        if isinstance(found[0], np.ndarray):
            return np.stack(found)
        ends = np.cumsum([0, *(values.size for values, _ in found)])
        values, columns = (np.concatenate(part) for part in zip(*found, strict=True))
        return csr_matrix((values, columns, ends), shape=(len(found), self.features))


def _copy(rows: Any, i: int) -> Any:
    if not rows.is_sparse:
        return rows.X[i].copy()
    part = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return rows.data[part].copy(), rows.indices[part].astype(np.int64)
