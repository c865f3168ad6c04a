"""Reading a schema off a sample: kinds of columns, categories, task, labels and layout."""

from __future__ import annotations

import difflib
import math
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thresher._outliers import outlier_label
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
from thresher.data.schema import (
    KINDS,
    MISSING,
    MOST_BITS,
    MOST_FEATURES,
    NULLS,
    Column,
    Schema,
    Target,
)
from thresher.registry import TASKS

__all__ = ["Wishes", "by_name", "check_features", "distinct_words", "given_classes", "infer_table",
           "infer_target", "null_words", "numbered", "partly_labelled", "table_target",
           "with_layout"]  # fmt: skip

_BOOLEANS = [("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("0", "1")]
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DATE_NOTE = "a date: types={{{!r}: 'date'}} makes it a number"
_TYPOS = 0.01  # so few words among numbers are bad rows, not categories
_MOST_CLASSES = 20
_EXACT = 2.0**53
_ALIKE = 0.7  # how alike a label and its misspelling are
_WHOLE = "category:all"
_SPARSE_BELOW = 0.25  # share of non-zeros under which compressed rows are smaller and faster


@dataclass(frozen=True)
class Wishes:
    """What the user says about the data; everything left out is read off the sample.

    ``types`` maps column names to kinds (or "hashed:18" for 2^18 features).  ``listed``: all values
    of columns that are "category:all", once somebody has looked for them.
    """

    target: str | int | None = None
    weight: str | None = None
    ignore: Collection[str] = ()
    types: Mapping[str, str] | None = None
    task: str | None = None
    classes: Sequence[Any] = ()
    outlier_label: Any = None
    missing: str = "mean"
    max_categories: int = 256
    hash_bits: int | None = None  # hash every text column into so many bits
    nulls: Sequence[str] = NULLS
    partly_labelled: bool = False
    irrelevant: Any = None
    listed: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"missing={self.missing!r}: choose one of {', '.join(MISSING)}")
        known = [name for name, task in TASKS.items() if task.has_target]
        if self.task is not None and self.task not in known:
            raise ValueError(f"task={self.task!r}: {' or '.join(map(repr, known))}")
        if self.outlier_label is not None and self.task != "novelty":
            raise ValueError(
                f"outlier_label={self.outlier_label!r} is about novelty detection: say "
                "task='novelty' with it"
            )
        if self.hash_bits is not None and not 1 <= self.hash_bits <= MOST_BITS:
            raise ValueError(f"hash_bits must lie in 1 .. 26, got {self.hash_bits}")
        if self.max_categories < 1:
            raise ValueError(f"max_categories must be at least 1, got {self.max_categories}")

    def kind_of(self, name: str) -> tuple[str | None, int | None]:
        wish = (self.types or {}).get(name)
        if wish is None:
            return None, None
        if wish == _WHOLE:
            return "category", MOST_FEATURES
        kind, _, bits = wish.partition(":")
        numbered = kind in ("hashed", "category") and bits.isdigit()
        if kind not in KINDS or (bits and not numbered):
            raise ValueError(
                f"column {name!r}: unknown type {wish!r}, choose one of {', '.join(KINDS)} "
                "(hashed:18 for 2^18 features, category:1000 for up to 1000 values, category:all "
                "for all of the file)"
            )
        if kind == "hashed" and bits and not 1 <= int(bits) <= MOST_BITS:
            raise ValueError(f"column {name!r}: hashing takes 1 .. 26 bits, got {bits}")
        return kind, int(bits) if bits else None

    @property
    def whole(self) -> list[str]:
        """Columns whose values are those of all rows, not of the sample alone."""
        return [name for name, wish in (self.types or {}).items() if wish == _WHOLE]


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


# ---------------------------------------------------------------- the target


def table_target(name: str, array: pa.Array, wishes: Wishes, file: str) -> Target:
    if array.null_count == len(array):
        if wishes.classes:
            return given_classes(name, wishes.classes, wishes)
        raise DataError(
            f"{file}: the target column {name!r} is empty in the sample (classes=[...] lists "
            "labels that only later rows have)"
        )
    array = array.drop_null()
    numeric = not is_text(array.type) or bool(pc.all(looks_numeric(array)).as_py())
    if wishes.task == "regression" and not numeric:
        wrong = array.filter(pc.invert(looks_numeric(array)))[0].as_py()
        raise DataError(f"{file}: the target {name!r} is {wrong!r} in a row: not a number")
    if wishes.classes:
        return given_classes(name, wishes.classes, wishes)
    if numeric:
        try:
            numbers = array.cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"{file}: the target column {name!r} holds {array.type} values"
            ) from None
        return infer_target(name, numbers.to_numpy(zero_copy_only=False), wishes, file)
    words = sorted(pc.unique(array).to_pylist())
    if len(words) > 1000 and len(words) > 0.5 * len(array):
        raise DataError(f"{file}: the target {name!r} has {len(words)} different words: no labels")
    return _classes(name, words, wishes)


