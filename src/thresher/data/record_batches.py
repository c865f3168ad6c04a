"""Any source as Arrow record batches, for writing tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from thresher._blanks import IRRELEVANT_TARGET
from thresher.data.arrow import _Columnar
from thresher.data.batch import Batch
from thresher.data.csv import CsvSource
from thresher.data.dataset import DataSet
from thresher.data.errors import DataError
from thresher.data.files import open_bytes

__all__ = ["record_batches"]

_MOST_COLUMNS = 10_000


def record_batches(data: DataSet) -> Iterator[pa.RecordBatch]:
    """All columns of a table with their own types, or a matrix as columns x1, x2, ... and y."""
    source = data.source
    if isinstance(source, CsvSource):
        yield from _csv_batches(source)
    elif isinstance(source, _Columnar):
        for _, _, batch in source.batches(source.names):
            yield batch
    else:
        yield from _matrix_batches(data)


def _csv_batches(source: CsvSource) -> Iterator[pa.RecordBatch]:
    """Types are those that PyArrow finds in the first block of the file."""
    schema = None
    for path in source.paths:
        read = pa_csv.ReadOptions(
            column_names=source.names, skip_rows=int(bool(source.header)),
            encoding=source.encoding,
        )  # fmt: skip
        parse = pa_csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True)
        types = None if schema is None else {f.name: f.type for f in schema}
        convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        try:
            with open_bytes(path) as file, pa_csv.open_csv(file, read, parse, convert) as reader:
                schema = reader.schema
                yield from reader
        except pa.ArrowInvalid as error:
            raise DataError(f"{path}: {error}") from None


def _matrix_batches(data: DataSet) -> Iterator[pa.RecordBatch]:
    d, target = data.schema.n_features, data.schema.target
    if d > _MOST_COLUMNS:
        raise DataError(f"{data.name} has {d} features: too many columns for a table")
    names = data.schema.feature_names() or [f"x{j + 1}" for j in range(d)]
    classes = None if target is None or not target.classes else np.array(target.classes)
    marker = None if target is None else target.irrelevant
    for batch in data.chunks():
        table = dense_of(batch.rows)
        columns: list[Any] = [pa.array(table[:, j]) for j in range(d)]
        if batch.y is not None and target is not None:
            columns.append(
                pa.array(batch.y) if classes is None else _labels(batch, classes, marker)
            )
        heads = names if len(columns) == d else [*names, target.name if target else "y"]
        yield pa.RecordBatch.from_arrays(columns, names=heads)


def _labels(batch: Batch, classes: np.ndarray, marker: Any) -> pa.Array:
    """Labels of class numbers; null where there is none."""
    known = batch.labelled
    if known.all():
        return pa.array(classes[batch.codes])
    out = np.full(batch.size, None, dtype=object)
    out[known] = classes[batch.codes].tolist()
    out[batch.targets == IRRELEVANT_TARGET] = marker
    return pa.array(out.tolist(), type=pa.array(classes).type)


def dense_of(rows: Any) -> np.ndarray:
    if not hasattr(rows, "indptr"):
        return np.asarray(rows.X)
    out = np.zeros(rows.shape)
    places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr.astype(np.int64)))
    out[places, rows.indices] = rows.data
    return out
