"""The first look at data by workers: each looks at its shards, and the findings are put together.

The findings are those of one look at all rows (``intake.py``): the same rows are held out, the
same counts are made, and moments agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from thresher.data import DataError, DataSet, Moments
from thresher.data.dataset import renumbered, window_rows
from thresher.data.errors import BadRows
from thresher.engines import Engine, in_order
from thresher.training.holdout import HoldOut
from thresher.training.intake import Intake, new_intake
from thresher.training.shards import shards_for

__all__ = ["survey"]


class Found(NamedTuple):
    """What a worker finds in a shard; ``hold`` has the rows that it has held out."""

    rows: int
    bad: BadRows
    moments: Moments
    class_counts: np.ndarray | None
    hold: HoldOut


def survey(
    data: DataSet, shards: int | None, hold: HoldOut, engine: Engine,
    on_reading: Callable[[int], None], whole_window: bool = False,
) -> Intake:  # fmt: skip
    """An intake whose rows stay where they are, in shards that workers read.

    ``shards``: how many; None: by the size of the files.
    """
    intake = new_intake(data, data.head(window_rows(data.schema.row_bytes)), hold, whole_window)
    looked = 0

    def on_answer(found: Found) -> None:
        nonlocal looked
        looked += found.rows
        on_reading(looked)

    parts = shards_for(engine, data, shards)
    engine.prepare(_look, parts[0], hold.without_rows())
    found = in_order(engine, _look, parts, hold.without_rows(), on_answer)
    # Blank lines and bad rows shift the numbers of the rows after them, and so who is held out.
    right = renumbered(parts, [one.rows for one in found])
    moved = [k for k, part in enumerate(parts) if right[k].first != part.first]
    again = in_order(engine, _look, [right[k] for k in moved], hold.without_rows())
    for k, one in zip(moved, again, strict=True):
        found[k] = one
    data.bad.count, data.bad.first = 0, []
    for one in found:
        _add(intake, one)
    if not intake.looked:
        raise DataError(f"{data.name} has no usable rows ({data.bad})")
    intake.release()
    intake.rows, intake.shards = intake.looked - hold.size, right
    return intake


def _look(shard: DataSet, hold: HoldOut) -> Found:
    """Count the rows of a shard, and hold some of them out."""
    hold, batches = hold.without_rows(), shard.chunks(window_rows(shard.schema.row_bytes))
    first = next(batches, None)
    if first is None:
        none: Any = None
        return Found(0, shard.bad, Moments.empty(shard.schema.n_features), none, hold)
    intake = new_intake(shard, first, hold)
    rows = 0
    for batch in chain([first], batches):
        intake.count(batch, hold.collect(batch))
        rows += batch.size
    return Found(rows, shard.bad, intake.moments, intake.class_counts, hold)


def _add(intake: Intake, found: Found) -> None:
    """The findings of the next shard."""
    intake.looked += found.rows
    intake.data.bad.merge(found.bad)
    intake.moments = intake.moments.merged(found.moments)
    if intake.class_counts is not None and found.class_counts is not None:
        intake.class_counts += found.class_counts
    intake.hold.absorb(found.hold)
    intake.count_back()
    intake.mass = intake.moments.total
