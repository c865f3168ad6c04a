"""Parsed rows in a binary file: read at the speed of memory instead of the speed of parsing.

Layout, little-endian: the magic word, the length of a JSON header (schema, and the size and time of
the text it was made from), then blocks of rows, each a count of rows and of non-zeros (-1: dense)
followed by its arrays, and at the end the number of rows, of bad rows that were left out, and a
closing word.  A file without the closing word was not finished and is refused.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from thresher._files import atomic_file
from thresher.data.dataset import DataSet, window_rows
from thresher.data.encode import Block, Encoder, Sparse
from thresher.data.errors import DataError
from thresher.data.infer import Wishes
from thresher.data.schema import Schema
from thresher.data.source import Source
from thresher.data.text import expand, stamp

__all__ = ["SUFFIX", "RowsFile", "cached", "write_rows"]

SUFFIX = ".rows"
_MAGIC, _CLOSING = b"THRROWS1", b"THRROWSE"
_PREFIX = struct.Struct("<8sQ")
_BLOCK = struct.Struct("<qq")  # rows, non-zeros or -1
_END = struct.Struct("<QQ8s")  # rows, rows left out
_LONGEST_HEADER = 256 << 20


@dataclass
class RowsFile(Source):
    """A file of parsed rows, with the schema that they were parsed by."""

    path: str

    def __post_init__(self) -> None:
        (self.path,) = expand(self.path)
        self.name = self.path
        with open(self.path, "rb") as file:
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
        return int(self._rows)

    def infer(self, wishes: Wishes) -> Schema:
        target = self.header_schema.target
        if wishes.target is not None and (target is None or str(wishes.target) != target.name):
            known = target.name if target else "nothing"
            raise DataError(f"{self.path} was made to predict {known!r}, not {wishes.target!r}")
        return self.header_schema

    def blocks(self, encoder: Encoder) -> Iterator[Block]:
        schema = encoder.schema
        self._check_schema(schema)
        if encoder.bad.policy == "skip":
            encoder.bad.count += self.left_out
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self._start)
            left = self._rows
            while left > 0:
                matrix, y, weight = self._read_block(file)
                left -= Block(matrix, None, None).size
                y, weight = y if schema.target else None, weight if schema.weight else None
                yield Block(matrix, y, weight)
            if left or file.tell() != self._size - _END.size:
                raise self._corrupt()

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
            raise DataError(f"{self.path} is not a file of rows")
        if length > min(self._size, _LONGEST_HEADER):
            raise self._corrupt()
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise self._corrupt() from None
        if not isinstance(header, dict):
            raise self._corrupt()
        return header

    def _read_block(self, file: IO[bytes]) -> Block:
        schema = self.header_schema
        head = file.read(_BLOCK.size)
        if len(head) != _BLOCK.size:
            raise self._corrupt()
        n, nonzeros = _BLOCK.unpack(head)
        sparse = schema.layout == "sparse"
        if not (0 < n <= self._rows and (0 <= nonzeros <= self._size if sparse else nonzeros < 0)):
            raise self._corrupt()
        matrix: np.ndarray | Sparse
        if sparse:
            indptr = self._array(file, (n + 1,), np.int32)
            indices = self._array(file, (nonzeros,), np.int32)
            matrix = Sparse(self._array(file, (nonzeros,), np.float64), indices, indptr)
        else:
            matrix = self._array(file, (n, schema.n_features), np.float64)
        y = self._array(file, (n,), np.float64) if schema.target else None
        weight = self._array(file, (n,), np.float64) if schema.weight else None
        block = Block(matrix, y, weight)
        if not _sound(block, schema):
            raise self._corrupt()
        return block

    def _array(self, file: IO[bytes], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if int(np.prod(shape, dtype=np.float64)) * np.dtype(dtype).itemsize > self._size:
            raise self._corrupt()
        out = np.empty(shape, dtype)
        view = out.reshape(-1).view(np.uint8).data if out.size else memoryview(b"")
        done = 0
        while done < len(view):  # one read may bring less than asked for
            got = file.readinto(view[done:])  # type: ignore[attr-defined]
            if not got:
                raise self._corrupt()
            done += got
        return out

    def _corrupt(self) -> DataError:
        return DataError(f"{self.path} is damaged: make it again")


def _sound(block: Block, schema: Schema) -> bool:
    """Compiled loops trust indices and class numbers: a damaged file must not reach them."""
    matrix, y, weight = block
    if isinstance(matrix, Sparse):
        data, indices, indptr = matrix
        if indptr[0] != 0 or indptr[-1] != data.size or np.any(indptr[1:] < indptr[:-1]):
            return False
        if indices.size and int(indices.view(np.uint32).max()) >= schema.n_features:
            return False
    stored = matrix.data if isinstance(matrix, Sparse) else matrix
    parts = [part for part in (stored, y, weight) if part is not None]
    # The extremes tell of NaN and infinity, without a table of truths as long as the data.
    if not all(np.isfinite([part.min(), part.max()]).all() for part in parts if part.size):
        return False
    codes = len(schema.target.classes) if schema.target else 0
    if y is not None and codes and (y.min() < 0.0 or y.max() >= codes or np.any(y % 1.0 != 0.0)):
        return False
    return weight is None or bool(weight.min() >= 0.0)


def write_rows(dataset: DataSet, path: str | os.PathLike[str], progress: Any = None) -> int:
    """Write all rows of a data set; returns their number.  The file appears when it is complete."""
    try:
        with atomic_file(path) as file:
            return _write(dataset, file, progress)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise DataError(f"{path} cannot be written: {reason}") from None


def _write(dataset: DataSet, file: IO[bytes], progress: Any) -> int:
    header = {"schema": dataset.schema.to_json(), "made_from": dataset.source.stamps()}
    text = json.dumps(header).encode()
    file.write(_PREFIX.pack(_MAGIC, len(text)) + text)
    rows = 0
    # Blocks are what training takes at a time: they need not be put together when read.
    for batch in dataset.chunks(rows=window_rows(dataset.schema.row_bytes)):
        matrix: Any = batch.rows
        sparse = hasattr(matrix, "indptr")
        arrays = [matrix.indptr, matrix.indices, matrix.data] if sparse else [matrix.X]
        arrays += [a for a in (batch.y, batch.weight) if a is not None]
        nonzeros = matrix.data.size if sparse else -1
        file.write(_BLOCK.pack(batch.size, nonzeros))
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
        rows += batch.size
        if progress is not None:
            progress(rows)
    file.write(_END.pack(rows, dataset.bad.count, _CLOSING))
    return rows


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
