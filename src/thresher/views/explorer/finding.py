"""Where a value is in an order of the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["places_of"]


def places_of(
    table: pa.Table, order: np.ndarray, text: str, columns: Sequence[str], after: int, stride: int,
    owner: np.ndarray | None = None,
) -> int | None:  # fmt: skip
    """The first place behind ``after``, round the end, of a row that has the value in a column.

    Text is found by a part of it, capitals aside; a number by its value; "#7" is the row number 7,
    or the one that it is beside (``owner``).
    """
    found = np.zeros(order.size, bool)
    if text.startswith("#"):
        if not text[1:].isdecimal():
            raise ValueError(f"{text!r} is not the number of a row, like #7")
        row, between = divmod(int(text[1:]) - 1, stride)
        if owner is not None and 1 <= int(text[1:]) <= owner.size:
            row, between = int(owner[int(text[1:]) - 1]), 0
        if between or not 0 <= row < order.size:
            return None
        found[row] = True
    else:
        for name in columns:
            found |= _having(table[name], text)
    places = np.flatnonzero(found[order])
    if not places.size:
        return None
    return int(places[np.searchsorted(places, after, side="right") % places.size])


def _having(cells: pa.ChunkedArray, text: str) -> np.ndarray:
    kind = cells.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            number = float(text)
        except ValueError:
            return np.zeros(len(cells), bool)
        found = pc.equal(pc.cast(cells, pa.float64(), safe=False), number)
    else:
        found = pc.match_substring(pc.cast(cells, pa.large_string()), text, ignore_case=True)
    return np.asarray(pc.fill_null(found, False))
