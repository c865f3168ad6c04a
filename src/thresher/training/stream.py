"""Learning from windows of rows, pass after pass, with a place to stop and to go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thresher._random import shuffled
from thresher._rows import Rows
from thresher.data import Batch
from thresher.estimators._input import Units
from thresher.estimators._saving import packed
from thresher.estimators._stream import RowStream
from thresher.solvers import Chunk, Result, Status
from thresher.training.intake import Intake

__all__ = ["Job", "Place", "StreamJob", "Weights"]


class Place(NamedTuple):
    """The next window to learn from."""

    passes: int = 0
    window: int = 0


_START = Place()


@dataclass(frozen=True)
class Weights:
    """Row weights: the weight column, times the factor of the class, scaled to about mean one."""

    factors: np.ndarray | None = None
    scale: float = 1.0

    def of(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        if weight is None and self.factors is None:
            return np.broadcast_to(np.float64(1.0), (y.size,))
        full = np.full(y.size, self.scale) if weight is None else weight * self.scale
        return full if self.factors is None else full * self.factors[y.astype(np.int64)]


@dataclass(kw_only=True)
class Job:
    """Where a training over windows of rows stands, and how it goes over them.

    The order of the rows is a function of the seed and of the place, so a job that is read back
    from a checkpoint goes on exactly as it would have gone on.
    """

    passes: int
    shuffle: bool
    seed: int
    place: Place = _START
    rows_learned: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: list[Result] | None = None  # the model of the best pass, where training may stop early
    best_loss: float = np.inf
    best_pass: int = 0

    def run(
        self,
        intake: Intake,
        learn: Callable[[Batch, np.ndarray], None],
        after_window: Callable[[], Status | None],
        after_pass: Callable[[], Status | None],
    ) -> Status:
        """Learn until the last pass is done or one of the callables says how to end."""
        while self.place.passes < self.passes:
            for index, batch in enumerate(intake.windows()):
                held = intake.look(batch)
                if index < self.place.window:
                    continue  # learned from before the checkpoint
                learn(batch, held)
                self.place = Place(self.place.passes, index + 1)
                status = after_window()
                if status is not None:
                    return status
            self.place = Place(self.place.passes + 1, 0)
            status = after_pass()
            if status is not None:
                return status
        return Status.COMPLETED

    def catch_up(self, intake: Intake) -> None:
        """Before going on in a later pass, look at all rows once: some are held out."""
        if self.place.passes and intake.rows is None:
            for batch in intake.windows():
                intake.look(batch)
            intake.rows = intake.looked - intake.hold.size

    def order(self, chosen: np.ndarray) -> np.ndarray:
        """The rows of the next window that are chosen, in the order to visit them."""
        rows = np.flatnonzero(chosen).astype(np.uint32)
        return shuffled(rows, self.seed, 11, *self.place) if self.shuffle else rows

    def snapshot(self) -> dict[str, Any]:
        """Everything that a checkpoint keeps."""
        names = ("passes", "shuffle", "seed", "rows_learned", "history", "best_loss", "best_pass")
        best = None if self.best is None else [[r.coef, r.intercept, r.passes] for r in self.best]
        known = {name: getattr(self, name) for name in names}
        return {"place": list(self.place), "best": best, **known}


@dataclass(kw_only=True)
class StreamJob(Job):
    """A linear learner: its state, the units and weights of the rows."""

    stream: RowStream
    units: Units | None
    weights: Weights

    def learn(
        self, batch: Batch, held: np.ndarray, targets: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        assert batch.y is not None
        weight = self.weights.of(batch.y, batch.weight)
        order = self.order(~held & (weight > 0.0))
        if order.size:
            y = np.ascontiguousarray(targets(batch.y), dtype=batch.rows.dtype)
            self.stream.update(Chunk(self.scaled(batch.rows), y, weight, order))
            self.rows_learned += order.size

    def scaled(self, rows: Rows) -> Rows:
        return self.units.apply(rows) if self.units else rows

    def results(self) -> list[Result]:
        return self.stream.results(max(self.place.passes, 1))

    def snapshot(self) -> dict[str, Any]:
        return {
            **super().snapshot(),
            "stream": packed(self.stream),
            "units": packed(self.units),
            "weights": [self.weights.factors, self.weights.scale],
        }
