"""Columns of Arrow data as raw cells: numbers, category positions, hashes; NaN where missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from thresher.data._csv_text import murmur3
from thresher.data.encode import Origin, Raw
from thresher.data.errors import BadRows, DataError, nearest
from thresher.data.schema import Column, Schema

__all__ = ["as_words", "cleaned", "is_text", "looks_numeric", "needed_columns", "raw_column",
           "raw_table"]  # fmt: skip

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TILE = 2048  # rows that become row by row at a time: they stay in the cache


def needed_columns(schema: Schema, available: Sequence[str], file: str) -> list[str]:
    """The columns to read: features, and target and weight where the schema has them."""
    names = [c.name for c in schema.features]
    names += [schema.target.name] if schema.target else []
    names += [schema.weight] if schema.weight else []
    known = set(available)
    for name in names:
        if name not in known:
            raise DataError(f"{file} has no column {name!r}: {nearest(name, list(available))}")
    return names


def raw_table(
    table: pa.Table | pa.RecordBatch, schema: Schema, bad: BadRows, origin: Origin
) -> Raw:
    """The cells that the schema asks for; rows with a cell of the wrong kind are reported."""
    n = table.num_rows
    origin = origin._replace(value=lambda i, name: table.column(name)[i].as_py())
    reader = _Cells(schema.nulls, bad, origin, n)
    values = _side_by_side([reader.read(table.column(c.name), c) for c in schema.features], n)
    target = weight = None
    if schema.target is not None:
        target = reader.read(table.column(schema.target.name), _target_column(schema))
    if schema.weight is not None:
        column = Column(schema.weight, "number", missing="error")
        weight = reader.read(table.column(schema.weight), column)
    return reader.kept(Raw(values, target, weight, origin))


def raw_column(array: Any, column: Column, nulls: Sequence[str]) -> np.ndarray:
    """One column's cells, NaN also where they are not of its kind: for looking at a sample."""
    reader = _Cells(nulls, BadRows("skip"), Origin("", lambda i: None), len(array))
    return np.where(reader.good, reader.read(array, column), np.nan)


def _target_column(schema: Schema) -> Column:
    target = schema.target
    assert target is not None
    if target.by_words:
        return Column(target.name, "category", values=target.labels)
    return Column(target.name, "number")


class _Cells:
    """Reads the columns of one block and remembers the rows that cannot be used."""

    def __init__(self, nulls: Sequence[str], bad: BadRows, origin: Origin, n: int):
        self.nulls, self.bad, self.origin = nulls, bad, origin
        self.good = np.ones(n, dtype=bool)

    def kept(self, raw: Raw) -> Raw:
        if self.good.all():
            return raw
        target, weight = (None if p is None else p[self.good] for p in (raw.target, raw.weight))
        return Raw(raw.values[self.good], target, weight, raw.origin.taken(self.good))

    def read(self, array: Any, column: Column) -> np.ndarray:
        plain = pa.types.is_floating(array.type) or pa.types.is_integer(array.type)
        if not (plain and column.kind == "number"):  # numbers say themselves what is missing
            array = cleaned(array, self.nulls)
        elif isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        try:
            if column.kind in ("category", "hashed", "boolean"):
                return self._words(array, column)
            if column.kind == "date":
                return self._dates(array, column)
            return self._numbers(array, column)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise DataError(
                f"{self.origin.file}: column {column.name!r} holds {array.type} values where "
                f"a {column.kind} is expected"
            ) from None

    def _numbers(self, array: pa.Array, column: Column) -> np.ndarray:
        if is_text(array.type):
            fits = pc.fill_null(looks_numeric(array), True)
            self._report(fits, array, column, "is not a number")
            array = pc.if_else(fits, array, None)
        float64 = pa.float64()
        values = _float_array(array if array.type == float64 else array.cast(float64, safe=False))
        if _any_infinite(_read_only(values).view(np.uint64)):
            self._report(pa.array(~np.isinf(values)), array, column, "is not a finite number")
        return values

    def _words(self, array: pa.Array, column: Column) -> np.ndarray:
        if pa.types.is_boolean(array.type) and column.kind == "boolean":
            return _float_array(array.cast(pa.uint8()).cast(pa.float64()))
        coded = as_words(array).dictionary_encode()
        words = coded.dictionary.to_pylist()
        if column.kind == "hashed":
            codes = [float(murmur3(word.encode()) & (2**column.bits - 1)) for word in words]
        else:
            places: dict[str, float] = {}
            for k, word in enumerate(column.spellings()):
                places.setdefault(word, float(k % len(column.values)))
            codes = [places.get(word, -1.0) for word in words]
        return _looked_up(coded, codes)

    def _dates(self, array: pa.Array, column: Column) -> np.ndarray:
        if not is_text(array.type):
            return _float_array(_days(array))
        coded = array.dictionary_encode()
        values = _looked_up(coded, [_day(word) for word in coded.dictionary.to_pylist()])
        fits = pc.or_(pa.array(~np.isnan(values)), array.is_null())
        self._report(fits, array, column, "is not a date like 2024-03-01 or 2024-03-01T12:30")
        return values

    def _report(self, fits: Any, array: pa.Array, column: Column, problem: str) -> None:
        for i in np.flatnonzero(~np.asarray(fits.to_numpy(zero_copy_only=False), dtype=bool)):
            if self.good[i]:
                value = str(array[int(i)].as_py())[:60]
                self.bad.add(self.origin.cell(int(i), column.name, f"{value!r} {problem}"))
                self.good[i] = False


