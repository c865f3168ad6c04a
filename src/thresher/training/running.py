"""What happens along the way of a stream: measuring, telling, saving, stopping when asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from thresher._clock import is_over
from thresher.data import DataError
from thresher.engines import Engine, EngineError
from thresher.estimators.feed import stream_chunk
from thresher.registry import TASKS
from thresher.solvers import Status, driver
from thresher.training.checkpoint import Checkpointer
from thresher.training.heldout import HeldOutScores, history_line
from thresher.training.intake import Intake
from thresher.training.job import Job
from thresher.training.rounds import Rounds

__all__ = ["OnLearning", "run_job"]

_GLANCE_SECONDS, _GLANCE_ROWS = 1.0, 2000  # how often to look at how many held-out rows
_FEWEST_JUDGES = 100  # held-out rows that can tell whether a model is of any use

#: told rows learned from, passes done and the size of the model
OnLearning = Callable[[int, int, int], None]


def run_job(
    estimator: Any, intake: Intake, job: Job, scores: HeldOutScores, on_learning: OnLearning,
    stop: Callable[[], bool], checkpointer: Checkpointer | None, engine: Engine | None = None,
) -> Status:  # fmt: skip
    """Learn until the passes are done or somebody says stop; the estimator gets the model.

    With an ``engine`` a pass is a round: its workers learn from the intake's shards.
    """
    watch = _Watch(estimator, job, scores, on_learning, stop, checkpointer)
    feed, update = job.feed, None
    passes: Iterator[Iterator[Any]] = job.passes(intake, estimator)
    if engine is not None:
        rounds = Rounds(engine, estimator, intake, job, watch.on_rows, stop)
        passes, update = rounds.passes(), rounds.learn
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            outcome = driver.run(
                feed.stream, passes, feed.passes, monitor=watch.after_pass,
                after_chunk=watch.after_chunk, first=job.place.passes, begun=job.has_begun_pass,
                update=update,
            )  # fmt: skip
    except (DataError, EngineError):
        if engine is not None and checkpointer is not None:  # the last round's end is worth keeping
            checkpointer.try_to_save(job)
        raise
    function, status = feed.folded(outcome.function), outcome.status
    if status is Status.DIVERGED and watch.sound is not None:
        function = watch.sound
    elif job.patience.best is not None and status is not Status.INTERRUPTED:
        function = job.patience.best
    status = _judged(estimator, intake, job, function, status)
    estimator.keep(function, status, max(job.place.passes, 1), feed.stream, feed.front)
    if checkpointer is not None and status is not Status.INTERRUPTED:
        checkpointer.remove()
    return status


def _judged(estimator: Any, intake: Intake, job: Job, function: Any, status: Status) -> Status:
    """What is to be said of the function, where two samples of the rows agree about it.

    The first rows were learned from but may be unlike the others; those held out are spread over
    all rows.
    """
    feed, held, verdicts = job.feed, intake.hold.batch(), set()
    enough = held is not None and held.size >= _FEWEST_JUDGES
    for batch in (intake.sample, held) if enough else (intake.sample,):
        assert batch is not None
        rows, targets, _ = estimator.coded_rows(batch.rows, batch.targets)
        chunk = stream_chunk(rows, targets, job.weights.of(batch.targets, batch.weight))
        verdicts.add(estimator.judged(status, feed.stream, chunk, function, feed.front))
    return verdicts.pop() if len(verdicts) == 1 else status


class _Watch:
    """Looks at the model now and then, and keeps the estimator up to date with it."""

    def __init__(
        self, estimator: Any, job: Job, scores: HeldOutScores, on_learning: OnLearning,
        stop: Callable[[], bool], checkpointer: Checkpointer | None,
    ):  # fmt: skip
        self.estimator, self.job, self.scores = estimator, job, scores
        self.on_learning, self.stop, self.checkpointer = on_learning, stop, checkpointer
        self.sound: Any = None  # the last function that was finite
        self._glanced = time.monotonic()

    def on_rows(self, rows: int) -> None:
        """So many more rows of a round have been learned from."""
        self.on_learning(self.job.rows_learned + rows, self.job.place.passes, 0)

    def after_chunk(self, passes: int) -> Status | None:
        if is_over():
            return Status.OUT_OF_TIME
        if self.job.in_window:
            return None
        if time.monotonic() - self._glanced > _GLANCE_SECONDS:
            function = self.job.feed.function()
            if not function.is_finite():
                return Status.DIVERGED
            self._glance(function, _GLANCE_ROWS)
            self._glanced = time.monotonic()
        if self.checkpointer is not None:
            self.checkpointer.maybe_save(self.job)
        return self._interrupted()

    def after_pass(self, event: driver.Event) -> Status | None:
        function = self.job.feed.folded(event.function)
        metrics = self._glance(function, None)
        self.job.history.append(history_line(event.passes, self.job.rows_learned, metrics))
        if self.estimator.early_stopping and metrics:
            loss = metrics.get(TASKS[self.estimator.task].measure, np.inf)
            if self.job.patience.has_run_out(loss, event.passes, function):
                return Status.EARLY_STOPPED
        return self._interrupted()

    def _interrupted(self) -> Status | None:
        if not self.stop():
            return None
        if self.checkpointer is not None:
            self.checkpointer.try_to_save(self.job)
        return Status.INTERRUPTED

    def _glance(self, function: Any, rows: int | None) -> dict[str, Any]:
        """How the model does now, on (some of) the held-out rows."""
        self.sound = function
        feed, passes = self.job.feed, max(self.job.place.passes, 1)
        self.estimator.keep(function, Status.COMPLETED, passes, feed.stream, feed.front)
        metrics = self.scores.measure(self.estimator, rows)
        self.on_learning(self.job.rows_learned, self.job.place.passes, function.size)
        return metrics
