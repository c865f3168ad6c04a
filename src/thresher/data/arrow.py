"""Parquet and Arrow files, and data frames in memory (pandas, polars, Arrow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from thresher.data.arrow_cells import needed_columns, raw_table
from thresher.data.batch import Batch
from thresher.data.encode import Encoder, Origin
from thresher.data.errors import DataError
from thresher.data.files import BLOCK_BYTES, open_remote
from thresher.data.infer import Wishes, infer_table
from thresher.data.pipes import local
from thresher.data.schema import Schema
from thresher.data.source import Files, Table

__all__ = ["ArrowSource", "ParquetSource", "TableSource"]

_BROKEN = (pa.ArrowException, OSError)
_DECODED_TOGETHER = 4  # blocks of a Parquet file


class _Columnar(Table):
    """Record batches with named columns; rows are counted from 1 in messages."""

    block_bytes: int

    def batches(self, columns: list[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        raise NotImplementedError

    def infer(self, wishes: Wishes) -> Schema:
        wanted = self.wanted_rows(wishes)
        found: list[pa.Table] = []
        for _, batch in self.batches(self.names):
            found.append(pa.Table.from_batches([batch]))
            if sum(b.num_rows for b in found) >= wanted:
                break
        if not found:
            raise DataError(f"{self.name} has columns but no rows")
        try:
            sample = pa.concat_tables(found, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"{self.name}: columns differ in type: {error}") from None
        return infer_table(sample.slice(0, wanted), wishes, self.name)

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        columns = needed_columns(encoder.schema, self.names, self.name)
        return self.parsed(self._placed(columns), _encoded, encoder)

    def _placed(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, Origin]]:
        """Batches with the place of their rows in the file."""
        row, last = 1, None
        for file, batch in self.batches(columns):
            row = row if file == last else 1
            yield batch, Origin(file, _counted_from(row), unit="row")
            row, last = row + batch.num_rows, file

    def _batch_rows(self) -> int:
        return max(16, self.block_bytes // (8 * max(len(self.names), 1)))

    def _checked_names(self, names: list[str]) -> list[str]:
        name, times = Counter(names).most_common(1)[0] if names else ("", 0)
        if times > 1:
            raise DataError(f"{self.name} has {times} columns named {name!r}")
        return names


def _encoded(piece: tuple[pa.RecordBatch, Origin], encoder: Encoder) -> list[Batch]:
    batch, origin = piece
    return [encoder.encode(raw_table(batch, encoder.schema, encoder.bad, origin))]


def _counted_from(first: int) -> Callable[[int], int]:
    return lambda i: first + i


@dataclass
class TableSource(_Columnar):
    """A data frame in memory, of any library that narwhals knows."""

    frame: Any
    block_bytes: int = BLOCK_BYTES
    name: str = "the data frame"

    def __post_init__(self) -> None:
        import narwhals.stable.v2 as nw

        try:
            native = isinstance(self.frame, pa.Table)
            self.table = self.frame if native else nw.from_native(self.frame).to_arrow()
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(f"{self.name} cannot be read: {error}") from None
        self.names = self._checked_names(self.table.column_names)

    @property
    def n_rows(self) -> int | None:
        return int(self.table.num_rows)

    def batches(self, columns: list[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        table = self.table.select(columns)
        for batch in table.to_batches(max_chunksize=self._batch_rows()):
            yield self.name, batch


@dataclass
class _TableFiles(Files, _Columnar):
    """One or several files with the same columns, in any order."""

    paths: list[str]
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        self.find_files()
        if not self.rereadable:
            raise DataError("standard input can be delimited or svmlight text only")
        with self._open(self.paths[0]) as file:
            self.names = self._checked_names(_columns(file))

    def batches(self, columns: list[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for path in self.paths:
            with self._open(path) as file:
                missing = set(columns) - set(_columns(file))
                if missing:
                    raise DataError(f"{path} has no column {min(missing)!r}, {self.paths[0]} has")
                batches = self._batches_of(file, columns)
                while (batch := _next(batches, path)) is not None:
                    yield path, batch.select(columns)

    def _open(self, path: str) -> Any:
        try:
            return self._reader(open_remote(path) if "://" in path else local(path))
        except _BROKEN as error:
            raise DataError(f"{path} is not a readable {self.kind} file: {error}") from None

    kind: ClassVar[str]

    def _reader(self, file: Any) -> Any:
        raise NotImplementedError

    def _batches_of(self, file: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def _columns(file: Any) -> list[str]:
    return list((file.schema_arrow if hasattr(file, "schema_arrow") else file.schema).names)


def _next(batches: Iterator[pa.RecordBatch], path: str) -> pa.RecordBatch | None:
    try:
        return next(batches, None)
    except _BROKEN as error:
        raise DataError(f"{path} is damaged: {error}") from None


class ParquetSource(_TableFiles):
    """Parquet files."""

    kind = "Parquet"

    @property
    def n_rows(self) -> int | None:
        total = 0
        for path in self.paths:
            with self._open(path) as file:
                total += file.metadata.num_rows
        return total

    def _reader(self, file: Any) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(file)

    def _batches_of(self, file: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        # Which rows share a batch leaves no trace.  Columns are decoded in threads, and every one
        # costs a batch some time whatever its length: fewer and larger batches than of text.
        rows = _DECODED_TOGETHER * self._batch_rows()
        return file.iter_batches(batch_size=rows, columns=columns, use_threads=True)


class ArrowSource(_TableFiles):
    """Arrow IPC files: Feather, or the streaming format."""

    kind = "Arrow"

    def _reader(self, file: Any) -> Any:
        stream = pa.memory_map(file) if isinstance(file, str) else pa.PythonFile(file, "r")
        try:
            return pa.ipc.open_file(stream)
        except pa.ArrowInvalid:
            stream.seek(0)
            return pa.ipc.open_stream(stream)

    def _batches_of(self, file: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        random = hasattr(file, "num_record_batches")
        whole = map(file.get_batch, range(file.num_record_batches)) if random else file
        for batch in whole:
            for start in range(0, batch.num_rows, self._batch_rows()):
                yield batch.slice(start, self._batch_rows())
