"""The first look at the data: what fits in memory stays there, the rest is counted or streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from thresher.data import Batch, DataError, DataSet, Moments
from thresher.data.batch import gathered
from thresher.data.dataset import window_rows
from thresher.data.source import sample_rows
from thresher.training.holdout import HoldOut

__all__ = ["Intake", "head_rows", "new_intake", "take_in"]

_SMALLEST_SHARE = 0.3  # parsed rows take at least about this share of their text


@dataclass
class Intake:
    """Rows in windows, over and over, and what the first look found out.

    ``rows``, ``moments`` and ``class_counts`` are those of the rows to learn from; ``rows`` is None
    when the end of the data has not been seen yet.
    """

    data: DataSet
    window: int
    hold: HoldOut
    rows: int | None
    mass: float
    moments: Moments
    class_counts: np.ndarray | None
    sample: Batch  # the first rows that are not held out: what the learner is prepared on
    kept: list[Batch] | None  # all rows, if they fit in memory
    begun: Iterator[Batch] | None = None  # a pass that has begun already
    looked: int = 0  # rows that have been looked at
    shards: list[DataSet] | None = None  # where workers read the rows
    counts: bool = True  # what is looked at is counted; not in a stream that has begun

    def windows(self) -> Iterator[Batch]:
        if self.kept is not None:
            return iter(self.kept)
        if self.begun is not None:
            begun, self.begun = self.begun, None
            return begun
        if not self.data.source.rereadable:
            raise DataError(f"{self.data.name} can be read only once: ask for one pass")
        return self.data.chunks(self.window)

    def look(self, batch: Batch) -> np.ndarray:
        """Which rows are held out; on the first look they are kept."""
        if batch.first < self.looked:
            return self.hold.mask(batch)
        self.looked = batch.first + batch.size
        held = self.hold.collect(batch)
        if not self.counts:
            self.hold.take_back()  # nobody else will: they must not pile up
        return held

    def count(self, batch: Batch, held: np.ndarray) -> None:
        """Add the rows to learn from to what is known about them."""
        self._count(batch, held)
        self.count_back()

    def count_back(self) -> None:
        """Rows that are held out no longer are learned from after all."""
        for batch in self.hold.take_back():
            self._count(batch, np.zeros(batch.size, dtype=bool))

    def _count(self, batch: Batch, held: np.ndarray) -> None:
        self.moments = self.moments.updated(batch.rows, _weight(batch, held))
        self.mass = self.moments.total
        if self.class_counts is not None and batch.y is not None:
            codes = batch.codes_but(held)
            self.class_counts += np.bincount(codes, minlength=self.class_counts.size)

    def release(self) -> None:
        """All rows have been counted: a class keeps a row to learn from."""
        if self.class_counts is not None:
            for batch in self.hold.release(self.class_counts):
                self._count(batch, np.zeros(batch.size, dtype=bool))

    def balanced_factors(self) -> np.ndarray:
        """Class weights that give every class the same say."""
        counts = np.maximum(np.asarray(self.class_counts, dtype=np.float64), 1.0)
        return counts.sum() / (counts.size * counts)

    @property
    def repeatable(self) -> bool:
        return self.kept is not None or self.data.source.rereadable


def take_in(
    data: DataSet, hold: HoldOut, memory: int, scan: bool, on_reading: Callable[[int], None],
    whole_window: bool = False,
) -> Intake:  # fmt: skip
    """Read until the end, or until ``memory`` is full and counting (``scan``) is not wanted.

    ``whole_window``: the sample is all of the first window, for learners that need many rows to
    begin with.
    """
    batches = data.chunks(window_rows(data.schema.row_bytes))
    first = next(batches, None)
    if first is None:
        raise DataError(f"{data.name} has no usable rows ({data.bad})")
    intake = new_intake(data, first, hold, whole_window)
    intake.kept = [] if _may_fit(data, memory) else None
    counting, size = scan and data.source.rereadable, 0
    for batch in chain([first], batches):
        held = intake.look(batch)
        on_reading(intake.looked)
        if intake.kept is None and not counting:
            intake.mass = float(np.cumsum(_weight(batch, held))[-1])
            return _begin(intake, batch, batches)
        intake.count(batch, held)
        if intake.kept is None:
            continue
        intake.kept.append(batch)
        size += _bytes(batch)
        if size > memory // 2:
            if not counting:
                return _begin(intake, batch, batches)
            intake.kept = None
    intake.release()
    intake.rows = intake.looked - hold.size
    return intake


def new_intake(data: DataSet, first: Batch, hold: HoldOut, whole_window: bool = False) -> Intake:
    """Nothing has been counted yet; ``first`` is the first window."""
    target, window = data.schema.target, window_rows(data.schema.row_bytes)
    counts = np.zeros(len(target.classes), np.int64) if target and target.classes else None
    moments = Moments.empty(data.schema.n_features)
    sample = _head(first, hold, whole_window)
    return Intake(data, window, hold, None, 0.0, moments, counts, sample, None)


def _begin(intake: Intake, batch: Batch, rest: Iterator[Batch]) -> Intake:
    """Learn from the rows as they come; scale by the first rows alone, whatever the memory."""
    looked = intake.kept or [batch]
    if intake.class_counts is not None:
        intake.hold.begin_stream(_learned(looked, intake.hold, intake.class_counts.size))
    intake.begun = chain(looked, rest)
    intake.kept, intake.counts = None, False
    intake.hold.take_back()
    sample, d = intake.sample, intake.data.schema.n_features
    intake.moments = Moments.empty(d).updated(sample.rows, sample.weight)
    if intake.class_counts is not None and sample.y is not None:
        intake.class_counts = np.bincount(sample.codes, minlength=intake.class_counts.size)
    return intake


def _learned(batches: list[Batch], hold: HoldOut, classes: int) -> np.ndarray:
    """How many rows of each class are not held out."""
    counts = np.zeros(classes, np.int64)
    for batch in batches:
        assert batch.y is not None
        counts += np.bincount(batch.codes_but(hold.mask(batch)), minlength=classes)
    return counts


def head_rows(data: DataSet, whole_window: bool) -> int:
    """How many of the first rows decide what an intake begins with."""
    window = window_rows(data.schema.row_bytes)
    return window if whole_window else min(sample_rows(1), window)


def _head(batch: Batch, hold: HoldOut, whole: bool) -> Batch:
    if whole:
        return batch.taken(~hold.mask(batch))
    first = next(gathered([batch], sample_rows(1)))  # what a look at no more rows would see
    rows = sample_rows(max(1, first.rows.stored // first.size))
    return batch.taken(np.flatnonzero(~hold.mask(batch)[:rows]))


def _may_fit(data: DataSet, memory: int) -> bool:
    text = sum(stamp[1] for stamp in data.source.stamps() if stamp)
    return text * _SMALLEST_SHARE <= memory // 2


def _weight(batch: Batch, held: np.ndarray) -> np.ndarray:
    """Weights of the rows, zero where they are held out."""
    return np.where(held, 0.0, 1.0 if batch.weight is None else batch.weight)


def _bytes(batch: Batch) -> int:
    return batch.rows.stored * (12 if batch.rows.is_sparse else 8) + 8 * batch.size
