"""A table in memory, or as many of its rows as may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from thresher.data.errors import DataError

__all__ = ["Read", "read_table"]


class Read(NamedTuple):
    """Every ``stride``-th row of a table of ``n_rows`` rows, from the first on."""

    table: pa.Table
    stride: int
    n_rows: int


def read_table(batches: Iterable[pa.RecordBatch], memory: int) -> Read:
    """All rows, or every second, fourth, ... so that they take at most ``memory`` bytes."""
    parts: list[pa.Table] = []
    kept, stride, n_rows, size = 0, 1, 0, 0
    for batch in batches:
        part = _every(_copied(batch), -n_rows % stride, stride)
        n_rows += batch.num_rows
        parts.append(part)
        kept, size = kept + part.num_rows, size + part.nbytes
        while size > memory and kept > 1:
            parts = [_every(_joined(parts), 0, 2)]
            stride, kept, size = 2 * stride, parts[0].num_rows, parts[0].nbytes
    if not kept:
        raise DataError("the data has no rows to look at")
    pa.default_memory_pool().release_unused()
    return Read(_joined(parts), stride, n_rows)


def _copied(batch: pa.RecordBatch) -> pa.Table:
    """The batch in memory of its own.

    Where a reader allocates and frees buffers, those that are kept leave holes: together they take
    as much memory as the table.
    """
    half = batch.num_rows // 2
    if not half:
        return pa.Table.from_batches([batch])
    halves = pa.Table.from_batches([batch[:half], batch[half:]])  # a single chunk is never copied
    return halves.combine_chunks(memory_pool=pa.system_memory_pool())


def _every(table: pa.Table, first: int, stride: int) -> pa.Table:
    if stride == 1:
        return table
    return table.take(pa.array(range(first, table.num_rows, stride), pa.int64()))


def _joined(parts: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive")
