"""A data set: a source, its schema, and its rows in chunks of a given number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from thresher.data.background import ahead
from thresher.data.batch import Batch, gathered
from thresher.data.encode import Encoder
from thresher.data.errors import BadRows, DataError
from thresher.data.moments import Moments
from thresher.data.schema import Schema
from thresher.data.source import Source, sample_rows
from thresher.data.spans import TallyAll, one_by_one

__all__ = ["CHUNK_BYTES", "DataSet", "Extent", "renumbered", "rows_in", "window_rows"]

CHUNK_BYTES = 64 << 20
_WINDOW_BYTES, _WINDOW_ROWS = 32 << 20, 1 << 17


class Extent(NamedTuple):
    """What one pass over all rows finds out."""

    rows: int
    moments: Moments
    class_counts: np.ndarray | None
    nonzeros: int


@dataclass
class DataSet:
    """Examples of a known schema, read anew on every iteration.

    Made by :func:`thresher.data.open_data`.

    Parameters
    ----------
    source : reader of one format
    schema : Schema
    bad : account of the rows that were left out
    chunk_bytes : int, default=64 MiB
        About how much memory a chunk takes.
    first : int, default=0
        The number of the first row, where this is a part of something larger.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import open_data
    >>> data = open_data(np.eye(3), [0, 1, 1])
    >>> data.n_rows, data.schema.n_features
    (3, 3)
    >>> data.scan().class_counts.tolist()
    [1, 2]
    """

    source: Source
    schema: Schema
    bad: BadRows
    chunk_bytes: int = CHUNK_BYTES
    first: int = 0

    @property
    def name(self) -> str:
        """What messages call it, a file's name or what kind of data it is."""
        return self.source.name

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known without reading them."""
        return self.source.n_rows

    @property
    def chunk_rows(self) -> int:
        """Rows in about ``chunk_bytes``."""
        return rows_in(self.chunk_bytes, self.schema.row_bytes)

    def __post_init__(self) -> None:
        self._stamps = self.source.stamps()
        self._spent = False

    def chunks(self, rows: int | None = None) -> Iterator[Batch]:
        """All rows, ``rows`` at a time (the last chunk may be shorter), parsed in a thread.

        ``bad`` counts the rows left out in the latest pass.
        """
        self.bad.count, self.bad.first = 0, []
        return self._batches(rows or self.chunk_rows, self.bad)

    def _batches(self, rows: int, bad: BadRows) -> Iterator[Batch]:
        # One chunk is in use and one in the making: threads need no more, and memory is dear.
        return ahead(self._numbered(rows, bad), depth=1)

    def _numbered(self, rows: int, bad: BadRows) -> Iterator[Batch]:
        first = self.first
        for batch in gathered(self._blocks(bad), rows):
            yield batch._replace(first=first, n_features=self.schema.n_features)
            first += batch.size

    def _blocks(self, bad: BadRows) -> Iterator[Batch]:
        if self._spent:
            raise DataError(f"{self.name} can be read only once")
        self._spent = not self.source.rereadable
        self._check_unchanged("since it was opened")
        yield from self.source.blocks(Encoder(self.schema, bad))
        self._check_unchanged("while it was read")

    def _check_unchanged(self, when: str) -> None:
        if self.source.stamps() != self._stamps:
            raise DataError(f"{self.name} has changed {when}: start again")

    def shards(self, n: int, tally_all: TallyAll = one_by_one) -> list[DataSet]:
        """At most ``n`` data sets of consecutive rows that together are this one.

        They can be sent to other processes, which read their rows themselves.  Where text has blank
        lines or bad rows the numbers of the first rows are too large: whoever has read a shard
        knows (:func:`renumbered`).
        """
        parts = self.source.anchored().parts(n, tally_all)
        shards = [replace(self, source=part.source, bad=BadRows(self.bad.policy)) for part in parts]
        return renumbered(shards, [part.rows for part in parts])

    @cached_property
    def sample(self) -> Batch:
        """The first rows, as many as the schema is read from, whatever the format."""
        width = max(1, self.schema.row_bytes // 8)
        return self.head(sample_rows(width))

    def head(self, rows: int) -> Batch:
        """The first rows."""
        if not self.source.rereadable:
            raise DataError(f"{self.name} can be read only once")
        bad = BadRows(self.bad.policy)
        with closing(self._numbered(rows, bad)) as chunks:  # type: ignore[type-var]
            found = next(chunks, None)
        if found is None:
            raise DataError(f"{self.name} has no usable rows ({bad})")
        return found

    def scan(
        self,
        on_rows: Callable[[int], None] | None = None,
        visit: Callable[[Batch], None] | None = None,
    ) -> Extent:
        """Count rows and classes and learn every feature's mean and variance, in one pass.

        ``on_rows`` hears of the rows so far; ``visit`` is shown every batch.
        """
        target = self.schema.target
        counts = np.zeros(len(target.classes), np.int64) if target and target.classes else None
        moments, rows, nonzeros = Moments.empty(self.schema.n_features), 0, 0
        for batch in self.chunks():
            moments = moments.updated(batch.rows, batch.weight)
            rows += batch.size
            nonzeros += batch.rows.stored
            if counts is not None and batch.y is not None:
                counts += np.bincount(batch.codes, minlength=counts.size)
            if visit is not None:
                visit(batch)
            if on_rows is not None:
                on_rows(rows)
        return Extent(rows, moments, counts, nonzeros)


def renumbered(shards: Sequence[DataSet], rows: Sequence[int]) -> list[DataSet]:
    """Shards that have so many rows each."""
    firsts = np.cumsum([0, *rows])
    return [replace(s, first=int(first)) for s, first in zip(shards, firsts, strict=False)]


def rows_in(size: int, row_bytes: int) -> int:
    """A power of two of rows that take at most ``size`` bytes (at least 64)."""
    rows = max(64, size // max(row_bytes, 1))
    return int(1 << (int(rows).bit_length() - 1))


def window_rows(row_bytes: int) -> int:
    """Rows that are shuffled together and learned from at a time; only the schema decides."""
    return min(rows_in(_WINDOW_BYTES, row_bytes), _WINDOW_ROWS)
