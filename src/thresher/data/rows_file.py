"""Parsed rows in a binary file: read at the speed of memory instead of the speed of parsing.

Layout, little-endian: the magic word, the length of a JSON header (schema, and the size and time of
the text it was made from), then blocks of rows, each a count of rows and of non-zeros (-1: dense)
followed by its arrays, and at the end the number of rows, of bad rows that were left out, and a
closing word.  A file without the closing word was not finished and is refused.

Counts and arrays start at multiples of 64 bytes, so that a block of rows is read into memory in one
piece, and one pass over the bytes checks them.  They are not mapped: a process that reads a mapped
file which somebody else makes shorter is killed (SIGBUS).  A file that is another one than when it
was opened, by its size and its time, is refused.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import IO, Any, Self

import numpy as np
from numba import njit

from thresher._blanks import IRRELEVANT_TARGET
from thresher._files import atomic_file
from thresher._lanes import aligned
from thresher.data.batch import Batch, Sparse
from thresher.data.dataset import DataSet, window_rows
from thresher.data.encode import Encoder
from thresher.data.errors import DataError
from thresher.data.files import anchor, expand, stamp
from thresher.data.pipes import local
from thresher.data.schema import Schema
from thresher.data.source import Part, Source
from thresher.data.spans import TallyAll, shares
from thresher.data.wishes import Wishes

__all__ = ["SUFFIX", "RowsFile", "cached", "on_disk", "write_rows"]

SUFFIX = ".rows"
_MAGIC, _CLOSING = b"THRROWS2", b"THRROWSE"
_ALIGNED = 64
_PREFIX = struct.Struct("<8sQ")
_BLOCK = struct.Struct("<qq")  # rows, non-zeros or -1
_END = struct.Struct("<QQ8s")  # rows, rows left out
_LONGEST_HEADER = 256 << 20


@dataclass
class RowsFile(Source):
    """A file of parsed rows, with the schema that they were parsed by."""

    path: str
    #: the byte that it starts at, the one after its end, and its rows; None: all of the file
    span: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        (self.path,) = expand(self.path)
        self.name = self.path
        with open(local(self.path), "rb") as file:
            self._identity = _identity(file)
            self._size = os.fstat(file.fileno()).st_size
            header = self._read_header(file)
            self._start = file.tell()
            file.seek(-_END.size, os.SEEK_END)
            self._rows, self.left_out, closing = _END.unpack(file.read(_END.size))
        if closing != _CLOSING:
            raise DataError(f"{self.path} is not complete: make it again")
        self.made_from = header.get("made_from")
        self.header_schema = Schema.from_json(header.get("schema"))

    @property
    def is_table(self) -> bool:
        return self.header_schema.is_table

    @property
    def n_rows(self) -> int | None:
        return int(self._rows if self.span is None else self.span[2])

    def infer(self, wishes: Wishes) -> Schema:
        target = self.header_schema.target
        if wishes.target is not None and (target is None or str(wishes.target) != target.name):
            known = target.name if target else "nothing"
            raise DataError(f"{self.path} was made to predict {known!r}, not {wishes.target!r}")
        return self.header_schema

    def blocks(self, encoder: Encoder) -> Iterator[Batch]:
        schema = encoder.schema
        self._check_schema(schema)
        if encoder.bad.policy == "skip":
            encoder.bad.count += self.left_out
        with open(local(self.path), "rb", buffering=0) as file:
            place, end, left = self._start, self._size - _END.size, self._rows
            if self.span is not None:
                place, end, left = self.span
            while left > 0:
                block, place = self._block_at(place, file)
                if _identity(file) != self._identity:
                    raise DataError(f"{self.path} has changed since it was opened")
                left -= block.size
                y = block.y if schema.target else None
                yield Batch(block.matrix, y, block.weight if schema.weight else None)
            if left or place != end:
                raise self._corrupt()

    def anchored(self) -> Self:
        anchored = copy(self)
        anchored.path = anchor(self.path)
        return anchored

    def parts(self, n: int, tally_all: TallyAll) -> list[Part]:
        places, rows = [self._start], []
        with open(local(self.path), "rb", buffering=0) as file:
            while places[-1] < self._size - _END.size:
                count, after = self._layout_at(places[-1], file)[2:]
                rows.append(count)
                places.append(after)
        return [
            self._part(places[run.start], places[run.stop], sum(rows[run]))
            for run in shares(rows, n)
        ]

    def _part(self, start: int, stop: int, rows: int) -> Part:
        part = copy(self)
        part.span = (start, stop, rows)
        return Part(part, rows)

    def stamps(self) -> list[Any]:
        return [stamp(self.path)]

    def _check_schema(self, schema: Schema) -> None:
        stored = self.header_schema
        features = [  # what concerns text does not count
            replace(s.without_target(), row_bytes=1, first_index=0) for s in (schema, stored)
        ]
        if features[0] != features[1]:
            raise DataError(
                f"{self.path} was made by another schema than the model's: make it anew"
            )
        if schema.target is not None and schema.target != stored.target:
            raise DataError(f"{self.path} holds the target {stored.target}, not {schema.target}")
        if schema.weight is not None and schema.weight != stored.weight:
            raise DataError(f"{self.path} holds the weight {stored.weight}, not {schema.weight}")

    # ------------------------------------------------------------ reading

    def _read_header(self, file: IO[bytes]) -> dict[str, Any]:
        start = file.read(_PREFIX.size)
        if len(start) < _PREFIX.size or self._size < _PREFIX.size + _END.size:
            raise DataError(f"{self.path} is too short for a file of rows")
        magic, length = _PREFIX.unpack(start)
        if magic != _MAGIC:
            older = magic[:7] == _MAGIC[:7]
            more = ", but of another version: make it again" if older else ""
            raise DataError(f"{self.path} is {'a' if older else 'not a'} file of rows{more}")
        if length > min(self._size, _LONGEST_HEADER) or (_PREFIX.size + length) % _ALIGNED:
            raise self._corrupt()
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise self._corrupt() from None
        if not isinstance(header, dict):
            raise self._corrupt()
        return header

    def _block_at(self, place: int, file: IO[bytes]) -> tuple[Batch, int]:
        """The block that starts at a byte, and the byte after it."""
        schema = self.header_schema
        forms, offsets, _, after = self._layout_at(place, file)
        content = self._content(file, place, offsets[-1])
        arrays = [
            np.ndarray(shape, dtype, content.data, offset)
            for (shape, dtype), offset in zip(forms, offsets, strict=False)
        ]
        block = _block(arrays, schema)
        if not _sound(block, schema):
            raise self._corrupt()
        return block, after

    def _layout_at(self, place: int, file: IO[bytes]) -> tuple[list[Any], list[int], int, int]:
        """Of the block that starts at a byte: its arrays and where they start, its rows, and the
        byte after it."""
        schema = self.header_schema
        file.seek(place)
        head = file.read(_BLOCK.size)
        if len(head) != _BLOCK.size:
            raise self._corrupt()
        n, nonzeros = _BLOCK.unpack(head)
        sparse = schema.layout == "sparse"
        if not (0 < n <= self._rows and (0 <= nonzeros <= self._size if sparse else nonzeros < 0)):
            raise self._corrupt()
        forms = _forms(schema, n, nonzeros)
        offsets = [_ALIGNED]
        for shape, dtype in forms:
            offsets.append(offsets[-1] + _whole(math.prod(shape) * np.dtype(dtype).itemsize))
        return forms, offsets, n, place + offsets[-1]

    def _content(self, file: IO[bytes], start: int, size: int) -> np.ndarray:
        """So many bytes of the file, in memory of their own."""
        if start + size > self._size - _END.size:
            raise self._corrupt()
        content = aligned((size,), np.uint8)
        file.seek(start)
        done = 0
        while done < size:
            got = file.readinto(content[done:].data)  # type: ignore[attr-defined]
            if not got:  # the file has become shorter since it was opened
                raise self._corrupt()
            done += got
        return content

    def _corrupt(self) -> DataError:
        return DataError(f"{self.path} is damaged: make it again")


def _identity(file: IO[bytes]) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _whole(size: int) -> int:
    """The size with its padding."""
    return -(-size // _ALIGNED) * _ALIGNED


def _forms(schema: Schema, n: int, nonzeros: int) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and type of the arrays of a block, in the file's order."""
    rows: list[tuple[tuple[int, ...], Any]] = [((n, schema.n_features), np.float64)]
    if schema.layout == "sparse":
        rows = [((n + 1,), np.int32), ((nonzeros,), np.int32), ((nonzeros,), np.float64)]
    others = [role for role in (schema.target, schema.weight) if role is not None]
    return rows + [((n,), np.float64)] * len(others)


