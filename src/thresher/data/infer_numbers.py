"""The schema of a sample that is nothing but numbers, as the compiled parser reads it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thresher.data.arrow_cells import cleaned
from thresher.data.infer import by_name, check_features, infer_table, null_words, with_layout
from thresher.data.infer_plain import count_nonzeros, number_columns
from thresher.data.infer_target import table_target
from thresher.data.schema import Column, Schema
from thresher.data.wishes import Wishes

__all__ = ["infer_numbers"]


def infer_numbers(names: Sequence[str], cells: np.ndarray, wishes: Wishes, file: str) -> Schema:
    """What ``infer_table`` finds for ``cells``, (columns, rows), NaN where missing."""
    if wishes.types or not cells.size or np.any(np.isinf(cells)):
        columns = [pa.array(column, from_pandas=True) for column in cells]
        return infer_table(pa.table(columns, names=list(names)), wishes, file)
    wishes, nulls = by_name(wishes, names, file), null_words(wishes)
    target = None
    if wishes.target is not None:
        place = list(names).index(str(wishes.target))
        values = cleaned(pa.array(cells[place], from_pandas=True), nulls)
        target = table_target(str(wishes.target), values, wishes, file)
    others = {wishes.target, wishes.weight, *wishes.ignore}
    found = [
        Column(column.name, "ignored") if column.name in others else column
        for column in number_columns(names, cells, wishes.missing)
    ]
    schema = Schema(tuple(found), target, wishes.weight, nulls=nulls)
    check_features(schema, file)
    return with_layout(schema, cells.shape[1], count_nonzeros(found, cells))