def cleaned(column: Any, nulls: Sequence[str]) -> pa.Array:
    """One array of plain values: no dictionary, blanks around words gone, null where missing."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if is_text(array.type):
        array = pc.utf8_trim(array, characters=" \t")
        return pc.if_else(pc.is_in(array, pa.array(nulls, array.type)), None, array)
    if pa.types.is_floating(array.type):
        array = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(array), None, array)
    return array


def as_words(array: pa.Array) -> pa.Array:
    """Values as text; whole numbers without a point, whatever their type."""
    if is_text(array.type):
        return array
    if pa.types.is_floating(array.type):
        whole = pc.and_(pc.equal(array, pc.round(array)), pc.less(pc.abs(array), 2.0**53))
        integers = pc.if_else(whole, array, None).cast(pa.int64()).cast(pa.string())
        return pc.if_else(pc.fill_null(whole, False), integers, array.cast(pa.string()))
    return array.cast(pa.string())


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def looks_numeric(array: pa.Array) -> Any:
    return pc.match_substring_regex(array, _NUMBER)


def _looked_up(coded: pa.DictionaryArray, codes: list[float]) -> np.ndarray:
    """The code of each value, NaN for null."""
    where = pc.fill_null(coded.indices.cast(pa.int64()), len(codes))
    return np.array([*codes, np.nan])[where.to_numpy(zero_copy_only=False)]


def _days(array: pa.Array) -> pa.Array:
    """Dates and times as days since 1970-01-01."""
    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        raise pa.ArrowNotImplementedError("no dates")
    micro = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.divide(micro.cast(pa.float64(), safe=False), 86_400e6)


def _day(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float((moment - _EPOCH) // timedelta(microseconds=1)) / 86_400e6


def _float_array(array: pa.Array) -> np.ndarray:
    """float64 with NaN for nulls."""
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _read_only(array: np.ndarray) -> np.ndarray:
    """As Arrow's own memory is: all columns are then of one type to compiled code."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True)
def _any_infinite(words):
    """By the bits of the numbers, and without leaving early, in vectors."""
    magnitude, infinity = np.uint64(0x7FFFFFFFFFFFFFFF), np.uint64(0x7FF0000000000000)
    found = np.uint64(0)
    for word in words:
        found |= np.uint64((word & magnitude) == infinity)
    return found != 0


# ---------------------------------------------------------------- columns to rows


def _side_by_side(columns: list[np.ndarray], n: int) -> np.ndarray:
    """The columns as a matrix of rows, eight columns (one line of the cache) at a time."""
    k = len(columns)
    out = np.empty((n, k))
    if k < 8:
        for place, column in enumerate(columns):
            out[:, place] = column
        return out
    columns = list(map(_read_only, columns))
    firsts = [*range(0, k - 8, 8), k - 8]  # the last eight may overlap with those before
    eights = [(first, tuple(columns[first : first + 8])) for first in firsts]
    for start in range(0, n, _TILE):
        stop = min(start + _TILE, n)
        for first, eight in eights:
            _interleave(eight, start, stop, first, out)
    return out


@njit(cache=True, nogil=True)
def _interleave(columns, start, stop, first, out):
    a, b, c, d, e, f, g, h = columns
    for i in range(start, stop):
        row = out[i, first : first + 8]
        row[0], row[1], row[2], row[3] = a[i], b[i], c[i], d[i]
        row[4], row[5], row[6], row[7] = e[i], f[i], g[i], h[i]
