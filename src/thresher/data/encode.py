"""From raw columns to rows of features, by the schema; and from labels to targets.

Every table, whatever file it came from, first becomes a ``Raw`` block: one float64 per cell, which
is the number, the position of the category (-1: not among them), the hash, or NaN where missing.
One small kernel per layout then writes the features.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._blanks import IRRELEVANT_TARGET, UNLABELLED_TARGET
from thresher.data.batch import Batch, Sparse
from thresher.data.errors import BadCell, BadRows
from thresher.data.schema import Schema, Target
from thresher.registry import TASKS

__all__ = ["Encoder", "Origin", "Raw"]

_NUMBER, _CATEGORY, _HASHED = 0, 1, 2


def _unknown(i: int, column: str) -> Any:
    return None


class Origin(NamedTuple):
    """Where the rows of a block come from.

    ``line(i)`` is the place of row i and ``value(i, column)`` what is written there, None where
    that is not known; both are asked only when something is wrong.
    """

    file: str
    line: Callable[[int], int | None]
    value: Callable[[int, str], Any] = _unknown
    unit: str = "line"

    def cell(self, i: int, column: str | None, problem: str) -> BadCell:
        return BadCell(self.file, self.line(i), column, problem, self.unit)

    def taken(self, good: np.ndarray) -> Origin:
        """The origin of the rows where a mask is true."""
        places = np.flatnonzero(good)
        return self._replace(
            line=lambda i: self.line(int(places[i])),
            value=lambda i, column: self.value(int(places[i]), column),
        )

    def shown(self, i: int, column: str) -> str:
        """The value there in quotes, or 'the value'."""
        value = self.value(i, column)
        return "the value" if value is None else repr(str(value)[:60])


class Raw(NamedTuple):
    """Cells of the feature columns, targets and weights as numbers, NaN where missing."""

    values: np.ndarray
    target: np.ndarray | None
    weight: np.ndarray | None
    origin: Origin


class _Layout(NamedTuple):
    """The schema's columns as arrays for the kernels."""

    kinds: np.ndarray
    offsets: np.ndarray
    fills: np.ndarray
    levels: np.ndarray  # categories, or hashes
    flags: np.ndarray  # feature for "missing", -1 without
    powers: np.ndarray


