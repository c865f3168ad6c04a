"""A training over windows of rows: where it stands, and how it goes over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thresher._random import shuffled
from thresher.data import Batch
from thresher.engines import Engine
from thresher.estimators.classifier import check_factors
from thresher.estimators.feed import Feed
from thresher.solvers import Chunk
from thresher.solvers.driver import Patience
from thresher.solvers.stream import Facts
from thresher.training.intake import Intake
from thresher.training.sums import summed

__all__ = ["Job", "Place", "Weights", "new_job"]


class Place(NamedTuple):
    """The next window to learn from."""

    passes: int = 0
    window: int = 0


_START = Place()


class Weights(NamedTuple):
    """Row weights: the weight column, times the factor of the class, scaled to about mean one."""

    factors: np.ndarray | None = None
    scale: float = 1.0

    def of(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if weight is None and self.factors is None:
            return None
        full = np.full(y.size, self.scale) if weight is None else weight * self.scale
        return full if self.factors is None else full * self.factors[y.astype(np.int64)]


@dataclass
class Job:
    """A learner in the middle of a training, and the next window.

    The order of the rows is a function of the seed and of the place, so a job that is read back
    from a checkpoint goes on exactly as it would have gone on.
    """

    feed: Feed
    weights: Weights
    patience: Patience
    shuffle: bool
    seed: int
    place: Place = _START
    rows_learned: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    in_window: bool = False  # some chunks of a window are still to come: no place to save

    def passes(self, intake: Intake, estimator: Any) -> Iterator[Iterator[Chunk]]:
        """Chunks of the passes that are left, window by window."""
        while self.place.passes < self.feed.passes:
            yield self._windows(intake, estimator)

    def _windows(self, intake: Intake, estimator: Any) -> Iterator[Chunk]:
        for index, batch in enumerate(intake.windows()):
            held = intake.look(batch)
            if index < self.place.window:
                continue  # learned from before the checkpoint
            yield from self.chunks(batch, held, index, estimator)
        self.place = Place(self.place.passes + 1, 0)

    def chunks(self, batch: Batch, held: np.ndarray, index: int, estimator: Any) -> Iterator[Chunk]:
        """The rows of a window that are not held out; the place moves on with the last of them."""
        weight = self.weights.of(batch.targets, batch.weight)
        order = self._order(~held if weight is None else ~held & (weight > 0.0))
        after = Place(self.place.passes, index + 1)
        if not order.size:
            self.place = after
            return
        rows, targets, _ = estimator.coded_rows(batch.rows, batch.targets)
        chunks = self.feed.chunks(rows, targets, weight, order)
        last = next(chunks)
        self.in_window = True
        for chunk in chunks:
            yield last
            last = chunk
        self.rows_learned += order.size
        self.place, self.in_window = after, False
        yield last

    def _order(self, chosen: np.ndarray) -> np.ndarray:
        """The chosen rows of the next window, in the order to visit them."""
        rows = np.flatnonzero(chosen).astype(np.uint32)
        return shuffled(rows, self.seed, 11, *self.place) if self.shuffle else rows

    @property
    def has_begun_pass(self) -> bool:
        return self.place.window > 0

    def catch_up(self, intake: Intake) -> None:
        """Before going on in a later pass, look at all rows once: some are held out."""
        if self.place.passes and intake.rows is None:
            for batch in intake.windows():
                intake.look(batch)
            intake.rows = intake.looked - intake.hold.size


def new_job(
    estimator: Any, intake: Intake, passes: int | None, seed: int, engine: Engine | None = None
) -> Job:
    """A learner prepared on the first look at the data."""
    sample = intake.sample
    weights = _weights(estimator, intake)
    rows, targets, outputs = estimator.coded_rows(sample.rows, sample.targets)
    weight = weights.of(sample.targets, sample.weight)
    mass = intake.mass if intake.rows is not None else None
    learners, add_up = len(intake.shards or (0,)), None
    if intake.rows is not None and intake.repeatable:
        add_up = partial(summed, estimator, intake, weights, engine)
    facts = Facts(intake.rows, mass, intake.moments, learners=learners, add_up=add_up)
    passes = _checked_passes(intake, passes or estimator.max_iter)
    feed = estimator.open_feed(rows, targets, weight, outputs, facts, passes)
    patience = Patience(estimator.patience)
    return Job(feed, weights, patience, estimator.order != "sequential", seed)


def _checked_passes(intake: Intake, wanted: int | None) -> int | None:
    if intake.repeatable:
        return wanted
    if wanted is not None and wanted > 1:
        raise ValueError(
            f"{intake.data.name} can be read only once and does not fit in memory: ask for one pass"
        )
    return 1


def _weights(estimator: Any, intake: Intake) -> Weights:
    """Class weights from the counts, and weights scaled so that their mean is one."""
    scale = 1.0
    if intake.data.schema.weight is not None and intake.mass > 0.0:
        scale = (intake.looked - intake.hold.size) / intake.mass
    given = estimator.get_params(deep=False).get("class_weight")
    if given is None:
        return Weights(None, scale)
    if isinstance(given, str):
        return Weights(intake.balanced_factors(), scale)
    target = intake.data.schema.target
    assert target is not None
    unknown = [c for c in given if c not in target.classes]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}: classes are {list(target.classes)}")
    factors = np.array([float(given.get(c, 1.0)) for c in target.classes])
    check_factors(factors, np.asarray(target.classes))
    return Weights(factors, scale)
