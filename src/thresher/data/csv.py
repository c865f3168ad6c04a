"""Delimited text.  Plain lines go through a compiled parser, everything else through PyArrow.

A block is handed to the compiled parser first; at the first line that is not plain (a quote, a
word where a number should be, a wrong number of fields) PyArrow reads some lines, with an account
of what is wrong with which.  Then the compiled parser is tried again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from thresher.data import _csv_text, dialect
from thresher.data._bytes import after_lines, after_newline, count
from thresher.data.arrow_cells import needed_columns, raw_table
from thresher.data.batch import Batch
from thresher.data.encode import Encoder, Origin, Raw
from thresher.data.errors import BadCell, BadRows, DataError
from thresher.data.files import BLOCK_BYTES, STDIN, Span, TextBlock, text_blocks
from thresher.data.infer import infer_table, numbered
from thresher.data.infer_numbers import infer_numbers
from thresher.data.quotes import left_open, record_end
from thresher.data.schema import Schema, unique_names
from thresher.data.source import Files, Part, Table
from thresher.data.spans import TallyAll, text_spans
from thresher.data.wishes import Wishes

__all__ = ["CsvSource"]

_HEAD_BYTES = 1 << 20
_ODD_BYTES = 1 << 16  # handed to PyArrow at the first odd line; twice as much if odd ones follow


class _Head(NamedTuple):
    """The columns of a file and the number of lines before its first row."""

    names: list[str]
    lines: int


@dataclass
class CsvSource(Files, Table):
    """One or several delimited files with the same columns.

    ``delimiter`` and ``header`` are detected when None.
    """

    paths: list[str]
    delimiter: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    block_bytes: int = BLOCK_BYTES
    _held: list[TextBlock] = field(default_factory=list)  # read from standard input already

    def __post_init__(self) -> None:
        self.find_files()
        self._stdin: Iterator[TextBlock] = iter(())
        self._leader = self.paths[0]  # whose columns are everybody's
        start = self._start(self._leader)
        self.delimiter = dialect.checked(self.delimiter or dialect.delimiter(start))
        self._head = self._head_of(self._leader, start)
        self.names = self._head.names

    # ------------------------------------------------------------ the sample

    def infer(self, wishes: Wishes) -> Schema:
        wishes = self.listing(wishes)
        wanted = self.wanted_rows(wishes)
        # Whoever says what a column is may want its text: "007" as a category is not 7.
        cells = None if wishes.types else self._numbers(wanted, wishes.nulls)
        if cells is not None:
            return infer_numbers(self.names, cells, wishes, self.name)
        return infer_table(self._sample(wanted), wishes, self.name)

    def _numbers(self, wanted: int, nulls: Sequence[str]) -> np.ndarray | None:
        """The sample by the compiled parser, many times faster, if it is nothing but numbers:
        (columns, rows)."""
        k = len(self.names)
        plan = _csv_text.line_plan(
            [_csv_text.NUMBER] * k, range(k), [None] * k, 0, [null.encode() for null in nulls],
            ord(self.delimiter or ","),
        )  # fmt: skip
        parts: list[np.ndarray] = []
        none = np.empty(0)
        for block, head in self._text(hold=True):
            values = np.empty((min(block.newlines + 1, wanted), k))
            rows, _, why = _csv_text.parse_lines(plan, block.data, 0, values, none, none, 0)
            if why == _csv_text.ODD or head.names != self.names:
                return None
            parts.append(values[:rows])
            wanted -= rows
            if not wanted:
                break
        if not parts:
            return None
        return np.ascontiguousarray(np.concatenate(parts).T)

    def _sample(self, wanted: int) -> pa.Table:
        """The first rows, all columns as text; bad ones are left to the reading proper."""
        bad = BadRows("skip")
        tables: list[pa.Table] = []
        rows = 0
        for block, head in self._text(hold=True):
            if self._left_open(block, bad):
                break
            table = self._table(block, bad, head.names)[0].select(self.names)
            tables.append(table)
            rows += table.num_rows
            if rows >= wanted:
                break
        if not rows and bad.first:
            raise DataError(str(bad.first[0]))
        if not tables:
            return pa.table({name: pa.array([], pa.string()) for name in self.names})
        return pa.concat_tables(tables).slice(0, wanted)

    # ------------------------------------------------------------ all rows

    def tables(self, columns: list[str]) -> Iterator[pa.Table]:
        bad = BadRows("skip")  # left to the reading proper
        for block, head in self._text():
            if not self._left_open(block, bad):
                yield self._table(block, bad, head.names, columns)[0]

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        return self.parsed(self._planned(encoder.schema), self._read, encoder)

    def _planned(self, schema: Schema) -> Iterator[_Piece]:
        """Every block of text with what is needed to read it."""
        file = plan = None
        for block, head in self._text():
            if block.file != file:
                file, plan = block.file, _plan(schema, head.names, self.delimiter, block)
            yield _Piece(block, head.names, plan)

    def _read(self, piece: _Piece, encoder: Encoder) -> Iterator[Batch]:
        """The compiled parser and PyArrow in turns, until the block is read."""
        block, names, plan = piece
        if self._left_open(block, encoder.bad):
            return
        size = block.data.size if plan is None else _ODD_BYTES
        while block.data.size:
            if plan is not None:
                raw, end = _fast(block, plan, encoder.schema, names)
                rows = raw.values.shape[0]
                if rows:
                    yield encoder.encode(raw)
                    size = _ODD_BYTES
                block = _from(block, end, rows)
                if not block.data.size:
                    return
            end = self._cut(block.data[:size]) or block.data.size
            odd = block._replace(data=block.data[:end])
            table, origin = self._table(odd, encoder.bad, names)
            yield encoder.encode(raw_table(table, encoder.schema, encoder.bad, origin))
            block, size = _from(block, end, count(odd.data, 10)), 2 * size

    def _left_open(self, block: TextBlock, bad: BadRows) -> bool:
        """Whether the file ends within a quote: what it opens is one bad row."""
        found = left_open(block, self.delimiter or ",")
        if found is not None:
            bad.add(found)
        return found is not None

    def _table(
        self, block: TextBlock, bad: BadRows, names: list[str], columns: list[str] | None = None
    ) -> tuple[pa.Table, Origin]:
        """PyArrow's reading of a block, all columns or some, as text; ragged rows are reported."""
        ragged = []

        def handle(row: Any) -> str:
            ragged.append(row.actual_columns)
            return "skip"

        data = pa.py_buffer(block.data)
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(data),
                pa_csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=data.size + 16
                ),
                pa_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=handle
                ),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=False,
                    include_columns=columns,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):  # blank lines only
                table = pa.table({name: pa.array([], pa.string()) for name in columns or names})
            else:
                raise DataError(f"{block.file}, from line {block.first_line}: {error}") from None
        lines = _Lines(block, self.delimiter or ",", len(names))
        if ragged:
            for line, found in lines.ragged():
                problem = f"{found} fields where {len(names)} are expected"
                bad.add(BadCell(block.file, line, None, problem))
        return table, Origin(block.file, lines.of)

    # ------------------------------------------------------------ files

    def _text(self, hold: bool = False) -> Iterator[tuple[TextBlock, _Head]]:
        """All blocks without headers; ``hold``: those of standard input will be needed again."""
        for span in self.read_spans():
            path = span.path
            blocks = self._stdin_blocks(hold) if path == STDIN else self._file_blocks(span)
            head = self._head if path == self._leader else self._further(path)
            skip = 0 if span.start else head.lines
            for block in blocks:
                dialect.check_utf8(block, self.encoding)
                rest = _without_lines(block, skip)
                skip -= rest.first_line - block.first_line
                if rest.data.size:
                    yield rest, head

    def _file_blocks(self, span: Span) -> Iterator[TextBlock]:
        return text_blocks(span, self._cut, self.block_bytes, self.encoding)

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        spans = text_spans(self.paths, n, self._cut, self.encoding, True, tally_all)
        lines = self._head.lines
        return self.grouped(
            [(span, found - (0 if span.start else lines)) for span, found in spans], n
        )

    def _stdin_blocks(self, hold: bool) -> Iterator[TextBlock]:
        """What was held back while the schema was read, then the rest of the stream."""
        if not hold:
            while self._held:
                yield self._held.pop(0)
            yield from self._stdin
            return
        yield from self._held
        for block in self._stdin:
            self._held.append(block)
            yield block

    def _cut(self, data: np.ndarray) -> int:
        """Where a block may be cut: after the last newline that is not in a quoted field."""
        if count(data, 34) == 0:
            return int(after_newline(data, 0, data.size))
        if self.delimiter is None:  # not known yet: every quote counts
            return _csv_text.safe_cut(data)
        return record_end(data, self.delimiter)

    def _start(self, path: str) -> str:
        """The first block, to look at; standard input's is kept."""
        size = self.block_bytes if path == STDIN else _HEAD_BYTES
        blocks = text_blocks(Span(path), self._cut, size, self.encoding)
        block = next(blocks, None)
        if path == STDIN:
            self._stdin = blocks
            self._held += [] if block is None else [block]
        else:
            blocks.close()  # type: ignore[attr-defined]
        if block is None:
            raise DataError(f"{path} is empty")
        if (block.data[:4096] == 0).any():
            raise DataError(f"{path} is not text: it holds binary data (format= names its format)")
        dialect.check_utf8(block, self.encoding)
        self._left_open(block, BadRows("error"))
        text = block.data.tobytes().decode()
        if "\r" in text and "\n" not in text:
            raise DataError(f"{path}: lines end in carriage returns alone, newlines are expected")
        return text

    def _head_of(self, path: str, start: str) -> _Head:
        records, lines = dialect.records(start, self.delimiter or ",", path)
        if self.header is None:
            self.header = dialect.has_header(records)
        if self.header:
            return _Head(unique_names(records[0]), lines)
        return _Head(numbered(len(records[0])), 0)

    def _further(self, path: str) -> _Head:
        """The columns of a further file, which must be those of the first (in any order)."""
        head = self._head_of(path, self._start(path))
        if sorted(head.names) != sorted(self.names):
            if not self.header:
                n = len(self.names)
                raise DataError(f"{path} has {len(head.names)} columns, {self._leader} has {n}")
            odd = sorted(set(head.names) ^ set(self.names))
            raise DataError(f"{path} and {self._leader} differ in column {odd[0]!r}")
        return head