class Encoder:
    """Applies a schema to raw blocks, reporting the rows that contradict it.

    Threads share one.  Slots, because Python 3.11 may give an object two ``__dict__`` that free
    each other's values where two threads ask for the first (as ``copy`` does) and the collector
    runs Python code, a user's ``gc.callbacks`` or ``__del__``, in the middle of it.
    """

    __slots__ = ("_boolean", "_identity", "_layout", "_powers", "_strict", "bad", "schema")

    def __init__(self, schema: Schema, bad: BadRows):
        self.schema, self.bad = schema, bad
        self._layout = _layout(schema)
        columns = schema.features
        self._strict = [k for k, c in enumerate(columns) if c.missing == "error"]
        self._boolean = [k for k, c in enumerate(columns) if c.kind == "boolean"]
        self._powers = [k for k, c in enumerate(columns) if c.powers > 1]
        plain = all(c.kind in ("number", "boolean", "date") and c.width == 1 for c in columns)
        self._identity = plain and schema.layout == "dense"

    def reporting_to(self, bad: BadRows) -> Encoder:
        """The same encoder with another account of bad rows: one for each thread."""
        other = copy(self)
        other.bad = bad
        return other

    def encode(self, raw: Raw) -> Batch:
        """Features, targets and weights of the good rows."""
        raw, y = self._good(raw)
        values = raw.values
        if self._identity:
            if values.size and np.isnan(values.min()):
                values = np.where(np.isnan(values), self._layout.fills, values)
            return Batch(np.ascontiguousarray(values), y, raw.weight)
        if self.schema.layout == "dense":
            out = np.zeros((values.shape[0], self.schema.n_features))
            _fill_dense(values, *self._layout, out)
            return Batch(out, y, raw.weight)
        return Batch(_sparse(values, self._layout), y, raw.weight)

    def encode_matrix(
        self, matrix: np.ndarray | Sparse, target: Any, weight: Any, origin: Origin
    ) -> Batch:
        """Rows that are features already; only targets and weights are checked and coded."""
        n = Batch(matrix, None, None).size
        y, good = self._coded(target, np.ones(n, dtype=bool), origin)
        good = self._weighted(weight, good, origin)
        block = Batch(matrix, y, weight)
        return block if good.all() else block.taken(good)

    # ------------------------------------------------------------ which rows are good

    def _good(self, raw: Raw) -> tuple[Raw, np.ndarray | None]:
        good = np.ones(raw.values.shape[0], dtype=bool)
        for k in self._strict:
            for i in np.flatnonzero(np.isnan(raw.values[:, k]) & good):
                self._refuse(i, good, raw.origin, self.schema.features[k].name, "missing value")
        for k in self._boolean:
            column = self.schema.features[k]
            for i in np.flatnonzero((raw.values[:, k] < 0.0) & good):
                shown = raw.origin.shown(int(i), column.name)
                problem = f"{shown} is neither of {'/'.join(column.values)}"
                self._refuse(i, good, raw.origin, column.name, problem)
        for k in self._powers:
            column = self.schema.features[k]
            with np.errstate(over="ignore", invalid="ignore"):
                beyond = np.isinf((raw.values[:, k] - column.fill) ** column.powers)
            for i in np.flatnonzero(beyond & good):
                away = f"{raw.values[i, k]:g} is too far from {column.fill:g}, the usual value,"
                problem = f"{away} for a power of {column.powers}"
                self._refuse(int(i), good, raw.origin, column.name, problem)
        y, good = self._coded(raw.target, good, raw.origin)
        good = self._weighted(raw.weight, good, raw.origin)
        if good.all():
            return raw, y
        weight = None if raw.weight is None else raw.weight[good]
        return raw._replace(values=raw.values[good], weight=weight), None if y is None else y[good]

    def _refuse(
        self, i: Any, good: np.ndarray, origin: Origin, column: str | None, problem: str
    ) -> None:
        self.bad.add(origin.cell(int(i), column, problem))
        good[i] = False

    def _coded(self, target: Any, good: np.ndarray, origin: Origin) -> tuple[Any, np.ndarray]:
        described = self.schema.target
        if described is None or target is None:
            return None, good
        if not TASKS[described.task].has_classes:
            y, wrong = target, ~np.isfinite(target)
        elif described.by_words:
            y, wrong = target, ~(target >= 0.0)
        else:
            y, wrong = _class_numbers(target, described)
        if described.partly:
            y, wrong = _partly(y, target, described), wrong & ~np.isnan(target)
        for i in np.flatnonzero(wrong & good):
            problem = _target_problem(target[i], described, origin.shown(int(i), described.name))
            self._refuse(i, good, origin, described.name, problem)
        return y, good

    def _weighted(self, weight: Any, good: np.ndarray, origin: Origin) -> np.ndarray:
        if weight is not None:
            with np.errstate(invalid="ignore"):
                wrong = ~(np.isfinite(weight) & (weight >= 0.0))
            for i in np.flatnonzero(wrong & good):
                problem = f"weight {weight[i]:g} is not a number of at least 0"
                self._refuse(i, good, origin, self.schema.weight, problem)
        return good


def _class_numbers(target: np.ndarray, described: Target) -> tuple[np.ndarray, np.ndarray]:
    """The place of every label among the classes, and where it is none of them."""
    codes, wrong = np.empty(target.size), np.empty(target.size, dtype=bool)
    _look_up(np.asarray(described.labels, dtype=np.float64), target, codes, wrong)
    return codes, wrong


def _partly(places: np.ndarray, target: np.ndarray, described: Target) -> np.ndarray:
    """Places among all labels as class numbers; blanks and irrelevant rows have none."""
    y = places.copy()
    if described.irrelevant is not None:
        place = float(described.labels.index(described.irrelevant))
        y[places > place] -= 1.0
        y[places == place] = IRRELEVANT_TARGET
    y[np.isnan(target)] = UNLABELLED_TARGET
    return y


