"""Streams for learners that are not linear: their own ``partial_fit``, window by window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thresher.data import Schema
from thresher.solvers import Status
from thresher.training.intake import Intake
from thresher.training.judge import Judge, history_line
from thresher.training.learners import model_size
from thresher.training.model import matrix_of
from thresher.training.stream import Place, window_order

__all__ = ["PartialFits"]

_PASSES = 5
_GLANCE_ROWS = 2000


class PartialFits:
    """Passes over windows of rows in a random order that the seed, pass and window determine."""

    def __init__(
        self, estimator: Any, schema: Schema, judge: Judge, tell: Callable[[int, int, int], None],
        stop: Callable[[], bool], seed: int,
    ):  # fmt: skip
        self.estimator, self.schema, self.judge = estimator, schema, judge
        self.tell, self.stop, self.seed = tell, stop, seed
        self.rows = 0
        self.history: list[dict[str, Any]] = []

    def planned(self, intake: Intake, wanted: int | None) -> int:
        if not intake.repeatable:
            return 1
        return wanted or self.estimator.max_iter or _PASSES

    def run(self, intake: Intake, passes: int) -> Status:
        self._settle(intake)
        for number in range(passes):
            for index, batch in enumerate(intake.windows()):
                self._learn(batch, intake.look(batch), number, index)
                if index == 0 or self.stop():
                    self._glance(number, _GLANCE_ROWS)
                if self.stop():
                    return Status.INTERRUPTED
            metrics = self._glance(number + 1, None)
            self.history.append(history_line(number + 1, self.rows, metrics))
        self.estimator.n_iter_ = passes
        return Status.COMPLETED

    def _settle(self, intake: Intake) -> None:
        """What a stream cannot find out by itself but the first look has: rows and classes."""
        estimator = self.estimator
        if intake.rows is not None and estimator.alpha is None:
            weak = 0.1 if hasattr(estimator, "map") else 1.0
            if not hasattr(estimator, "algorithm"):  # hyperplanes have a rule of their own
                estimator.alpha = weak / max(intake.mass, 1.0)
        if getattr(estimator, "class_weight", None) == "balanced":
            factors = intake.balanced_factors().tolist()
            estimator.class_weight = dict(zip(self._classes().tolist(), factors, strict=True))

    def _classes(self) -> np.ndarray:
        assert self.schema.target is not None
        return np.array(self.schema.target.classes)

    def _learn(self, batch: Any, held: np.ndarray, number: int, index: int) -> None:
        order = np.flatnonzero(~held)
        if self.estimator.order != "sequential":
            order = window_order(order, self.seed, Place(number, index))
        if not order.size:
            return
        X, weight = matrix_of(batch.rows)[order], batch.weight
        weight = None if weight is None else weight[order]
        if self.schema.target is not None and self.schema.target.classes:
            classes = self._classes()
            y = classes[batch.y[order].astype(np.int64)]
            self.estimator.partial_fit(X, y, classes=classes, sample_weight=weight)
        else:
            self.estimator.partial_fit(X, batch.y[order], sample_weight=weight)
        self.rows += order.size

    def _glance(self, passes: int, rows: int | None) -> dict[str, Any]:
        metrics = self.judge.measure(self.estimator, rows)
        self.tell(self.rows, passes, model_size(self.estimator)[0])
        return metrics