# ---------------------------------------------------------------- the compiled road


class _Plan(NamedTuple):
    """What the parser does with each field; ``folds``: (place, number of values) of columns with
    several spellings of a value."""

    lines: _csv_text.LinePlan
    folds: list[tuple[int, int]]


class _Piece(NamedTuple):
    """A block of text, its columns, and how the compiled parser reads it (None: it cannot)."""

    block: TextBlock
    names: list[str]
    plan: _Plan | None


def _fast(block: TextBlock, plan: _Plan, schema: Schema, names: list[str]) -> tuple[Raw, int]:
    """The rows up to the first odd line, and where that starts."""
    # A row takes a byte for each field at least, whatever the number of (blank) lines.
    capacity = min(block.newlines, block.data.size // len(names)) + 1
    values = np.empty((capacity, len(schema.features)))
    target = np.empty(capacity if schema.target else 0)
    weight = np.empty(capacity if schema.weight else 0)
    rows, end, _ = _csv_text.parse_lines(plan.lines, block.data, 0, values, target, weight, 0)
    for place, n in plan.folds:
        column = values[:rows, place]
        np.subtract(column, n * np.floor(column / n), out=column, where=column >= n)

    def value(i: int, name: str) -> str:
        line = block.data[:end].tobytes().split(b"\n")[i]
        return line.decode().split(chr(plan.lines.delimiter))[names.index(name)].strip()

    origin = Origin(block.file, lambda i: block.first_line + i, value)
    return Raw(
        values[:rows],
        target[:rows] if schema.target else None,
        weight[:rows] if schema.weight else None,
        origin,
    ), int(end)


def _plan(
    schema: Schema, names: list[str], delimiter: str | None, block: TextBlock
) -> _Plan | None:
    """None if a column is beyond the compiled parser: a date."""
    needed_columns(schema, names, block.file)
    where = {name: k for k, name in enumerate(names)}
    kinds, places, bits = ([0] * len(names) for _ in range(3))
    words: list[list[bytes] | None] = [None] * len(names)
    folds = []
    for place, column in enumerate(schema.features):
        k = where[column.name]
        if column.kind == "date":
            return None
        places[k], bits[k] = place, column.bits
        kinds[k] = {"number": _csv_text.NUMBER, "hashed": _csv_text.HASH}.get(
            column.kind, _csv_text.WORD
        )
        if kinds[k] == _csv_text.WORD:
            spellings = column.spellings()
            words[k] = [word.encode() for word in spellings]
            folds += [(place, len(column.values))] if len(spellings) > len(column.values) else []
    if schema.target is not None:
        k = where[schema.target.name]
        by_words = schema.target.by_words
        kinds[k], places[k] = _csv_text.WORD if by_words else _csv_text.NUMBER, -1
        words[k] = [label.encode() for label in schema.target.labels] if by_words else None
    if schema.weight is not None:
        kinds[where[schema.weight]], places[where[schema.weight]] = _csv_text.NUMBER, -2
    nulls = [null.encode() for null in schema.nulls]
    return _Plan(
        _csv_text.line_plan(kinds, places, words, bits, nulls, ord(delimiter or ",")), folds
    )


# ---------------------------------------------------------------- lines


class _Lines:
    """Line numbers of the records of a block, worked out only when one is asked for."""

    def __init__(self, block: TextBlock, delimiter: str, width: int):
        self.block, self.delimiter, self.width = block, delimiter, width

    def of(self, i: int) -> int | None:
        return self._good[i] if i < len(self._good) else None

    def ragged(self) -> list[tuple[int, int]]:
        return [(line, size) for line, size in self._all if size != self.width]

    @cached_property
    def _good(self) -> list[int]:
        return [line for line, size in self._all if size == self.width]

    @cached_property
    def _all(self) -> list[tuple[int, int]]:
        """(line, number of fields) of every record."""
        text = self.block.data.tobytes().decode()
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        out, line = [], self.block.first_line
        with suppress(csv.Error):  # fields of over 128 KB: their lines stay unknown
            for record in reader:
                if record:
                    out.append((line, len(record)))
                line = self.block.first_line + reader.line_num
        return out


def _from(block: TextBlock, start: int, newlines: int) -> TextBlock:
    """What is left after some whole lines."""
    first, left = block.first_line + newlines, max(block.newlines - newlines, 0)
    return block._replace(data=block.data[start:], first_line=first, newlines=left)


def _without_lines(block: TextBlock, lines: int) -> TextBlock:
    if not lines:
        return block
    end, found = after_lines(block.data, lines)
    return _from(block, end, min(lines, max(found, 1)))
