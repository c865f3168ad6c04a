"""The rows that settings are sought on: all where they fit in memory, a sample where they do not.

A sample of a stream is stratified: every class has its share of it, to the row, and which of its
members are taken is a function of the seed and their place in the data.  It costs one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thresher._blanks import IRRELEVANT_TARGET
from thresher._random import generator
from thresher.data import Batch
from thresher.data.batch import gathered
from thresher.training.intake import Intake

__all__ = ["Sample", "first_rows", "rows_in_memory", "stratified_rows"]

_SAMPLING = 2  # the counter that sets these draws apart from those of the held-out rows


class Sample(NamedTuple):
    """Rows to search on: checked, coded, none of them held out."""

    X: Any
    y: np.ndarray  # class numbers, or numbers
    weight: np.ndarray | None
    described: str = ""  # "" if these are all rows

    @property
    def size(self) -> int:
        return int(self.y.size)

    def labelled(self, classes: np.ndarray, irrelevant: Any = None) -> np.ndarray:
        """Targets as users give them; blank, or ``irrelevant``, where rows have no class."""
        if not classes.size:
            return self.y
        known = np.isfinite(self.y)
        if known.all():
            return classes[self.y.astype(np.int64)]
        y = np.full(self.size, None)
        y[known] = classes[self.y[known].astype(np.int64)].tolist()
        y[self.y == IRRELEVANT_TARGET] = irrelevant
        return y


def rows_in_memory(intake: Intake) -> Sample:
    """All of them, side by side; the intake keeps its windows."""
    assert intake.kept is not None
    blocks = (b.taken(~intake.hold.mask(b)) for b in intake.kept)
    return _of(next(gathered(blocks, max(intake.rows or 0, 1))))


def first_rows(intake: Intake) -> Sample:
    """Those that the learner is prepared on."""
    spread = len(intake.shards or ()) > 1
    size = f"{intake.sample.size:,} rows"
    return _of(intake.sample, f"a sample of {size}" if spread else f"the first {size}")


def stratified_rows(
    intake: Intake, classes: np.ndarray, rows: int, least: int, seed: int,
    on_reading: Callable[[int], None] = lambda rows: None,
) -> Sample:  # fmt: skip
    """About ``rows`` of the rows that are not held out, at least ``least`` of every class.

    The first look must have counted them, and the data be readable again.
    """
    assert intake.rows is not None
    whole = intake.class_counts is None or not classes.size
    counts = np.array([intake.rows]) if whole else np.asarray(intake.class_counts)
    if not whole and counts.sum() < intake.rows:  # the others have no label
        counts = np.append(counts, intake.rows - counts.sum())
    quota = np.round(rows * counts / max(counts.sum(), 1)).astype(np.int64)
    quota = np.minimum(np.maximum(quota, least), counts)
    # A little more than is needed is picked up on the way; the smallest draws of each class stay.
    within = np.minimum((quota + 4.0 * np.sqrt(quota) + 4.0) / np.maximum(counts, 1), 1.0)
    blocks, draws = [], []
    for batch in intake.windows():
        drawn = generator(seed, _SAMPLING, batch.first).random(batch.size)
        near = ~intake.hold.mask(batch) & (drawn < within[_strata(batch, classes)])
        blocks.append(batch.taken(near))
        draws.append(drawn[near])
        on_reading(batch.first + batch.size)
    drawn = np.concatenate(draws)
    block = next(gathered(blocks, max(drawn.size, 1)))
    chosen = block.taken(_lowest(drawn, _strata(block, classes), quota))
    said = f"a stratified sample of {chosen.size:,} of {intake.rows:,} rows"
    return _of(chosen, said)


def _strata(rows: Batch, classes: np.ndarray) -> np.ndarray:
    """The class of each row; one class for all where the target is a number, or there is none."""
    if not classes.size:
        return np.zeros(rows.size, np.int64)
    return np.where(rows.labelled, rows.targets, classes.size).astype(np.int64)


def _lowest(draws: np.ndarray, strata: np.ndarray, quota: np.ndarray) -> np.ndarray:
    """Positions, in order, of the ``quota[c]`` smallest draws of every stratum c."""
    order = np.lexsort((draws, strata))
    sizes = np.bincount(strata, minlength=quota.size)
    rank = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[rank < np.repeat(quota, sizes)])


def _of(block: Batch, described: str = "") -> Sample:
    return Sample(block.X, block.targets, block.weight, described)