def infer_target(
    name: str, values: np.ndarray, wishes: Wishes, file: str, every: np.ndarray | None = None
) -> Target:
    """Task and labels of numeric targets: a few whole numbers are classes.

    ``every``: the labels of all rows, where they are known; the task goes by the sample alone, so
    that all formats agree.
    """
    if wishes.classes:
        return given_classes(name, wishes.classes, wishes)
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    task = wishes.task
    if task is None:
        few = distinct.size <= _MOST_CLASSES and (distinct.size <= 2 or values.size > distinct.size)
        whole = bool(np.all(distinct == np.round(distinct)))
        task = "classification" if whole and few else "regression"
    if task == "regression":
        return Target(name, "regression")
    _check_are_labels(name, values, distinct, file)
    if every is not None:
        distinct = np.unique(every[np.isfinite(every)])
    if not 0 < distinct.size <= 10_000:
        raise DataError(f"{file}: the target {name!r} has {distinct.size} different labels")
    largest = float(np.max(np.abs(distinct)))
    if largest > _EXACT and bool(np.all(distinct == np.round(distinct))):
        raise DataError(
            f"{file}: the target {name!r} has the label {largest:.17g}; beyond 2^53 whole numbers "
            "are not told apart: write labels as words, or give task='regression'"
        )
    return _classes(name, _labels(distinct), wishes)


def _check_are_labels(name: str, values: np.ndarray, distinct: np.ndarray, file: str) -> None:
    """Fractions of which hardly two are the same were measured."""
    many = distinct.size > max(_MOST_CLASSES, 0.5 * values.size)
    if many and bool(np.any(distinct != np.round(distinct))):
        raise DataError(
            f"{file}: the target {name!r} has {distinct.size} different values in {values.size} "
            f"rows, {distinct[0]:g} and {distinct[1]:g} among them: these are numbers, not labels; "
            "give task='regression', or classes if they are labels"
        )


def given_classes(name: str, classes: Sequence[Any], wishes: Wishes) -> Target:
    """The labels that the user lists."""
    if wishes.task == "regression":
        raise ValueError("classes are given, but task='regression'")
    if all(isinstance(c, str) for c in classes):
        return _classes(name, sorted(set(classes)), wishes)
    try:
        labels = _labels(np.unique(np.asarray(classes, np.float64)))
    except (TypeError, ValueError):
        raise ValueError(f"classes must be all text or all numbers, got {classes!r}") from None
    return _classes(name, labels, wishes)


def _classes(name: str, labels: Sequence[Any], wishes: Wishes) -> Target:
    """A target of these labels; for novelty detection with that of rows of no class."""
    if wishes.task != "novelty":
        return Target(name, "classification", tuple(labels))
    given = _as_label(wishes.outlier_label, labels)
    _check_spelling("outlier_label", given, labels)
    known = [label for label in labels if label != given]
    if not known:
        raise DataError(f"all rows looked at have the outliers' label {given!r}")
    outlier = outlier_label(known, given)
    return Target(name, "novelty", tuple(sorted([*known, outlier])), outlier)


def partly_labelled(schema: Schema, wishes: Wishes, name: str) -> Schema:
    """The schema of rows that may have no label, or one that says that they are of no class."""
    target = schema.target
    if target is None or not (wishes.partly_labelled or wishes.irrelevant is not None):
        return schema
    marker = wishes.irrelevant
    if not target.classes:
        if marker is None:
            return schema  # no learner of numbers asks for it
        raise DataError(
            f"{name}: irrelevant={marker!r} is about labels, but the target {target.name!r} is a "
            "number: give task='classification' if these are labels"
        )
    marker = _as_label(marker, target.classes)
    if isinstance(marker, str) and not target.by_words:
        raise DataError(f"{name}: irrelevant={marker!r} is a word, but the labels are numbers")
    if marker is not None and not isinstance(marker, str) and target.by_words:
        marker = str(marker)
    _check_spelling("irrelevant", marker, target.classes)
    classes = tuple(label for label in target.classes if label != marker)
    if not classes:
        raise DataError(f"{name}: all labelled rows looked at are irrelevant ({marker!r})")
    return replace(schema, target=replace(target, classes=classes, partly=True, irrelevant=marker))


def _check_spelling(option: str, given: Any, labels: Sequence[Any]) -> None:
    """No row needs to have the label of rows of no class; but it may be another's, misspelled."""
    if not isinstance(given, str) or given in labels:
        return
    plain = {str(label).strip().casefold(): label for label in labels}
    close = difflib.get_close_matches(given.strip().casefold(), plain, 1, _ALIKE)
    if close:
        warnings.warn(
            f"no row looked at has the label {option}={given!r}, but some have {plain[close[0]]!r}",
            stacklevel=2,
        )


def _labels(distinct: np.ndarray) -> tuple[Any, ...]:
    kind: Any = int if np.all(distinct == np.round(distinct)) else float
    return tuple(kind(v) for v in distinct)


def _as_label(given: Any, labels: Sequence[Any]) -> Any:
    """A word that was typed for a number, as the number."""
    if not isinstance(given, str) or isinstance(labels[0], str):
        return given
    try:
        return _labels(np.array([float(given)]))[0]
    except ValueError:
        return given


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
