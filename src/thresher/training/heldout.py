"""Measuring a model on held-out rows, and calibrating its probabilities on some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.data import Batch, Schema
from thresher.estimators.calibration import calibrate
from thresher.training.holdout import HoldOut
from thresher.training.model import Model

__all__ = ["HeldOutScores", "history_line"]


class HeldOutScores:
    """Measures an estimator on the rows that a :class:`HoldOut` keeps.

    In a stream there are no folds to calibrate on: every second held-out row serves for that and
    the others for measuring, so that what is reported stays honest.
    """

    def __init__(self, hold: HoldOut, schema: Schema, calibrating: bool):
        self.hold, self.schema, self.calibrating = hold, schema, calibrating
        self.metrics: dict[str, Any] = {}
        self._measured: Batch | None = None  # rows to measure on
        self._spent: Batch | None = None  # rows to calibrate on
        self._known = -1

    def measure(self, estimator: Any, most: int | None = None) -> dict[str, Any]:
        """Metrics on (at most so many of) the held-out rows, as they stand now."""
        self._refresh()
        block = self._measured
        if block is not None and block.size:
            if most is not None and block.size > most:
                block = block.taken(np.arange(most))
            model = Model(estimator, self.schema)
            self.metrics = model.measured([model.predicted(block)])
        return self.metrics

    @property
    def can_calibrate(self) -> bool:
        """Whether rows of two classes are set apart for it."""
        self._refresh()
        block = self._spent
        return block is not None and block.y is not None and np.unique(block.y).size > 1

    def calibrate(self, estimator: Any) -> None:
        """Fit the classifier's probabilities on the rows set apart for that."""
        block = self._spent if self.can_calibrate else None
        if block is None or block.y is None:
            raise ValueError(
                "calibrate needs held-out rows of every class: raise the held-out share"
            )
        scores = estimator.function_.scores(block.X)
        codes = block.y.astype(np.int64)
        estimator.calibrator_ = calibrate(scores, codes, block.weight, estimator.calibrate)

    def _refresh(self) -> None:
        if self.hold.size == self._known:
            return
        self._known = self.hold.size
        self._measured = self.hold.batch()
        if self.calibrating and self._measured is not None:
            odd = np.arange(self._measured.size) % 2 == 1
            self._spent, self._measured = self._measured.taken(odd), self._measured.taken(~odd)


def history_line(passes: int, rows: int, metrics: dict[str, Any]) -> dict[str, Any]:
    """What is remembered of a pass: where it stands and the single numbers among its metrics."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, float)}
    return {"passes": passes, "rows": rows, **numbers}
