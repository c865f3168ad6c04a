"""What a data set holds: ranges, means, density and class balance, in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.data import DataSet, Schema
from thresher.data.dataset import Extent
from thresher.data.errors import BadRows
from thresher.data.rows_file import on_disk
from thresher.engines import engine_for, in_order
from thresher.training.shards import shards_for

__all__ = ["Inspection", "inspected"]


@njit(cache=True, nogil=True)
def _ranges(rows, n, low, high, stored):
    for i in range(n):
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), rows.element(i, k)
            low[j] = min(low[j], x)
            high[j] = max(high[j], x)
            if x != 0.0:
                stored[j] += 1


@dataclass
class Inspection:
    """Per feature: smallest, mean and largest value, and the number of non-zeros."""

    schema: Schema
    rows: int
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    nonzeros: np.ndarray
    class_counts: np.ndarray | None

    @property
    def density(self) -> float:
        return float(self.nonzeros.sum() / max(self.rows * self.schema.n_features, 1))

    def lines(self) -> list[tuple[str, str, float | None, float | None, float | None]]:
        """(name, kind, smallest, mean, largest) of every column, or of every matrix feature."""
        names = self.schema.feature_names()
        if names is None:
            first = self.schema.first_index
            used = [f"feature {j + first}" for j in range(self.schema.n_features)]
            return [(n, "number", *self._numbers(j)) for j, n in enumerate(used)]
        out: list[Any] = []
        offset = 0
        for column in self.schema.columns:
            numeric = column.kind in ("number", "boolean", "date")
            numbers = self._numbers(offset) if numeric else (None, None, None)
            out.append((column.name, self._kind(column), *numbers))
            offset += column.width
        return out

    def _kind(self, column: Any) -> str:
        target = self.schema.target
        if target is not None and column.name == target.name:
            return "target"
        return "row weight" if column.name == self.schema.weight else column.describe()

    def _numbers(self, j: int) -> tuple[float, float, float]:
        return float(self.low[j]), float(self.mean[j]), float(self.high[j])

    def to_json(self) -> dict[str, Any]:
        counts = None
        if self.class_counts is not None and self.schema.target is not None:
            labels = map(str, self.schema.target.classes)
            counts = dict(zip(labels, self.class_counts.tolist(), strict=True))
        names = ("name", "kind", "smallest", "mean", "largest")
        return {
            "rows": self.rows,
            "features": self.schema.n_features,
            "density": self.density,
            "classes": counts,
            "columns": [dict(zip(names, line, strict=True)) for line in self.lines()],
        }


class _Seen(NamedTuple):
    """Of the stored elements of some rows."""

    extent: Extent
    low: np.ndarray
    high: np.ndarray
    stored: np.ndarray
    bad: BadRows

    def plus(self, later: _Seen) -> _Seen:
        """Of these rows and those that come after them."""
        one, other = self.extent, later.extent
        counts = None if one.class_counts is None else one.class_counts + other.class_counts
        extent = Extent(
            one.rows + other.rows, one.moments.merged(other.moments), counts,
            one.nonzeros + other.nonzeros,
        )  # fmt: skip
        self.bad.merge(later.bad)
        low, high = np.minimum(self.low, later.low), np.maximum(self.high, later.high)
        return _Seen(extent, low, high, self.stored + later.stored, self.bad)


def inspected(
    data: DataSet, on_rows: Callable[[int], None] | None = None, cluster: Any = None
) -> Inspection:
    """One pass over the data, by workers if there are any; means are those of weighted rows."""
    seen = _look(data, on_rows) if cluster is None else _look_together(data, on_rows, cluster)
    extent = seen.extent
    absent = extent.moments.mass < extent.moments.total  # zeros that are not stored
    low = np.where(absent, np.minimum(seen.low, 0.0), seen.low)
    high = np.where(absent, np.maximum(seen.high, 0.0), seen.high)
    mean, _ = extent.moments.mean_and_deviation()
    return Inspection(data.schema, extent.rows, low, high, mean, seen.stored, extent.class_counts)


def _look(data: DataSet, on_rows: Callable[[int], None] | None) -> _Seen:
    d = data.schema.n_features
    low, high, stored = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d, dtype=np.int64)
    extent = data.scan(on_rows, lambda batch: _ranges(batch.rows, batch.size, low, high, stored))
    return _Seen(extent, low, high, stored, data.bad)


def _look_together(data: DataSet, on_rows: Callable[[int], None] | None, cluster: Any) -> _Seen:
    rows = 0

    def on_answer(seen: _Seen) -> None:
        nonlocal rows
        rows += seen.extent.rows
        if on_rows is not None:
            on_rows(rows)

    with engine_for(cluster) as engine, on_disk(data) as found:
        parts = in_order(engine, _look, shards_for(engine, found), None, on_answer)
    whole = reduce(_Seen.plus, parts)
    data.bad.count, data.bad.first = whole.bad.count, whole.bad.first
    return whole
