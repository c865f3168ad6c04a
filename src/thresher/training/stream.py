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
from thresher.estimators._stream import RowStream
from thresher.solvers import Chunk, Result, Status
from thresher.training.intake import Intake

__all__ = ["Place", "StreamJob", "Weights", "window_order"]


class Place(NamedTuple):
    """The next window to learn from."""

    passes: int = 0
    window: int = 0


_START = Place()


def window_order(rows: np.ndarray, seed: int, place: Place) -> np.ndarray:
    """The rows of a window in the random order that belongs to its place."""
    return shuffled(rows, seed, 11, *place)


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


@dataclass
class StreamJob:
    """A learner, where it stands, and how it goes over the data.

    Everything but ``intake`` and the callables is saved in a checkpoint; the order of the rows is a
    function of the seed and of the place, so a job that is read back goes on exactly as it would
    have gone on.
    """

    stream: RowStream
    passes: int
    shuffle: bool
    seed: int
    units: Units | None
    weights: Weights
    place: Place = _START
    rows_learned: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    best: list[Result] | None = None
    best_loss: float = np.inf
    best_pass: int = 0

    def run(
        self,
        intake: Intake,
        targets: Callable[[np.ndarray], np.ndarray],
        after_window: Callable[[], Status | None],
        after_pass: Callable[[], Status | None],
    ) -> Status:
        """Learn until the last pass is done or one of the callables says how to end."""
        while self.place.passes < self.passes:
            for index, batch in enumerate(intake.windows()):
                held = intake.look(batch)
                if index < self.place.window:
                    continue  # learned from before the checkpoint
                self._learn(batch, held, targets)
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

    def _learn(
        self, batch: Batch, held: np.ndarray, targets: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        assert batch.y is not None
        weight = self.weights.of(batch.y, batch.weight)
        order = np.flatnonzero(~held & (weight > 0.0)).astype(np.uint32)
        if self.shuffle:
            order = window_order(order, self.seed, self.place)
        if order.size:
            y = np.ascontiguousarray(targets(batch.y), dtype=batch.rows.dtype)
            self.stream.update(Chunk(self.scaled(batch.rows), y, weight, order))
            self.rows_learned += order.size

    def scaled(self, rows: Rows) -> Rows:
        return self.units.apply(rows) if self.units else rows

    def results(self) -> list[Result]:
        return self.stream.results(max(self.place.passes, 1))