def _block(arrays: list[np.ndarray], schema: Schema) -> Batch:
    weight = arrays.pop() if schema.weight is not None else None
    y = arrays.pop() if schema.target is not None else None
    if schema.layout == "sparse":
        indptr, indices, data = arrays
        return Batch(Sparse(data, indices, indptr), y, weight)
    return Batch(arrays[0], y, weight)


def _sound(block: Batch, schema: Schema) -> bool:
    """Compiled loops trust indices and class numbers: a damaged file must not reach them."""
    matrix, y, weight = block.matrix, block.y, block.weight
    if isinstance(matrix, Sparse):
        data, indices, indptr = matrix
        if indptr[0] != 0 or indptr[-1] != data.size or np.any(indptr[1:] < indptr[:-1]):
            return False
        if indices.size and int(indices.view(np.uint32).max()) >= schema.n_features:
            return False
    if y is not None and schema.target is not None and schema.target.partly:
        y = y[~(np.isnan(y) | (y == IRRELEVANT_TARGET))]
    stored = matrix.data if isinstance(matrix, Sparse) else matrix
    parts = [part for part in (stored, y, weight) if part is not None]
    if not all(_finite(part.reshape(-1).view(np.uint64)) for part in parts):
        return False
    codes = len(schema.target.classes) if schema.target else 0
    if y is not None and codes and not _are_codes(y, codes):
        return False
    return weight is None or bool(weight.min() >= 0.0)


