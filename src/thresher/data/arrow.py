"""Parquet and Arrow files, and data frames in memory (pandas, polars, Arrow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from thresher.data.arrow_cells import needed_columns, raw_table
from thresher.data.batch import Batch
from thresher.data.encode import Encoder, Origin
from thresher.data.errors import DataError
from thresher.data.files import BLOCK_BYTES, Span, open_remote, stamp
from thresher.data.infer import infer_table
from thresher.data.pipes import local
from thresher.data.schema import Schema
from thresher.data.source import Files, Part, Table
from thresher.data.spans import TallyAll
from thresher.data.wishes import Wishes

__all__ = ["ArrowSource", "ParquetSource", "TableSource"]

_BROKEN = (pa.ArrowException, OSError)
_READ_AHEAD = 1 << 18  # bytes of a column of a Parquet file
_DECODED_TOGETHER = 4  # blocks of a Parquet file


class _Placed(NamedTuple):
    """Some rows of a file, the first of which has this number, counted from 1."""

    file: str
    row: int
    batch: pa.RecordBatch


class _Columnar(Table):
    """Record batches with named columns; rows are counted from 1 in messages."""

    block_bytes: int

    def batches(self, columns: list[str]) -> Iterator[_Placed]:
        raise NotImplementedError

    def infer(self, wishes: Wishes) -> Schema:
        wishes = self.listing(wishes)
        wanted = self.wanted_rows(wishes)
        found: list[pa.Table] = []
        for placed in self.batches(self.names):
            found.append(pa.Table.from_batches([placed.batch]))
            if sum(b.num_rows for b in found) >= wanted:
                break
        if not found:
            raise DataError(f"{self.name} has columns but no rows")
        try:
            sample = pa.concat_tables(found, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"{self.name}: columns differ in type: {error}") from None
        return infer_table(sample.slice(0, wanted), wishes, self.name)

    def tables(self, columns: list[str]) -> Iterator[Any]:
        return (placed.batch for placed in self.batches(columns))

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        columns = needed_columns(encoder.schema, self.names, self.name)
        return self.parsed(self.batches(columns), _encoded, encoder)

    def _batch_rows(self) -> int:
        return max(16, self.block_bytes // (8 * max(len(self.names), 1)))

    def _checked_names(self, names: list[str]) -> list[str]:
        name, times = Counter(names).most_common(1)[0] if names else ("", 0)
        if times > 1:
            raise DataError(f"{self.name} has {times} columns named {name!r}")
        return names


def _encoded(placed: _Placed, encoder: Encoder) -> list[Batch]:
    origin = Origin(placed.file, _counted_from(placed.row), unit="row")
    return [encoder.encode(raw_table(placed.batch, encoder.schema, encoder.bad, origin))]


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

    def batches(self, columns: list[str]) -> Iterator[_Placed]:
        table, row = self.table.select(columns), 1
        for batch in table.to_batches(max_chunksize=self._batch_rows()):
            yield _Placed(self.name, row, batch)
            row += batch.num_rows


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

    def batches(self, columns: list[str]) -> Iterator[_Placed]:
        for span in self.read_spans():
            path, row = span.path, span.first
            with self._open(path) as file:
                missing = set(columns) - set(_columns(file))
                if missing:
                    raise DataError(f"{path} has no column {min(missing)!r}, the first file has")
                batches = self._batches_of(file, columns, span)
                while (batch := _next(batches, path)) is not None:
                    yield _Placed(path, row, batch.select(columns))
                    row += batch.num_rows

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        spans: list[tuple[Span, int]] = []
        for path in self.paths:
            with self._open(path) as file:
                sizes, row = self._unit_rows(file), 1
            for k, rows in enumerate(sizes):
                spans.append((Span(path, k, k + 1, row), rows))
                row += rows
        return self.grouped(spans, n)

    def _unit_rows(self, file: Any) -> list[int]:
        """Rows of the row groups or record batches, which reading may begin with."""
        raise NotImplementedError

    def _open(self, path: str) -> Any:
        try:
            return self._reader(open_remote(path) if "://" in path else local(path))
        except _BROKEN as error:
            raise DataError(f"{path} is not a readable {self.kind} file: {error}") from None

    kind: ClassVar[str]

    def _reader(self, file: Any) -> Any:
        raise NotImplementedError

    def _batches_of(self, file: Any, columns: list[str], span: Span) -> Iterator[pa.RecordBatch]:
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
        if self.spans is not None:
            return None
        total = 0
        for path in self.paths:
            with self._open(path) as file:
                total += file.metadata.num_rows
        return total

    def _reader(self, file: Any) -> Any:
        import pyarrow.parquet as pq

        if not isinstance(file, str):
            return pq.ParquetFile(file)
        # Not a row group in memory at a time, which may be the whole file: it would be there twice.
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=_READ_AHEAD)

    def _unit_rows(self, file: Any) -> list[int]:
        meta = file.metadata
        return [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]

    def _batches_of(self, file: Any, columns: list[str], span: Span) -> Iterator[pa.RecordBatch]:
        # Which rows share a batch leaves no trace.  Columns are decoded in threads, and every one
        # costs a batch some time whatever its length: fewer and larger batches than of text.
        rows = _DECODED_TOGETHER * self._batch_rows()
        groups = range(file.metadata.num_row_groups)[span.start : span.stop]
        return file.iter_batches(
            batch_size=rows, row_groups=list(groups), columns=columns, use_threads=True
        )


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

    def _unit_rows(self, file: Any) -> list[int]:
        return [batch.num_rows for batch in _record_batches(file)]

    def _batches_of(self, file: Any, columns: list[str], span: Span) -> Iterator[pa.RecordBatch]:
        # A process that reads mapped memory of a file which somebody makes shorter is killed.
        # Copies would not do: a batch may be the whole file.
        opened = stamp(span.path)
        for batch in islice(_record_batches(file), span.start, span.stop):
            for start in range(0, batch.num_rows, self._batch_rows()):
                if stamp(span.path) != opened:
                    raise DataError(f"{span.path} has changed while it was read")
                yield batch.slice(start, self._batch_rows())


def _record_batches(file: Any) -> Iterator[pa.RecordBatch]:
    """Those of a file; mapped memory, so that one that is passed over costs next to nothing."""
    random = hasattr(file, "num_record_batches")
    return map(file.get_batch, range(file.num_record_batches)) if random else iter(file)
