"""One training: look, hold out, choose, learn in memory or in a stream, calibrate, measure."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from thresher._clock import ending
from thresher.artifacts.encoding import encode, kept_parameters
from thresher.data import Batch, DataSet, Schema
from thresher.data.batch import gathered
from thresher.engines import Engine
from thresher.estimators.base import StatusWarning
from thresher.estimators.calibration import calibrate
from thresher.estimators.ledger import recording
from thresher.registry import LEARNERS, resolve
from thresher.solvers import Solver, Status
from thresher.training.asked import Progress, Training
from thresher.training.checkpoint import Checkpointer, Every, ProblemsCheckpointer, checkpoint_path
from thresher.training.choice import Choice, choose
from thresher.training.equipped import classes_of, estimator_for, task_of
from thresher.training.heldout import HeldOutScores
from thresher.training.holdout import HoldOut
from thresher.training.intake import Intake, take_in
from thresher.training.job import Job, new_job
from thresher.training.model import Model
from thresher.training.running import run_job
from thresher.training.survey import survey
from thresher.training.tuning import Tuner, Tuning

__all__ = ["Run"]

_Kept = TypeVar("_Kept", bound=Checkpointer)

_LATE = 1.05  # times the budget, at which the last fit ends wherever it is
_HELD_BYTES, _MOST_HELD = 32 << 20, 100_000


class Run:
    """One training: the pieces in the order of their use."""

    def __init__(self, data: DataSet, how: Training, engine: Engine | None = None):
        self.data, self.how, self.schema, self.engine = data, how, data.schema, engine
        self.started = time.perf_counter() if how.begun is None else how.begun
        task = task_of(self.schema, how.learner)
        self.classes = classes_of(self.schema, task)
        self.estimator = _estimator(self.schema, task, how)
        row_bytes = max(self.schema.row_bytes, 1)
        most = min(_MOST_HELD, max(1000, _HELD_BYTES // row_bytes))
        self.hold = HoldOut(how.holdout, most, how.seed)
        self.choice: Choice | None = None  # of a race or a search
        self.history: list[dict[str, Any]] = []
        self.best_loss = np.inf
        self.planned: int | None = None
        self.total: int | None = data.n_rows
        self.labelled: int | None = None  # rows with a label, where others are learned from too

    def model(self) -> Model:
        how = self.how
        if self.engine is not None and how.budget is None:
            self._check_streamable()  # workers keep no rows: rather than after their look
        intake = self._intake()
        self.total = None
        target, counts = self.schema.target, intake.class_counts
        if target is not None and target.partly and counts is not None:
            self.labelled = int(counts.sum())
        if how.budget is not None:
            self.choice = self._race(intake, how.budget)
            self.estimator = self.choice.estimator
        elif how.tuning is not None:
            self.choice = self._tune(intake, how.tuning)
        estimator = self.estimator
        if self.classes.size:
            estimator.take_labels(self.classes)
        in_memory = intake.kept is not None and not self._streams_by_choice()
        unseen = None if self.choice is None else self.choice.unseen
        raced = how.budget is not None and self.classes.size > 0 and unseen is None
        wished = estimator.get_params(deep=False).get("calibrate")
        calibrating = (raced and how.holdout > 0.0) or (wished is not None and not in_memory)
        self.scores = HeldOutScores(self.hold, self.schema, calibrating)
        status = self._learned(intake, in_memory)
        if unseen is not None:
            estimator.set_params(calibrate="sigmoid")
            estimator.calibrator_ = calibrate(*unseen, "sigmoid")
        elif calibrating:
            self._calibrate_held_out(raced)
        self.scores.measure(estimator)
        rows = intake.looked - self.hold.size
        model = Model(estimator, self.schema)
        model.training = self._story(model, rows, in_memory, status)
        return model

    def _calibrate_held_out(self, raced: bool) -> None:
        """Where a race had no rows for it, probabilities are an extra that nobody has asked for."""
        if raced and not self.scores.can_calibrate:
            warnings.warn("too few held-out rows for probabilities", stacklevel=2)
            return
        if raced:
            self.estimator.set_params(calibrate="sigmoid")
        self.scores.calibrate(self.estimator)

    def _intake(self) -> Intake:
        """The first look at the data, here or by workers."""
        how = self.how
        known = self.estimator.get_params(deep=False)
        wide = how.budget is not None or "map" in known or how.task_column is not None
        if self.engine is None:
            return take_in(self.data, self.hold, how.memory, how.scan, self._on_reading, wide)
        return survey(self.data, how.shards, self.hold, self.engine, self._on_reading, wide)

    def _learned(self, intake: Intake, in_memory: bool) -> Status:
        """How learning ended; after a race that was stopped there is nothing more to learn."""
        if self.choice is not None and self.choice.fitted:
            self.estimator.status_ = Status.INTERRUPTED
            return Status.INTERRUPTED
        with ExitStack() as timed:
            if self.how.budget is not None:
                end = self.started + _LATE * self.how.budget
                timed.enter_context(ending(lambda: time.perf_counter() > end))
            return self._fit(intake) if in_memory else self._stream(intake)

    def _race(self, intake: Intake, budget: float) -> Choice:
        began = time.monotonic() - (time.perf_counter() - self.started)
        return choose(
            intake, self.schema, self.classes, budget, began, self.how.seed,
            self._on_trial_of_race, self.how.stop, self.how.prefer, self.engine,
        )  # fmt: skip

    def _tune(self, intake: Intake, tuning: Tuning) -> Choice:
        """Find settings; the estimator takes them."""
        how = self.how
        if intake.kept is None:
            self._check_streamable()  # rather than after the search
        tuner = Tuner(
            tuning, how.params, self.estimator.task, self.classes, how.memory, how.passes, how.seed,
            how.stop, self._on_trial_of_search, self._on_reading, self.engine,
        )  # fmt: skip
        return tuner.run(self.estimator, intake)

    # ------------------------------------------------------------ the two ways

    def _streams_by_choice(self) -> bool:
        """A linear solver that takes rows one by one is streamed also when they fit in memory."""
        solver = self.estimator.get_params(deep=False).get("solver", "auto")
        plain = LEARNERS.name_of(type(self.estimator)) == "linear" and solver != "auto"
        return plain and resolve(solver, Solver, "solver").streaming

    def _affordable(self, rows: Batch) -> Batch:
        """All rows, or as many as a race has left the time for."""
        most = None if self.choice is None else self.choice.rows
        if most is None or most >= rows.size:
            return rows
        drawn = np.random.default_rng([self.how.seed, 2]).permutation(rows.size)[:most]
        return rows.taken(np.isin(np.arange(rows.size), drawn))

    def _fit(self, intake: Intake) -> Status:
        """On all rows that are not held out."""
        estimator, how = self.estimator, self.how
        assert intake.kept is not None
        passes = how.passes or estimator.max_iter
        self.planned, rows = passes, intake.rows or 0

        def after_pass(event: Any) -> bool:
            self._tell("fitting", rows * event.passes, event.passes, event.nonzeros)
            return how.stop()

        solves = estimator.solves_problems()
        checkpointer = self._kept_by(ProblemsCheckpointer) if solves else None
        problems = None if checkpointer is None else checkpointer.ledger(how.resume)
        blocks = (b.taken(~self.hold.mask(b)) for b in _emptied(intake.kept))
        block = self._affordable(next(gathered(blocks, max(rows, 1))))
        with (
            recording(problems),
            warnings.catch_warnings(),
            fitted_with(estimator, max_iter=passes, callbacks=[after_pass]),
        ):
            warnings.simplefilter("ignore", StatusWarning)  # it is told with the model
            estimator.check_options()
            estimator.fit_coded(block.X, block.targets, self.classes, block.weight)
        status = Status(estimator.status_)
        if checkpointer is not None and problems is not None:
            if status is not Status.INTERRUPTED:
                checkpointer.remove()
            elif not problems.is_empty:
                checkpointer.try_to_save(problems)
        return status

    def _check_streamable(self) -> None:
        """Rows that do not fit in memory need a learner that takes them as they come."""
        estimator = self.estimator
        if not estimator.streams_files():
            who, instead = estimator.without_stream()
            raise ValueError(
                f"{who} must see all rows at once, and they {self._where}: {self._together}, "
                f"or use {instead}"
            )
        if estimator.get_params(deep=False).get("steps") is not None:
            raise ValueError("steps counts updates in memory; in a stream give passes")

    @property
    def _where(self) -> str:
        """Why the rows are not together in memory."""
        if self.engine is not None:
            return "stay where the workers read them"
        return f"do not fit in {self.how.memory >> 20} MB"

    @property
    def _together(self) -> str:
        """What brings them together."""
        return "train without workers" if self.engine is not None else "allow more memory"

    def _stream(self, intake: Intake) -> Status:
        self._check_streamable()
        self.estimator.check_options()
        counted, weighted = intake.rows is not None, self.schema.weight is not None
        self.estimator.look_over(intake.moments, counted, weighted)
        checkpointer = self._checkpointer(len(intake.shards or ()))
        job = self._resumed(checkpointer, intake)
        if job is None:
            job = new_job(self.estimator, intake, self.how.passes, self.how.seed, self.engine)
        self.planned, self.history = job.feed.passes, job.history
        self.total = None if intake.rows is None else intake.rows * job.feed.passes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StatusWarning)  # it is told with the model
            return run_job(
                self.estimator, intake, job, self.scores, self._on_learning, self.how.stop,
                checkpointer, self.engine,
            )  # fmt: skip

    def _resumed(self, checkpointer: Checkpointer | None, intake: Intake) -> Job | None:
        """The job of the checkpoint, if there is one to go on from."""
        if checkpointer is None or not self.how.resume or not checkpointer.path.exists():
            return None
        features, outputs = self.estimator.feed_shape(self.schema.n_features)
        job = checkpointer.load(self.estimator, features, outputs, tuple(self.how.terms))
        job.catch_up(intake)
        return job

    def _checkpointer(self, shards: int = 0) -> Checkpointer | None:
        """Of a stream."""
        return self._kept_by(Checkpointer, shards)

    def _kept_by(self, kind: type[_Kept], shards: int = 0) -> _Kept | None:
        """Who saves this training, if it was asked for."""
        how = self.how
        if how.model is None or (how.every is None and not how.resume):
            return None
        params = {k: v for k, v in kept_parameters(self.estimator).items() if v is not None}
        for name in ("random_state", "verbose", "n_jobs"):
            params.pop(name, None)
        arrays: dict[str, np.ndarray] = {}
        task = {
            "learner": self._learner(),
            "schema": self.schema.to_json(),
            "files": [stamp and list(stamp) for stamp in self.data.source.stamps()],
            "parameters": encode(params, arrays, "parameters"),
            "arrays": [sha256(array.tobytes()).hexdigest() for array in arrays.values()],
            "passes": how.passes,
            "seed": how.seed,
            "held-out share": how.holdout,
            "scan": how.scan,
            "shards": shards,
        }
        return kind(checkpoint_path(how.model), how.every or Every(), task)

    def _learner(self) -> str:
        return LEARNERS.name_of(type(self.estimator)) or self.how.learner

    # ------------------------------------------------------------ telling

    def _on_reading(self, rows: int) -> None:
        self._tell("reading", rows, 0, 0)

    def _on_trial_of_race(self, trial: Any) -> None:
        """The race's losses are on validation rows, not on the held-out ones."""
        self.best_loss = min(self.best_loss, trial.loss)
        metrics = {"validation": self.best_loss} if np.isfinite(self.best_loss) else {}
        self._send(f"racing ({trial.runner})", trial.rows, None, 0, None, metrics, trial.size)

    def _on_trial_of_search(self, stage: str, trials: int, metrics: dict[str, Any]) -> None:
        """The scores are means over folds of rows that are not held out."""
        planned = self.how.tune
        self._send(stage, 0, None, trials, planned, metrics, 0)

    def _on_learning(self, rows: int, passes: int, nonzeros: int) -> None:
        self._tell("learning", rows, passes, nonzeros)

    def _tell(self, stage: str, rows: int, passes: int, nonzeros: int) -> None:
        metrics = {} if stage == "reading" else self.scores.metrics
        self._send(stage, rows, self.total, passes, self.planned, metrics, nonzeros)

    def _send(self, *facts: Any) -> None:
        if self.how.on_progress is not None:
            self.how.on_progress(Progress._make((*facts, time.perf_counter() - self.started)))

    def _story(self, model: Model, rows: int, in_memory: bool, status: Status) -> dict[str, Any]:
        """What is saved about the training, for people and for reports."""
        return {
            "data": self.data.name,
            "rows": int(rows),
            "held_out_rows": int(self.hold.size),
            "bad_rows": int(self.data.bad.count),
            "unlabelled_rows": None if self.labelled is None else int(rows - self.labelled),
            "features": int(self.schema.n_features),
            "in_memory": in_memory,
            "passes": int(model.estimator.n_iter_),
            "passes_given": self.how.passes,
            "learner": self._learner(),
            "described": model.described(),
            "size": model.function.describe(),
            "nonzeros": model.function.size,
            "groups": model.ranked_groups(),
            "status": status.name,
            "advice": str(status),
            "held_out": self.scores.metrics,
            "history": self.history,
            "reason": self.choice.reason if self.choice else "",
            "trials": self.choice.trials if self.choice else [],
            "tuning": self.choice.tuning if self.choice else None,
            "seed": self.how.seed,
            "holdout": self.how.holdout,
            "memory": self.how.memory,
            "workers": self.engine.describe() if self.engine else "",
            "seconds": round(time.perf_counter() - self.started, 3),
        }


def _estimator(schema: Schema, task: str, how: Training) -> Any:
    if how.budget is not None:
        if how.tuning is not None:
            raise ValueError("a budget races all learners, tune searches the settings of one: give "
                             "one of the two")  # fmt: skip
        if how.params or how.learner != "linear":
            raise ValueError("a budget finds the learner and its settings: do not give them too")
        if not how.budget > 0.0:
            raise ValueError(f"the budget must be a positive number of seconds, got {how.budget}")
    elif how.prefer != "accuracy":
        raise ValueError("prefer is about a race: give a budget with it")
    estimator = estimator_for(schema, task, how.learner, how.params, how.seed, how.task_column)
    if how.tuning is not None:
        how.tuning.check(estimator, task, how.every is not None or how.resume)
    return estimator


@contextmanager
def fitted_with(estimator: Any, **params: Any) -> Iterator[None]:
    """Other parameters for one fit: those that were given come back after it."""
    before = estimator.get_params(deep=False)
    estimator.set_params(**params)
    try:
        yield
    finally:
        estimator.set_params(**{name: before[name] for name in params})


def _emptied(batches: list[Batch]) -> Iterator[Batch]:
    """The windows are given back as they are copied side by side."""
    while batches:
        yield batches.pop(0)