@njit(cache=True, nogil=True)
def _finite(words):
    """No NaN and no infinity: by the exponents' bits, and without leaving early, in vectors."""
    exponent, found = np.uint64(0x7FF0000000000000), np.uint64(0)
    for word in words:
        found |= np.uint64((word & exponent) == exponent)
    return found == 0


@njit(cache=True, nogil=True)
def _are_codes(y, n):
    fine = True
    for code in y:
        fine &= 0.0 <= code < n and code == np.floor(code)
    return fine


def write_rows(
    dataset: DataSet, path: str | os.PathLike[str], progress: Any = None,
    block_rows: int | None = None,
) -> int:  # fmt: skip
    """Write all rows of a data set; returns their number.  The file appears when it is complete.

    A block has ``block_rows`` at most; None: as many as training takes at a time.
    """
    try:
        with atomic_file(path) as file:
            return _write(dataset, file, progress, block_rows)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise DataError(f"{path} cannot be written: {reason}") from None


def _write(dataset: DataSet, file: IO[bytes], progress: Any, block_rows: int | None) -> int:
    header = {"schema": dataset.schema.to_json(), "made_from": dataset.source.stamps()}
    text = json.dumps(header).encode()
    text += b" " * (_whole(_PREFIX.size + len(text)) - _PREFIX.size - len(text))
    file.write(_PREFIX.pack(_MAGIC, len(text)) + text)
    rows = 0
    # Blocks are what training takes at a time: they need not be put together when read.
    window = window_rows(dataset.schema.row_bytes)
    for batch in dataset.chunks(rows=min(window, block_rows or window)):
        matrix: Any = batch.rows
        sparse = hasattr(matrix, "indptr")
        arrays = [matrix.indptr, matrix.indices, matrix.data] if sparse else [matrix.X]
        arrays += [a for a in (batch.y, batch.weight) if a is not None]
        nonzeros = matrix.data.size if sparse else -1
        head = np.frombuffer(_BLOCK.pack(batch.size, nonzeros), np.uint8)
        for array in (head, *arrays):
            file.write(np.ascontiguousarray(array).data)
            file.write(bytes(-array.nbytes % _ALIGNED))
        rows += batch.size
        if progress is not None:
            progress(rows)
    file.write(_END.pack(rows, dataset.bad.count, _CLOSING))
    return rows


@contextmanager
def on_disk(dataset: DataSet, shards: int | None = None) -> Iterator[DataSet]:
    """The same data set where other processes can read it: what is in memory goes to a file.

    It can be cut into so many ``shards``, which are blocks of the file.
    """
    if dataset.source.is_shared:
        yield dataset
        return
    with TemporaryDirectory(prefix="thresher-") as folder:
        path = os.path.join(folder, f"memory{SUFFIX}")
        most = None if shards is None or not dataset.n_rows else -(-dataset.n_rows // shards)
        write_rows(dataset, path, block_rows=most)
        found = replace(dataset, source=RowsFile(path))
        found.source.name = dataset.name
        yield found


def cached(dataset: DataSet) -> DataSet:
    """The same data set read from a file of rows beside its source, made anew when it is stale."""
    made_from = dataset.source.stamps()
    paths = getattr(dataset.source, "paths", None)
    if not made_from or not paths or None in made_from or "://" in paths[0]:
        raise DataError(f"{dataset.name} cannot be cached: only local files can")
    path = paths[0] + SUFFIX
    if not _is_fresh(path, dataset):
        write_rows(dataset, path)
    return replace(dataset, source=RowsFile(path))


def _is_fresh(path: str, dataset: DataSet) -> bool:
    """Made from the same files by the same schema, and no bad row is missing that must be told."""
    try:
        found = RowsFile(path)
    except DataError:
        return False
    if found.left_out and dataset.bad.policy == "error":
        return False
    made_from = [list(s) for s in dataset.source.stamps()]
    return found.made_from == made_from and found.header_schema == dataset.schema
