"""The first look at data by workers: each looks at its shards, and the findings are put together.

The findings are those of one look at all rows (``intake.py``): the same rows are held out, the
same counts are made, and moments agree to rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np

from thresher.data import Batch, DataError, DataSet, Moments
from thresher.data.batch import gathered
from thresher.data.dataset import renumbered, window_rows
from thresher.data.errors import BadRows
from thresher.engines import Engine, in_order
from thresher.training.holdout import HoldOut, draws
from thresher.training.intake import Intake, head_rows, new_intake
from thresher.training.shards import shards_for

__all__ = ["survey"]

_SAMPLING = 3  # the counter that sets these draws apart from those of the held-out rows


class Asked(NamedTuple):
    """What workers are to hold out, and the share of the other rows that they send for a sample."""

    hold: HoldOut
    share: float


class Found(NamedTuple):
    """What a worker finds in a shard; ``hold`` has the rows that it has held out."""

    rows: int
    bad: BadRows
    moments: Moments
    class_counts: np.ndarray | None
    hold: HoldOut
    sample: list[Batch]


def survey(
    data: DataSet, shards: int | None, hold: HoldOut, engine: Engine,
    on_reading: Callable[[int], None], whole_window: bool = False,
) -> Intake:  # fmt: skip
    """An intake whose rows stay where they are, in shards that workers read.

    ``shards``: how many; None: by the size of the files.  ``whole_window``: the sample has as many
    rows as a window, for learners that need many to begin with; they are spread over all shards.
    """
    window = window_rows(data.schema.row_bytes)
    first = data.head(head_rows(data, whole_window))
    intake = new_intake(data, first, hold, whole_window)
    _compile(intake)
    looked = 0

    def on_answer(found: Found) -> None:
        nonlocal looked
        looked += found.rows
        on_reading(looked)

    parts = shards_for(engine, data, shards)
    spread = whole_window and len(parts) > 1
    asked = Asked(_lowered(hold, parts[-1].first), _share(parts, first, window) if spread else 0.0)
    found = in_order(engine, _look, parts, asked, on_answer)
    # Blank lines and bad rows shift the numbers of the rows after them, and so who is held out.
    right = renumbered(parts, [one.rows for one in found])
    moved = [k for k, part in enumerate(parts) if right[k].first != part.first]
    needed = _lowered(hold, sum(one.rows for one in found))
    if needed.threshold > asked.hold.threshold:  # there are far fewer rows than lines
        asked, moved = asked._replace(hold=needed), list(range(len(parts)))
    for k, one in zip(moved, in_order(engine, _look, [right[k] for k in moved], asked),
                      strict=True):  # fmt: skip
        found[k] = one
    data.bad.count, data.bad.first = 0, []
    for one in found:
        _add(intake, one)
    if not intake.looked:
        raise DataError(f"{data.name} has no usable rows ({data.bad})")
    if shards is not None and len(parts) == 1 < min(shards, intake.looked):
        warnings.warn(
            f"{data.name} is one shard and cannot be cut into {shards}: compressed text, row "
            "groups of Parquet and blocks of .rows files stay whole",
            stacklevel=2,
        )
    intake.release()
    intake.rows, intake.shards = intake.looked - hold.size, right
    if spread:
        sample = (batch for one in found for batch in one.sample)
        intake.sample = next(gathered(sample, window), intake.sample)
    return intake


def _compile(intake: Intake) -> None:
    """What workers of this machine will run: they find it in the cache."""
    Moments.empty(intake.data.schema.n_features).updated(intake.sample.rows)


def _lowered(hold: HoldOut, rows: int) -> HoldOut:
    """Who holds out what is left of so many rows; workers send no others."""
    lowered = hold.without_rows()
    lowered.lower(rows)
    return lowered


def _share(parts: list[DataSet], first: Batch, window: int) -> float:
    """Of the rows, that is about a window of them; the last shard counts as one more like it."""
    rows = max(parts[-1].first * len(parts) / (len(parts) - 1), first.size)
    return min(window / rows, 1.0)


def _look(shard: DataSet, asked: Asked) -> Found:
    """Count the rows of a shard, hold some of them out, and send some."""
    hold, batches = asked.hold.without_rows(), shard.chunks(window_rows(shard.schema.row_bytes))
    first = next(batches, None)
    if first is None:
        return Found(0, shard.bad, Moments.empty(shard.schema.n_features), None, hold, [])
    intake, rows, sample = new_intake(shard, first, hold), 0, []
    for batch in chain([first], batches):
        held = hold.collect(batch)
        intake.count(batch, held)
        rows += batch.size
        if asked.share > 0.0:
            drawn = draws(hold.seed, batch.first, batch.size, _SAMPLING) < asked.share
            sample.append(batch.taken(drawn & ~held))
    return Found(rows, shard.bad, intake.moments, intake.class_counts, hold, sample)


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
