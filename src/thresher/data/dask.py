"""Dask's data frames and arrays, partition by partition, where they are.

A piece is a partition: here a delayed value; once workers learn from it, a future of theirs, so
that a task that needs it goes to whoever has it; on a worker the frame or the arrays themselves.
Nothing is brought together.  A partition that is lost with its worker is computed again by Dask.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from thresher.data.arrow import TableSource
from thresher.data.batch import Batch
from thresher.data.encode import Encoder
from thresher.data.errors import DataError
from thresher.data.files import BLOCK_BYTES
from thresher.data.matrix import MatrixSource
from thresher.data.schema import Schema
from thresher.data.source import Part, Source, sample_rows
from thresher.data.spans import TallyAll, shares
from thresher.data.wishes import Wishes

__all__ = ["CollectionSource", "collection_source", "is_collection"]


class Piece(NamedTuple):
    """A partition: its number, and a frame or (X, y, weight), now or later."""

    number: int
    value: Any


@dataclass
class CollectionSource(Source):
    """Partitions of a data frame, or of a matrix with its targets and weights."""

    pieces: list[Piece]
    table: bool
    block_bytes: int = BLOCK_BYTES
    name: str = "the Dask collection"

    @property
    def is_table(self) -> bool:
        return self.table

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def usual_parts(self) -> int | None:
        return len(self.pieces)

    def infer(self, wishes: Wishes) -> Schema:
        """By the first partitions."""
        values, rows = [], 0
        for piece in self.pieces:
            values.append(_here(piece.value))
            rows += _rows(values[-1])
            if rows >= sample_rows(1):
                break
        if not rows:
            raise DataError(f"{self.name} has no rows")
        return self._source(_joined(values, self.table), self.name).infer(wishes)

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        for piece in self.pieces:
            value = _here(piece.value)
            if _rows(value):
                name = f"{self.name}, partition {piece.number}"
                yield from self._source(value, name).blocks(encoder)

    def _source(self, value: Any, name: str) -> Source:
        if self.table:
            return TableSource(value, self.block_bytes, name)
        X, y, weight = value
        return MatrixSource(X, y, weight, self.block_bytes, name)

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        """Whole partitions; the workers of the current client begin to compute and keep them."""
        pieces, rows = _held(self.pieces)
        return [
            Part(replace(self, pieces=pieces[run]), sum(rows[run]))
            for run in shares(np.maximum(rows, 1), n)
        ]


def is_collection(data: Any) -> bool:
    """Whether this is one of Dask's; without Dask nothing is."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(data))


def collection_source(data: Any, y: Any, weight: Any, block_bytes: int) -> CollectionSource:
    """The source of a data frame, or of an array with targets and weights."""
    if not _is_array(data):
        if y is not None or not (weight is None or isinstance(weight, str)):
            raise ValueError("y and weights go with a matrix; a data frame's are named columns")
        try:
            delayed = data.to_frame().to_delayed() if data.ndim == 1 else data.to_delayed()
        except AttributeError:
            raise TypeError(
                f"Dask's data frames and arrays can be learned from, not {type(data).__name__}"
            ) from None
        return CollectionSource(_numbered(delayed), True, block_bytes, "the Dask data frame")
    if isinstance(weight, str):
        raise ValueError("weight names a column of a table; a matrix takes an array of weights")
    return CollectionSource(
        _numbered(_rows_together(data, y, weight)), False, block_bytes, "the Dask array"
    )


def _is_array(data: Any) -> bool:
    array = sys.modules.get("dask.array")
    return array is not None and isinstance(data, array.Array)


def _numbered(values: Any) -> list[Piece]:
    return [Piece(k, value) for k, value in enumerate(values)]


def _rows_together(X: Any, *others: Any) -> list[Any]:
    """Delayed (X, y, weight) of the blocks of rows."""
    from dask.delayed import delayed

    if X.ndim != 2:
        raise DataError(f"the Dask array has {X.ndim} dimensions: rows of features are expected")
    X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    blocks = [X.to_delayed().ravel(), *(_like(X, other) for other in others)]
    return [delayed(tuple)(list(parts)) for parts in zip(*blocks, strict=True)]


def _like(X: Any, values: Any) -> list[Any]:
    """Targets or weights in the blocks that the rows have."""
    import dask.array as da

    if values is None:
        return [None] * X.numblocks[0]
    if not _is_array(values):
        whole = is_collection(values)
        values = values.to_dask_array() if whole else da.from_array(np.asarray(values))
    known = not np.isnan([*X.chunks[0], *values.chunks[0]]).any()
    if known and sum(values.chunks[0]) != X.shape[0]:
        raise DataError(f"there are {X.shape[0]} rows, but {values.shape[0]} targets or weights")
    if known:
        values = values.rechunk((X.chunks[0],))
    elif values.numblocks[0] != X.numblocks[0]:
        raise DataError("rows and targets or weights must be cut into the same partitions")
    return list(values.to_delayed().ravel())


def _here(value: Any) -> Any:
    """A partition in this process."""
    if is_collection(value):
        return value.compute()
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(value, distributed.Future):
        return value.result()
    return value


def _held(pieces: list[Piece]) -> tuple[list[Piece], list[int]]:
    """The pieces as futures of the current client, where there is one, and how many rows each."""
    client = _client()
    if client is None:
        return pieces, [_rows(_here(piece.value)) for piece in pieces]
    futures = client.compute([piece.value for piece in pieces])
    rows = client.gather(client.map(_rows, futures, pure=False))
    return [
        piece._replace(value=future) for piece, future in zip(pieces, futures, strict=True)
    ], rows


def _client() -> Any:
    try:
        from distributed import default_client

        return default_client()
    except (ModuleNotFoundError, ValueError):
        return None


def _rows(value: Any) -> int:
    return int((value[0] if isinstance(value, tuple) else value).shape[0])


def _joined(values: list[Any], table: bool) -> Any:
    if len(values) == 1:
        return values[0]
    if table:
        import pandas as pd

        return pd.concat(values)
    return tuple(
        None if parts[0] is None else _stacked(parts) for parts in zip(*values, strict=True)
    )


def _stacked(parts: Any) -> Any:
    from scipy import sparse

    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, "csr")
    return np.concatenate(parts)
