"""A table that is being looked at: everything that a page may ask for, whoever carries it there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thresher.orderings.cuts import cut_variance
from thresher.orderings.row_ordering import RowOrdering
from thresher.views.explorer import selection
from thresher.views.explorer.beside import Crowd
from thresher.views.explorer.codes import (
    MISSING,
    CodedColumn,
    code_column,
    code_numbers,
    code_table,
)
from thresher.views.explorer.finding import places_of
from thresher.views.explorer.orders import RowOrder, by_column, column_order, row_order
from thresher.views.explorer.pyramid import Pyramid, build_pyramid
from thresher.views.explorer.window import Window, cut_out

__all__ = ["Session", "shown_classes"]

_MOST_CLASSES = 8  # that have a colour; all others share the last
_MOST_POINTS = 4000  # of a scatter plot
_CUT_AMONG = 2000  # cells of a column, between which clusters are cut
_FILE, _SIMILAR = "file", "similar"


class Session:
    """A table, its codes, the orders of its rows, and the pyramid of the order that is shown.

    Parameters
    ----------
    table : pyarrow.Table
    target : str or None, default=None
        A column that is shown beside the map and has no part in the order.
    scores : array or None, default=None
        A model's score of each row, shown beside the map too.
    ordering : RowOrdering or None, default=None
        One that is fitted to these rows is taken as it is.
    title : str, default="table"
    stride : int, default=1
        Every so-manieth row of the file is in the table.
    threads : int, default=1
    rest : callable or None, default=None
        Given the columns and the order, where all other rows of the file belong
        (``thresher.views.explorer.beside``).
    """

    def __init__(
        self,
        table: pa.Table,
        target: str | None = None,
        scores: np.ndarray | None = None,
        ordering: RowOrdering | None = None,
        title: str = "table",
        stride: int = 1,
        threads: int = 1,
        rest: Callable[[Sequence[CodedColumn], RowOrder], Crowd] | None = None,
    ):
        self.table, self.title, self.stride, self.threads = table, title, stride, threads
        if target is not None and target not in table.column_names:
            raise ValueError(f"there is no column {target!r} to show as the target")
        shown = table.drop_columns([target]) if target is not None else table
        if not shown.num_columns or not shown.num_rows:
            raise ValueError("a picture needs at least one row and one column beside the target")
        self.columns = code_table(shown, threads)
        self.target = None if target is None else code_column(target, table[target])
        self.scores = None if scores is None else code_numbers("score", scores)
        found = row_order(self.columns, ordering or RowOrdering(random_state=0, n_jobs=threads))
        similar, self.weights, self.ordered_by = found.order, found.weights, found.used
        crowd = None if rest is None else rest(self.columns, found)
        self.shown = self.columns if crowd is None else crowd.columns
        self.owner = None if crowd is None else crowd.owner
        del found  # it holds what other rows are placed by, four times the codes
        self.orders = {_SIMILAR: similar, _FILE: np.arange(similar.size)}
        for side in self.sides:
            self.orders[f"by {side.name}"] = by_column(side, similar)
        self.column_order = column_order(self.columns, 0)
        self.named: dict[str, np.ndarray] = {}
        self._lock = threading.Lock()
        self.show(_SIMILAR)

    @property
    def sides(self) -> list[CodedColumn]:
        """What is shown beside the map: the target, the scores."""
        return [side for side in (self.target, self.scores) if side is not None]

    # ------------------------------------------------------------ what is shown

    def show(self, order: str) -> None:
        """Show the rows in another order, one of ``orders`` or "column NAME"."""
        with self._lock:
            if order not in self.orders:
                self.orders[order] = self._sorted_by(order)
            rows = self.orders[order]
            self.pyramid: Pyramid = build_pyramid(self.shown + self.sides, rows, self.threads)
            self.order_name = order

    def _sorted_by(self, order: str) -> np.ndarray:
        column = next((c for c in self.columns if f"column {c.name}" == order), None)
        if column is None:
            raise ValueError(f"there is no order {order!r}")
        return by_column(column, self.orders[_SIMILAR])

    @property
    def order(self) -> np.ndarray:
        return self.pyramid.order

    def describe(self) -> dict[str, Any]:
        """What a page must know before its first picture; columns are in their order."""
        columns = [
            {"name": c.name, "kind": "category" if c.is_category else "number",
             "values": list(c.values), "weight": float(self.weights[j])}
            for j, c in ((int(j), self.columns[j]) for j in self.column_order)
        ]  # fmt: skip
        return {
            "title": self.title, "rows": int(self.order.size), "stride": self.stride,
            "ordered_by": self.ordered_by,
            "placed": 0 if self.owner is None else int(self.owner.size),
            "depth": self.pyramid.depth, "columns": columns, "order": self.order_name,
            "orders": [*self.orders],
            "sides": [{"name": s.name, "kind": "category" if s.is_category else "number",
                       "values": list(s.values)} for s in self.sides],
        }  # fmt: skip

    def window(self, window: Window) -> bytes:
        """The visible cells, column after column."""
        return cut_out(self.pyramid, self.column_order, window).tobytes()

    def side(self, number: int, level: int, start: int, stop: int) -> bytes:
        """Beside the map: of a number its mean codes, of classes their shares, 0 to 255.

        Shares come class after class, for eight of them; the last of these is all others.
        """
        sides = self.sides
        if not 0 <= number < len(sides) or not 0 <= level < self.pyramid.depth:
            raise ValueError(f"there is nothing number {number} beside level {level}")
        start, stop = max(start, 0), min(stop, self.pyramid.rows(level))
        if not sides[number].is_category:
            index = len(self.columns) + number
            return self.pyramid.cells(level, "means", index, start, stop).tobytes()
        return _shares(sides[number], self.order, 2**level, start, stop).tobytes()

    # ------------------------------------------------------------ rows

    def row(self, place: int) -> dict[str, Any]:
        """The row at a place of the order: its number in the file, from 1, and its values."""
        if not 0 <= place < self.order.size:
            raise ValueError(f"there is no row at place {place}")
        row = int(self.order[place])
        values = [str(self.table[c.name][row].as_py()) for c in self._shown()]
        scores = [] if self.scores is None else [self.scores.meaning(int(self.scores.codes[row]))]
        return {"row": row * self.stride + 1, "values": values, "scores": scores}

    def _shown(self) -> list[CodedColumn]:
        """The columns of the map in their order, then the target."""
        shown = [self.columns[j] for j in self.column_order]
        return shown if self.target is None else [*shown, self.target]

    def find(self, text: str, column: str | None, after: int) -> int | None:
        """The next place, round the end, of a row with this value, or of the row "#number"."""
        columns = [column] if column is not None else self.table.column_names
        return places_of(
            self.table, self.order, text, columns, after, self.stride, self.owner
        )  # fmt: skip

    def points(self, x: int, y: int, ranges: Sequence[Sequence[int]]) -> bytes:
        """For a scatter plot: codes of two columns of some rows, and whether they are selected."""
        rows = self.order[:: max(1, self.order.size // _MOST_POINTS)]
        chosen = np.isin(rows, selection.rows_of(self.order, ranges)).astype(np.uint8)
        first, second = (self.columns[self.column_order[j]].codes[rows] for j in (x, y))
        return np.concatenate([first, second, chosen]).tobytes()

    # ------------------------------------------------------------ selections

    def summary(self, ranges: Sequence[Sequence[int]]) -> dict[str, Any]:
        """How the rows at these places differ from the rest."""
        rows = selection.rows_of(self.order, ranges)
        found = selection.differences(self.columns + self.sides, rows)
        return {"rows": int(rows.size), "columns": found}

    def name(self, name: str, ranges: Sequence[Sequence[int]]) -> list[str]:
        """Keep the rows at these places under a name, whatever order is shown later."""
        if not name.strip():
            raise ValueError("a selection needs a name")
        self.named[name] = selection.rows_of(self.order, ranges)
        return [*self.named]

    def export(self, kind: str, ranges: Sequence[Sequence[int]]) -> bytes:
        """Rows at these places as "csv" or "parquet", in the order that is shown."""
        return selection.exported(self.table, selection.rows_of(self.order, ranges), kind)

    def export_labels(self) -> bytes:
        """Row numbers and the names of the selections that they are in."""
        return selection.labels([*self.named.items()], self.stride, self.owner)

    def cuts(self, clusters: int) -> list[int]:
        """Places where clusters of neighbours begin, to be moved by hand."""
        level = self.pyramid.level_of(_CUT_AMONG)
        window = Window(level, 0, self.pyramid.rows(level), 0, len(self.columns))
        cells = cut_out(self.pyramid, np.arange(len(self.columns)), window).T / 254.0
        places = np.arange(cells.shape[0])
        pieces = cut_variance(cells, places, min(clusters, places.size))
        return [int(k + 1) * 2**level for k in np.flatnonzero(np.diff(pieces))]


def _shares(
    side: CodedColumn, order: np.ndarray, step: int, start: int, stop: int
) -> np.ndarray:  # fmt: skip
    """The share of each class among the rows of a cell; missing ones count as none."""
    rows = order[start * step : stop * step]
    classes = np.minimum(side.codes[rows], _MOST_CLASSES - 1)
    known = side.codes[rows] != MISSING
    cell = np.arange(rows.size) // step
    height = max(stop - start, 0)
    counts = np.bincount((cell * _MOST_CLASSES + classes)[known], minlength=height * _MOST_CLASSES)
    sizes = np.minimum(step, order.size - np.arange(start, stop) * step)
    shares = counts.reshape(height, _MOST_CLASSES).T / np.maximum(sizes, 1)
    return np.rint(255 * shares).astype(np.uint8)


def shown_classes(side: CodedColumn) -> list[str]:
    """The words for the shares beside the map, in their order; the last may be all others."""
    words = list(side.values[:_MOST_CLASSES])
    return [*words[:-1], "(other)"] if len(side.values) > _MOST_CLASSES else words
