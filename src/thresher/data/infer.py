"""Reading a schema off a sample: kinds of columns, categories and layout."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thresher.data.arrow_cells import (
    as_words,
    cleaned,
    is_text,
    looks_numeric,
    raw_column,
    raw_table,
)
from thresher.data.batch import Sparse
from thresher.data.encode import Encoder, Origin
from thresher.data.errors import BadRows, DataError, nearest
from thresher.data.infer_plain import count_nonzeros, number_columns, numbers_among, typical
from thresher.data.infer_target import table_target
from thresher.data.schema import Column, Schema
from thresher.data.wishes import Wishes

__all__ = ["by_name", "check_features", "distinct_words", "infer_table", "null_words", "numbered",
           "with_layout"]  # fmt: skip

_BOOLEANS = [("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("0", "1")]
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE_NOTE = "a date: types={{{!r}: 'date'}} makes it a number"
_TYPOS = 0.01  # so few words among numbers are bad rows, not categories
_SPARSE_BELOW = 0.25  # share of non-zeros under which compressed rows are smaller and faster


def infer_table(sample: pa.Table, wishes: Wishes, file: str) -> Schema:
    """The schema of a table from its first rows (text columns may hold numbers)."""
    names = sample.column_names
    if sample.num_rows == 0:
        raise DataError(f"{file} has a header but no rows" if names else f"{file} is empty")
    wishes, nulls = by_name(wishes, names, file), null_words(wishes)
    others = {wishes.target, wishes.weight, *wishes.ignore}
    free = [name for name in names if name not in others and name not in (wishes.types or {})]
    found, cells = numbers_among(sample, free, nulls)
    known = dict(zip(found, number_columns(found, cells, wishes.missing), strict=True))
    columns = []
    target = None
    for name in names:
        if name == wishes.target:
            target = table_target(name, cleaned(sample.column(name), nulls), wishes, file)
        if name in others:
            columns.append(Column(name, "ignored"))
        elif name in known:
            columns.append(known[name])
        else:
            columns.append(_column(name, cleaned(sample.column(name), nulls), wishes, nulls, file))
    schema = Schema(tuple(columns), target, wishes.weight, nulls=nulls)
    check_features(schema, file)
    rest = replace(schema, columns=tuple(c for c in columns if c.name not in known), target=None)
    rows, nonzeros = _size(sample, rest) if rest.features else (sample.num_rows, 0)
    if rows < sample.num_rows:  # some rows are bad: the others count
        return with_layout(schema, *_size(sample, schema))
    nonzeros += count_nonzeros(list(known.values()), cells)
    return with_layout(schema, rows, nonzeros)


def null_words(wishes: Wishes) -> tuple[str, ...]:
    """What a missing value looks like."""
    return tuple(dict.fromkeys(("", *(null.strip(" \t") for null in wishes.nulls))))


def check_features(schema: Schema, file: str) -> None:
    if not schema.features:
        listed = "; ".join(f"{c.name}: {c.describe()}" for c in schema.columns[:8])
        raise DataError(
            f"{file}: no column is left to learn from ({listed}); is the delimiter right?"
        )


def _size(sample: pa.Table, schema: Schema) -> tuple[int, int]:
    """Rows and non-zeros of the encoded sample."""
    bad, plain = BadRows("skip"), replace(schema.without_target(), layout="sparse")
    raw = raw_table(sample, plain, bad, Origin("", lambda i: None))
    block = Encoder(plain, bad).encode(raw)
    assert isinstance(block.matrix, Sparse)
    return block.size, block.matrix.data.size


def by_name(wishes: Wishes, names: Sequence[str], file: str) -> Wishes:
    """The same wishes with columns by name, not by number; every one must exist."""
    target = _find(wishes.target, names, file, "target")
    weight = _find(wishes.weight, names, file, "weight column")
    if target is not None and target == weight:
        raise DataError(f"{file}: column {target!r} cannot be both target and weight")
    given = wishes.types or {}
    types = {_find(name, names, file, "column"): kind for name, kind in given.items()}
    ignore = [_find(name, names, file, "column") for name in wishes.ignore]
    return replace(wishes, target=target, weight=weight, types=types, ignore=ignore)


def _find(name: str | int | None, names: Sequence[str], file: str, role: str) -> Any:
    if name is None:
        return None
    if name in names:
        return name
    text = str(name)
    if text.removeprefix("-").isdecimal():  # columns can be counted: from 1, or -1 is the last
        position = int(text)
        if 1 <= abs(position) <= len(names):
            return names[position - 1 if position > 0 else position]
    hint = ""
    if len(names) == 1:
        hint = " (one column was found: is the delimiter right?)"
    elif list(names) == numbered(len(names)):
        hint = " (no header was found: --header says that the first line is one)"
    raise DataError(f"{file} has no {role} {text!r}: {nearest(text, list(names))}{hint}")


def numbered(columns: int) -> list[str]:
    """Names of columns without a header."""
    return [f"c{k}" for k in range(1, columns + 1)]


# ---------------------------------------------------------------- features


def _column(name: str, array: pa.Array, wishes: Wishes, nulls: Sequence[str], file: str) -> Column:
    wish, bits = wishes.kind_of(name)
    kind, note = (wish, "") if wish else _guess(name, array)
    base = Column(name, kind, missing=wishes.missing, note=note)
    flag = wishes.missing == "mean"
    if kind == "ignored":
        return Column(name, kind, note=note)
    if kind in ("number", "date", "boolean"):
        values = _spellings(name, array, file) if kind == "boolean" else ()
        base = replace(base, values=values, flag=flag and array.null_count > 0)
        if bits is not None:  # powers are of the difference to what is usual
            usual = replace(base, missing="mean") if base.missing == "error" else base
            return replace(base, powers=bits, fill=typical(raw_column(array, base, nulls), usual))
        return replace(base, fill=typical(raw_column(array, base, nulls), base))
    if kind == "hashed" or (wishes.hash_bits is not None and wish is None):
        base = replace(base, kind="hashed", bits=bits or wishes.hash_bits or 18, flag=flag)
        return replace(base, fill=typical(raw_column(array, base, nulls), base))
    counts = _counts(array)
    if wish is None and _identifies(array, counts):
        return Column(name, "ignored", note="nearly every value is different: an identifier?")
    kept = counts[: max(bits, 1) if bits is not None else wishes.max_categories]
    note = f"the {len(kept)} most frequent of {len(counts)}" if len(kept) < len(counts) else ""
    # Sorted, so that the order in which values happen to appear leaves no trace.
    values = tuple(sorted({word for word, _ in kept}.union(wishes.listed.get(name, ()))))
    fill = float(values.index(counts[0][0])) if counts else 0.0
    return replace(base, values=values, flag=flag, fill=fill, note=note)


def _guess(name: str, array: pa.Array) -> tuple[str, str]:
    """Kind of a column, and a note for the user."""
    kind = array.type
    if array.null_count == len(array):
        return "ignored", "no values in the sample"
    if pa.types.is_boolean(kind):
        return "boolean", ""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "ignored", _DATE_NOTE.format(name)
    if is_text(kind):
        return _guess_text(name, array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number", ""
    return "ignored", f"{kind} values are no features"


def _guess_text(name: str, array: pa.Array) -> tuple[str, str]:
    present = len(array) - array.null_count
    others = present - int(pc.sum(looks_numeric(array)).as_py() or 0)
    if others <= _TYPOS * present:
        return "number", "a few values are not numbers" if others else ""
    if pc.all(pc.match_substring_regex(array, _DATE)).as_py():
        return "ignored", _DATE_NOTE.format(name)
    return "boolean" if _known_pair(array, 2) else "category", ""


def _known_pair(array: pa.Array, least: int) -> tuple[str, ...]:
    """The pair of words, like no and yes, that a column consists of, but for a few typos."""
    counts = _folded(array)
    rare = _TYPOS * sum(counts.values())
    for pair in _BOOLEANS:
        others = sum(times for word, times in counts.items() if word not in pair)
        if others <= rare and sum(word in counts for word in pair) >= least:
            return pair
    return ()


def _folded(array: pa.Array) -> Counter[str]:
    """How often each word occurs, whatever its capitals."""
    out: Counter[str] = Counter()
    for word, times in _counts(array):
        out[word.lower()] += times
    return out


def _spellings(name: str, array: pa.Array, file: str) -> tuple[str, ...]:
    """(false, true) of a boolean column."""
    if pa.types.is_boolean(array.type) or array.null_count == len(array):
        return _BOOLEANS[0]
    found = _known_pair(array, 1) or tuple(sorted(_folded(array)))
    if len(found) != 2:
        some = ", ".join(map(repr, found[:4])) + (", ..." if len(found) > 4 else "")
        raise DataError(
            f"{file}: column {name!r} is no boolean, it holds {len(found)} values ({some})"
        )
    return found


def _identifies(array: pa.Array, counts: list[tuple[str, int]]) -> bool:
    return len(array) >= 100 and len(counts) > 0.9 * (len(array) - array.null_count)


def _counts(array: pa.Array) -> list[tuple[str, int]]:
    """Values by falling frequency, ties by name; 7.0 counts as 7."""
    pairs = [(p["values"], p["counts"]) for p in pc.value_counts(_plain_words(array)).to_pylist()]
    return sorted(pairs, key=lambda p: (-p[1], p[0]))


def distinct_words(array: pa.Array, nulls: Sequence[str]) -> list[str]:
    """The values of a category, each once."""
    return pc.unique(_plain_words(cleaned(array, nulls))).to_pylist()


def _plain_words(array: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(as_words(array).drop_null(), r"^(-?[0-9]+)\.0$", r"\1")


# ---------------------------------------------------------------- layout


def with_layout(schema: Schema, rows: int, nonzeros: int) -> Schema:
    """Dense or sparse rows, by the sample's share of non-zeros (the same for every format)."""
    d = max(schema.n_features, 1)
    per_row = nonzeros / max(rows, 1)
    sparse = d >= 32 and per_row < _SPARSE_BELOW * d
    return replace(
        schema,
        layout="sparse" if sparse else "dense",
        row_bytes=math.ceil(12 * per_row + 24) if sparse else 8 * d + 8,
    )
