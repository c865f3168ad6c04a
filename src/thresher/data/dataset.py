"""A data set: a source, its schema, and its rows in chunks of a given number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from thresher._rows import Rows
from thresher.data.background import ahead
from thresher.data.encode import Block, Encoder, Sparse
from thresher.data.errors import BadRows, DataError
from thresher.data.moments import Moments
from thresher.data.schema import Schema
from thresher.data.source import Source, sample_rows

__all__ = ["CHUNK_BYTES", "Batch", "DataSet", "Extent", "gathered", "rows_in", "window_rows"]

CHUNK_BYTES = 64 << 20
_WINDOW_BYTES, _WINDOW_ROWS = 32 << 20, 1 << 17


class Batch(NamedTuple):
    """Some consecutive rows of a data set.

    Parameters
    ----------
    rows : dense or CSR rows, as the solvers take them
    y : array or None
        Targets: numbers, or the codes of classes.
    weight : array or None
        None: every row counts once.
    first : int
        Number of the first row, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import open_data
    >>> batch = open_data(np.eye(3), [0.5, 1.5, 2.5]).head(2)
    >>> batch.size, batch.rows.shape, batch.y.tolist(), batch.first
    (2, (2, 3), [0.5, 1.5], 0)
    """

    rows: Rows
    y: np.ndarray | None
    weight: np.ndarray | None
    first: int

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]


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
        first = 0
        # One chunk is in use and one in the making: threads need no more, and memory is dear.
        for block in ahead(gathered(self._blocks(bad), rows), depth=1):
            yield Batch(block.rows(self.schema.n_features), block.y, block.weight, first)
            first += block.size

    def _blocks(self, bad: BadRows) -> Iterator[Block]:
        if self._spent:
            raise DataError(f"{self.name} can be read only once")
        self._spent = not self.source.rereadable
        self._check_unchanged("since it was opened")
        yield from self.source.blocks(Encoder(self.schema, bad))
        self._check_unchanged("while it was read")

    def _check_unchanged(self, when: str) -> None:
        if self.source.stamps() != self._stamps:
            raise DataError(f"{self.name} has changed {when}: start again")

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
        with closing(self._batches(rows, bad)) as chunks:  # type: ignore[type-var]
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
                counts += np.bincount(batch.y.astype(np.int64), minlength=counts.size)
            if visit is not None:
                visit(batch)
            if on_rows is not None:
                on_rows(rows)
        return Extent(rows, moments, counts, nonzeros)


def rows_in(size: int, row_bytes: int) -> int:
    """A power of two of rows that take at most ``size`` bytes (at least 64)."""
    rows = max(64, size // max(row_bytes, 1))
    return int(1 << (int(rows).bit_length() - 1))


def window_rows(row_bytes: int) -> int:
    """Rows that are shuffled together and learned from at a time; only the schema decides."""
    return min(rows_in(_WINDOW_BYTES, row_bytes), _WINDOW_ROWS)


def gathered(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """The same rows in blocks of exactly ``rows`` (but for the last)."""
    parts: list[Block] = []
    size = 0
    for block in blocks:
        start = 0
        while block.size - start:
            take = min(rows - size, block.size - start)
            parts.append(_part(block, start, start + take))
            size, start = size + take, start + take
            if size == rows:
                yield _joined(parts)
                parts, size = [], 0
    if parts:
        yield _joined(parts)


def _part(block: Block, start: int, stop: int) -> Block:
    if start == 0 and stop == block.size:
        return block
    y = None if block.y is None else block.y[start:stop]
    weight = None if block.weight is None else block.weight[start:stop]
    if not isinstance(block.matrix, Sparse):
        return Block(block.matrix[start:stop], y, weight)
    data, indices, indptr = block.matrix
    low, high = indptr[start], indptr[stop]
    return Block(
        Sparse(data[low:high], indices[low:high], indptr[start : stop + 1] - low), y, weight
    )


def _joined(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    y = None if parts[0].y is None else np.concatenate([p.y for p in parts if p.y is not None])
    weight = None
    if parts[0].weight is not None:
        weight = np.concatenate([p.weight for p in parts if p.weight is not None])
    return Block(_stacked([p.matrix for p in parts]), y, weight)


def _stacked(matrices: list[Any]) -> np.ndarray | Sparse:
    if not isinstance(matrices[0], Sparse):
        return np.concatenate(matrices)
    starts = np.cumsum([0, *(m.data.size for m in matrices)])
    if starts[-1] >= 2**31:
        raise DataError("over two billion non-zeros in one chunk: ask for smaller chunks")
    pointers = [m.indptr[1:] + np.int32(s) for m, s in zip(matrices, starts, strict=False)]
    return Sparse(
        np.concatenate([m.data for m in matrices]),
        np.concatenate([m.indices for m in matrices]),
        np.concatenate([np.zeros(1, np.int32), *pointers]),
    )
