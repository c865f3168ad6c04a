"""Opening data: which format, which options, which schema."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from thresher.data.arrow import ArrowSource, ParquetSource, TableSource
from thresher.data.csv import CsvSource
from thresher.data.dask import collection_source, is_collection
from thresher.data.dataset import CHUNK_BYTES, DataSet
from thresher.data.errors import BadRows, DataError, nearest
from thresher.data.files import BLOCK_BYTES, STDIN, expand, open_bytes, suffix
from thresher.data.infer_target import partly_labelled as partly_labelled_schema
from thresher.data.matrix import MatrixSource, npz_source
from thresher.data.rows_file import RowsFile, cached
from thresher.data.schema import NULLS, Schema
from thresher.data.source import Source
from thresher.data.svmlight import SvmlightSource
from thresher.data.wishes import Wishes

__all__ = ["FORMATS", "open_data", "open_source"]

FORMATS = ("csv", "svmlight", "parquet", "arrow", "npz", "rows")
_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".txt": None, ".dat": None, ".data": None,
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
    ".npz": "npz", ".rows": "rows",
}  # fmt: skip
_BY_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"THRROWS": "rows"}
_SVMLIGHT_LINE = re.compile(rb"^\s*[-+.0-9eE]+(\s+qid:\d+)?(\s+\d+:[-+.0-9eE]+)*\s*(#.*)?$")


def open_data(
    data: Any,
    y: Any = None,
    *,
    target: str | int | None = None,
    weight: Any = None,
    ignore: Collection[str] = (),
    types: Mapping[str, str] | None = None,
    task: str | None = None,
    classes: Sequence[Any] = (),
    outlier_label: Any = None,
    missing: str = "mean",
    max_categories: int = 256,
    hash_bits: int | None = None,
    nulls: Sequence[str] = NULLS,
    on_bad_rows: str = "error",
    schema: Schema | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    zero_based: bool | None = None,
    n_features: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    block_bytes: int = BLOCK_BYTES,
    cache: bool = False,
    partly_labelled: bool = False,
    irrelevant: Any = None,
) -> DataSet:
    """Open files, a data frame or arrays: schema, number of rows where known, chunks of rows.

    Parameters
    ----------
    data : path, glob, list of them, "-" (standard input), a remote URL, a data frame, or a matrix
        A pipe is read to its end, and kept in a temporary file.  Data frames and arrays of Dask are
        taken partition by partition.
    y : array or None, default=None
        Targets of a matrix.
    target : str, int or None, default=None
        The column to predict, by name or by number (from 1, or -1 for the last).
    weight : array, str or None, default=None
        Row weights of a matrix; otherwise the name of their column.
    ignore : collection of str, default=()
        Columns to leave out.
    types : dict or None, default=None
        What columns are: ``{"zip": "category", "city": "hashed:18", "day": "date"}``;
        "powers:3" gives a number its square and cube, of the difference to its mean,
        "category:1000" keeps up to 1000 values apart, "category:all" those of all rows, which are
        looked for in the whole file.
    task : {"classification", "regression", "novelty"} or None, default=None
        None: by the target's values.
    classes : sequence, default=()
        The labels, where the first rows may not have all of them.
    outlier_label : str, number or None, default=None
        With task="novelty": the label of rows of no class.  None: -1, or the whole number below all
        labels; "outlier" among words.
    missing : {"mean", "most_frequent", "error"}, default="mean"
        What becomes of missing values.  With "mean" a feature says so; categories get one of their
        own.
    max_categories : int, default=256
        A text column keeps so many of its most frequent values; the others share one.
    hash_bits : int or None, default=None
        Hash text columns into 2^bits features instead of listing their values.
    nulls : sequence of str
        What a missing value looks like in text: an empty cell, ?, NA and their like by default.
    on_bad_rows : {"error", "skip"}, default="error"
        Rows that are skipped are counted in ``bad``.
    schema : Schema or None, default=None
        That of a trained model, instead of reading one off the data.
    format : {"csv", "svmlight", "parquet", "arrow", "npz", "rows"} or None, default=None
        None: by the name, then by the content.
    delimiter, header : str and bool, or None, default=None
        Of delimited text; None: detected.
    encoding : str, default="utf-8"
        Of delimited and of svmlight text.
    zero_based, n_features : bool and int, or None, default=None
        Of svmlight text; None: read off the files.
    chunk_bytes : int, default=64 MiB
        About how much memory a chunk takes.
    block_bytes : int, default=4 MiB
        About how much is read at once; the rows do not depend on it.
    cache : bool, default=False
        Keep the parsed rows in a binary file beside the source, and read that from then on.
    partly_labelled : bool, default=False
        Rows without a label are kept: their target is NaN.  Some learners learn from them.
    irrelevant : str, number or None, default=None
        The label of rows that belong to no class, which such learners also learn from: their target
        is minus infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import open_data
    >>> data = open_data(np.eye(3), [0, 1, 1])
    >>> data.schema.target.classes
    (0, 1)
    >>> [batch.size for batch in data.chunks(rows=2)]
    [2, 1]
    """
    bad = BadRows(on_bad_rows)
    wishes = Wishes(
        target, weight if isinstance(weight, str) else None, ignore, types, task, classes,
        outlier_label, missing, max_categories, hash_bits, nulls, partly_labelled, irrelevant,
    )  # fmt: skip
    if schema is not None and not schema.is_table:
        if zero_based is not None:
            schema = replace(schema, first_index=0 if zero_based else 1)
        zero_based, n_features = schema.first_index == 0, schema.n_features
    text = {"delimiter": delimiter, "header": header, "encoding": encoding}
    sparse = {"zero_based": zero_based, "n_features": n_features, "encoding": encoding}
    source = open_source(data, y, weight, format, text, sparse, block_bytes)
    if schema is None:
        schema = partly_labelled_schema(source.infer(wishes), wishes, source.name)
    else:
        _check_kind(source, schema)
    dataset = DataSet(source, schema, bad, chunk_bytes)
    return cached(dataset) if cache else dataset


def _check_kind(source: Source, schema: Schema) -> None:
    if source.is_table != schema.is_table:
        kinds = ("a matrix", "a table with named columns")
        have, need = kinds[source.is_table], kinds[schema.is_table]
        raise DataError(f"{source.name} is {have}, but the schema is that of {need}")


def open_source(
    data: Any,
    y: Any = None,
    weight: Any = None,
    format: str | None = None,
    text: Mapping[str, Any] | None = None,
    sparse: Mapping[str, Any] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Source:
    """The reader for this data."""
    paths = _paths(data)
    if paths is None:
        return _in_memory(data, y, weight, block_bytes)
    if y is not None or not (weight is None or isinstance(weight, str)):
        raise ValueError("y and weights go with a matrix; a file's are columns that are named")
    format = format or _format(paths)
    if format not in FORMATS:
        raise ValueError(f"format={format!r}: {nearest(format, FORMATS)}")
    if format == "csv":
        return CsvSource(paths, **(text or {}), block_bytes=block_bytes)
    if format == "svmlight":
        if weight is not None:
            raise ValueError("svmlight text has no weight column")
        return SvmlightSource(paths, **(sparse or {}), block_bytes=block_bytes)
    if format == "parquet":
        return ParquetSource(paths, block_bytes)
    if format == "arrow":
        return ArrowSource(paths, block_bytes)
    if len(paths) > 1:
        raise DataError(f"several files cannot be read together in format {format}")
    if format == "npz":
        return npz_source(paths[0], block_bytes)
    return RowsFile(paths[0])


def _paths(data: Any) -> list[str] | None:
    if isinstance(data, str | os.PathLike):
        return expand(data)
    listed = isinstance(data, list | tuple) and data
    if listed and all(isinstance(d, str | os.PathLike) for d in data):
        return expand(data)
    return None


def _in_memory(data: Any, y: Any, weight: Any, block_bytes: int) -> Source:
    import narwhals.stable.v2 as nw

    if is_collection(data):
        return collection_source(data, y, weight, block_bytes)
    try:
        frame = nw.from_native(data, pass_through=True, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"the data frame cannot be read: {error}") from None
    if isinstance(frame, nw.DataFrame):
        if y is not None or not (weight is None or isinstance(weight, str)):
            raise ValueError("y and weights go with a matrix; a data frame's are named columns")
        return TableSource(data, block_bytes)
    if isinstance(weight, str):
        raise ValueError("weight names a column of a table; a matrix takes an array of weights")
    return MatrixSource(data, y, weight, block_bytes)


def _format(paths: list[str]) -> str:
    """By suffix; text of unknown suffix is svmlight if its first lines look like it."""
    kinds = {_BY_SUFFIX.get(suffix(path)) for path in paths if path != STDIN}
    known = kinds - {None}
    if len(known) > 1:
        raise DataError(f"files of several formats ({', '.join(sorted(map(str, known)))})")
    if known:
        return str(known.pop())
    if STDIN in paths:
        return "csv"
    return _format_by_content(paths[0])


def _format_by_content(path: str) -> str:
    with open_bytes(path) as stream:
        start = stream.read(1 << 16)
    for magic, format in _BY_MAGIC.items():
        if start.startswith(magic):
            return format
    lines = [line for line in start.split(b"\n")[:-1] or [start] if line.strip()][:20]
    lines = [line for line in lines if not line.lstrip().startswith(b"#")]
    plausible = lines and all(_SVMLIGHT_LINE.match(line) for line in lines)
    return "svmlight" if plausible and any(b":" in line for line in lines) else "csv"
