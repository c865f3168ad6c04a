"""What happens along the way of a stream: measuring, telling, saving, stopping when asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from thresher.data import Batch, Schema
from thresher.solvers import Result, Status
from thresher.training.checkpoint import Checkpointer
from thresher.training.heldout import Judge, history_line
from thresher.training.intake import Intake
from thresher.training.learners import model_size
from thresher.training.stream import Job

__all__ = ["Running", "Tell"]

_GLANCE_SECONDS, _GLANCE_ROWS = 1.0, 2000  # how often to look at how many held-out rows

Tell = Callable[[int, int, int], None]
J = TypeVar("J", bound=Job)


class Running(Generic[J]):
    """Runs a job; subclasses say how it learns and how the estimator follows."""

    def __init__(
        self, estimator: Any, schema: Schema, job: J, judge: Judge, tell: Tell,
        stop: Callable[[], bool], checkpointer: Checkpointer | None,
    ):  # fmt: skip
        self.estimator, self.schema, self.job, self.judge = estimator, schema, job, judge
        self.tell, self.stop, self.checkpointer = tell, stop, checkpointer
        self._glanced = time.monotonic()

    def run(self, intake: Intake) -> Status:
        status = self.job.run(intake, self._learn, self._after_window, self._after_pass)
        status = self._ended(status)
        if self.checkpointer is not None and status is not Status.INTERRUPTED:
            self.checkpointer.remove()
        return status

    # ------------------------------------------------------------ for subclasses

    def _learn(self, batch: Batch, held: np.ndarray) -> None:
        raise NotImplementedError

    def _follow(self) -> None:
        """Bring the estimator up to date with the job."""

    def _results(self) -> list[Result]:
        """The model as it stands, for learners that may stop early."""
        raise NotImplementedError

    def _ended(self, status: Status) -> Status:
        """The final model becomes the estimator's; how it really ended."""
        raise NotImplementedError

    # ------------------------------------------------------------ along the way

    def _after_window(self) -> Status | None:
        if time.monotonic() - self._glanced > _GLANCE_SECONDS:
            self._glance(_GLANCE_ROWS)
            self._glanced = time.monotonic()
        if self.checkpointer is not None:
            self.checkpointer.maybe_save(self.job)
        return self._interrupted()

    def _after_pass(self) -> Status | None:
        metrics = self._glance(None)
        line = history_line(self.job.place.passes, self.job.rows_learned, metrics)
        self.job.history.append(line)
        return self._enough(metrics) or self._interrupted()

    def _enough(self, metrics: dict[str, Any]) -> Status | None:
        """How to end, if there is no point in going on after a pass; the best one is kept."""
        job = self.job
        if not getattr(self.estimator, "early_stopping", False) or not metrics:
            return None
        loss = metrics.get("error", metrics.get("rmse", np.inf))
        if loss < job.best_loss:
            job.best_loss, job.best_pass, job.best = loss, job.place.passes, self._results()
        elif job.place.passes - job.best_pass >= self.estimator.patience:
            return Status.EARLY_STOPPED
        return None

    def _interrupted(self) -> Status | None:
        if not self.stop():
            return None
        if self.checkpointer is not None:
            self.checkpointer.save(self.job)
        return Status.INTERRUPTED

    def _glance(self, rows: int | None) -> dict[str, Any]:
        """How the model does now, on (some of) the held-out rows."""
        self._follow()
        metrics = self.judge.measure(self.estimator, rows)
        self.tell(self.job.rows_learned, self.job.place.passes, model_size(self.estimator)[0])
        return metrics