@njit(cache=True, nogil=True)
def _look_up(classes, target, codes, wrong):
    """Binary search; rows of a label that is not there are given any code."""
    for i in range(target.size):
        low, high = 0, classes.size - 1
        while low < high:
            middle = (low + high) // 2
            if classes[middle] < target[i]:
                low = middle + 1
            else:
                high = middle
        codes[i], wrong[i] = low, classes[low] != target[i]


def _target_problem(value: float, target: Target, shown: str) -> str:
    if np.isnan(value):
        return "the target is missing"
    if not TASKS[target.task].has_classes:
        return f"the target {value} is not a finite number"
    known = ", ".join(map(repr, target.labels[:8])) + (", ..." if len(target.labels) > 8 else "")
    label = shown if target.by_words else f"label {value:g}"
    return f"{label} is not among the classes {known} (classes=[...] lists all of them)"


def _layout(schema: Schema) -> _Layout:
    codes = {"category": _CATEGORY, "hashed": _HASHED}
    columns = schema.features
    widths = np.array([c.width for c in columns], dtype=np.int64)
    offsets = np.cumsum(widths) - widths if widths.size else widths
    return _Layout(
        np.array([codes.get(c.kind, _NUMBER) for c in columns], dtype=np.int64),
        offsets,
        np.array([c.fill for c in columns], dtype=np.float64),
        np.array([_levels(c) for c in columns], dtype=np.int64),
        np.array([o + c.width - 1 if c.flag else -1 for o, c in zip(offsets, columns, strict=True)],
                 dtype=np.int64),
        np.array([c.powers for c in columns], dtype=np.int64),
    )  # fmt: skip


def _levels(column: Any) -> int:
    return 2**column.bits if column.kind == "hashed" else len(column.values)


@njit(cache=True, nogil=True)
def _place(value, kind, offset, fill, levels, flag):
    """(feature, its value, also flag it as missing?) of one cell; feature -1: none."""
    if np.isnan(value):
        if kind == 0:
            return offset, fill, flag >= 0
        if flag >= 0:
            return -1, 0.0, True
        value = fill
    if kind == 0:
        return offset, value, False
    if value < 0.0:
        return offset + levels, 1.0, False
    return offset + int(value), 1.0, False


@njit(cache=True, nogil=True)
def _fill_dense(raw, kinds, offsets, fills, levels, flags, powers, out):
    for i in range(raw.shape[0]):
        for k in range(raw.shape[1]):
            j, x, missing = _place(raw[i, k], kinds[k], offsets[k], fills[k], levels[k], flags[k])
            if j >= 0:
                out[i, j] = x
            power = away = x - fills[k]
            for p in range(1, powers[k]):
                power *= away
                out[i, j + p] = power
            if missing:
                out[i, flags[k]] = 1.0


@njit(cache=True, nogil=True)
def _fill_sparse(raw, kinds, offsets, fills, levels, flags, powers, data, indices, indptr):
    """Non-zeros only, in ascending order of the features."""
    size = 0
    for i in range(raw.shape[0]):
        for k in range(raw.shape[1]):
            j, x, missing = _place(raw[i, k], kinds[k], offsets[k], fills[k], levels[k], flags[k])
            if j >= 0 and x != 0.0:
                data[size], indices[size] = x, j
                size += 1
            power = away = x - fills[k]
            for p in range(1, powers[k]):
                power *= away
                if power != 0.0:
                    data[size], indices[size] = power, j + p
                    size += 1
            if missing:
                data[size], indices[size] = 1.0, flags[k]
                size += 1
        indptr[i + 1] = size
    return size


def _sparse(raw: np.ndarray, layout: _Layout) -> Sparse:
    n = raw.shape[0]
    flagged = int(np.count_nonzero((layout.flags >= 0) & (layout.kinds == _NUMBER)))
    most = n * (flagged + int(layout.powers.sum()))
    data, indices = np.empty(most), np.empty(most, dtype=np.int32)
    indptr = np.zeros(n + 1, dtype=np.int32)
    size = _fill_sparse(raw, *layout, data, indices, indptr)
    return Sparse(data[:size], indices[:size], indptr)
