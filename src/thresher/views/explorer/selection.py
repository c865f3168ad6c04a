"""Rows that were selected on the map: how they differ from the rest, and how they leave.

A column differs by what can be seen of it, its codes:

numbers     Cliff's delta, P(selected > rest) - P(selected < rest), from -1 to 1
categories  the total variation between the two distributions, sum |p - q| / 2, from 0 to 1
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from thresher.views.explorer.codes import MISSING, CodedColumn

__all__ = ["differences", "exported", "labels", "rows_of"]


def rows_of(order: np.ndarray, ranges: Sequence[Sequence[int]]) -> np.ndarray:
    """Numbers of the rows at the places start .. stop - 1 of the order, each once, in its order."""
    chosen = np.zeros(order.size, bool)
    for start, stop in ranges:
        if not 0 <= start < stop <= order.size:
            raise ValueError(f"places {start} to {stop} do not lie in 0 to {order.size}")
        chosen[start:stop] = True
    return order[chosen]


def differences(columns: Sequence[CodedColumn], rows: np.ndarray) -> list[dict[str, Any]]:
    """How each column of the selected rows differs from that of the rest, most different first."""
    found = [_difference(column, rows) for column in columns]
    return sorted(found, key=_likeness)


def _likeness(found: dict[str, Any]) -> float:
    return -max(abs(found["effect"]), abs(found["missing"] - found["rest_missing"]))


def _difference(column: CodedColumn, rows: np.ndarray) -> dict[str, Any]:
    here = np.bincount(column.codes[rows], minlength=256)
    rest = np.bincount(column.codes, minlength=256) - here
    found = {
        "name": column.name,
        "missing": _share(here[MISSING], here.sum()),
        "rest_missing": _share(rest[MISSING], rest.sum()),
    }
    here, rest = here[:MISSING], rest[:MISSING]
    if not here.sum() or not rest.sum():
        return {**found, "effect": 0.0, "here": "", "rest": ""}
    p, q = here / here.sum(), rest / rest.sum()
    if column.is_category:
        effect, words = _of_categories(column, p, q)
    else:
        below = np.concatenate([[0.0], np.cumsum(q)[:-1]])
        above = 1.0 - below - q
        effect = float(p @ (below - above))
        words = [column.meaning(_median(counts)) for counts in (here, rest)]
    return {**found, "effect": effect, "here": words[0], "rest": words[1]}


def _of_categories(
    column: CodedColumn, p: np.ndarray, q: np.ndarray
) -> tuple[float, list[str]]:  # fmt: skip
    """The total variation, and both shares of the category whose share has grown most."""
    most = int(np.argmax(p - q))
    words = [f"{column.meaning(most)}: {share:.0%}" for share in (p[most], q[most])]
    return 0.5 * float(np.abs(p - q).sum()), words


def _share(count: int, total: int) -> float:
    return float(count / total) if total else 0.0


def _median(counts: np.ndarray) -> int:
    return int(np.searchsorted(np.cumsum(counts), counts.sum() / 2.0))


def exported(table: pa.Table, rows: np.ndarray, kind: str) -> bytes:
    """These rows of the table as a file of this kind, "csv" or "parquet"."""
    part, out = table.take(pa.array(rows)), io.BytesIO()
    if kind == "csv":
        pa_csv.write_csv(part, out)
    elif kind == "parquet":
        pq.write_table(part, out)
    else:
        raise ValueError(f"rows are exported as csv or parquet, not as {kind!r}")
    return out.getvalue()


def labels(
    named: Sequence[tuple[str, np.ndarray]], stride: int = 1, owner: np.ndarray | None = None
) -> bytes:  # fmt: skip
    """A CSV file of row numbers, from 1, and the names of the selections that they are in.

    ``stride``: every so-manieth row of the file was read.  ``owner``: the row that each row of the
    file is beside, and goes with.
    """
    parts = [rows * stride if owner is None else np.flatnonzero(np.isin(owner, rows))
             for _, rows in named]  # fmt: skip
    numbers = np.concatenate(parts or [np.empty(0, np.int64)])
    names = np.repeat([name for name, _ in named], [part.size for part in parts])
    by_row = np.argsort(numbers, kind="stable")
    columns = [pa.array(numbers[by_row] + 1), pa.array(names[by_row].astype(str))]
    out = io.BytesIO()
    pa_csv.write_csv(pa.table(columns, names=["row", "label"]), out)
    return out.getvalue()
